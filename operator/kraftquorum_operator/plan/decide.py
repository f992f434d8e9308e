"""The decision: from the wanted state and the observation to an action, a wait or done.

It depends on this observation only, so that it is the same after a crash, in a second
operator, or after another client did the step. The order is S24's: repair before
shrink before grow before roll. An earlier concern interrupts a later one, since the
operator remembers no operation.

Objects come first while there is no quorum, and the StatefulSet always does: a pod
that repair recreates has its template. The other objects come after the repairs that
are possible, but before the waits of a repair, which may last for days. So do the
certificates. Without a quorum they come before all but what brings pods back, since nodes without
them cannot answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kraftquorum_operator.judge.trust import Judged
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import (
    Action,
    ApplyObjects,
    Decision,
    Done,
    GrowClaim,
    Wait,
    describe,
)
from kraftquorum_operator.plan.budget import budget_count
from kraftquorum_operator.plan.certificates import certificates
from kraftquorum_operator.plan.deferral import roll_before_scale_up
from kraftquorum_operator.plan.formation import create, latch, raise_replicas, send_latch
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.quorum_loss import without_leader
from kraftquorum_operator.plan.replacement import repair, retire, retire_waits
from kraftquorum_operator.plan.rollout import await_tls, roll
from kraftquorum_operator.plan.scaling import (
    claim_owners,
    claim_records,
    grow,
    shrink,
    voters_counted,
)
from kraftquorum_operator.plan.stuck_pods import recreate_stuck_pod
from kraftquorum_operator.plan.volume_growth import await_volumes, grow_claim

Step = Callable[[Case], Action | Wait | None]

PREPARATION: tuple[Step, ...] = (create, raise_replicas, send_latch, recreate_stuck_pod, latch)
"""Steps that need no leader."""

UNCERTIFIED: tuple[Step, ...] = (raise_replicas, recreate_stuck_pod, certificates)
"""Without a leader: what brings pods back does not wait for Secrets that cannot be written."""

REPAIR: tuple[Step, ...] = (
    voters_counted,
    budget_count,
    claim_owners,
    claim_records,
    repair,
    retire,
)
"""Steps that keep a formed quorum healthy."""

OPERATION: tuple[Step, ...] = (
    shrink,
    roll_before_scale_up,
    grow,
    roll,
    await_tls,
    retire_waits,
)
"""Steps that change a healthy quorum, in the order of S24. A scale-up that the cluster has no room
for comes after the roll."""

PASSING = frozenset(
    guard.name
    for guard in (
        guards.all_blank_before_formation,
        guards.earlier_quorum_elects_leader,
        guards.majority_reachable,
        guards.leader_elected,
    )
)
"""Guards that a missing Service may cause to block."""


def decide(spec: QuorumSpec, observation: Judged, now_ms: int) -> Decision:
    """Decide the next step.

    Args:
        spec: the wanted state.
        observation: the observation, read after the last action and judged.
        now_ms: the operator's monotonic clock, which `silent_since_ms` uses too.
    """
    case = Case(spec, observation, now_ms)
    paused = first_block(case, guards.not_paused)
    if paused is not None:
        return _pause(paused, decide(spec.model_copy(update={"pause": False}), observation, now_ms))
    blocked = first_block(case, guards.objects_are_ours)
    if blocked is not None:
        return blocked
    first = tuple(
        ref
        for ref in observation.outdated
        if observation.quorum is None or ref.kind == "StatefulSet"
    )
    if first:
        return ApplyObjects(first)
    if observation.quorum is None and (step := _first(UNCERTIFIED, case)) is not None:
        return step
    prepared = _first(PREPARATION, case)
    if observation.quorum is None:
        decision = prepared or grow_claim(case) or without_leader(case)
        if isinstance(decision, Wait) and decision.guard in PASSING:
            return first_block(case, guards.objects_written) or decision
        return decision
    decision = prepared or first_block(case, guards.latch_and_quorum_agree) or _operate(case)
    if decision is not None:
        return decision
    blocked = first_block(case, *guards.VOTER_CHANGE, guards.formation_complete)
    # Nothing waits for volumes, so that they come last.
    blocked = blocked or await_volumes(case)
    if blocked is not None:
        return blocked
    return Done(f"{len(observation.quorum.voters)} voters, all caught up")


def reported(decision: Decision, spec: QuorumSpec, observation: Judged, now_ms: int) -> Decision:
    """What the status reports: while a growth is tried again, what a failure would leave.

    So a retry that fails again, perhaps for ever, changes no condition.
    """
    if not isinstance(decision, GrowClaim) or decision.uid not in observation.due_growths:
        return decision
    held = decide(spec, Judged(replace(observation, due_growths=frozenset())), now_ms)
    return held if isinstance(held, Wait | Done) else decision


def _pause(paused: Wait, held_back: Decision) -> Wait:
    """Wait for the end of the pause; the status still reports what the pause holds back."""
    match held_back:
        case Done():
            why = paused.why
        case Wait(guard, reason):
            why = f"{paused.why}; without it: {guard}: {reason}"
        case action:
            why = f"{paused.why}; without it: {describe(action)}"
    return Wait(paused.guard, why, held_back)


def _first(steps: tuple[Step, ...], case: Case) -> Action | Wait | None:
    return next((outcome for step in steps if (outcome := step(case)) is not None), None)


def _operate(case: Case) -> Action | Wait | None:
    repaired = _first(REPAIR, case)
    if repaired is None or isinstance(repaired, Wait):
        # An object that cannot be written leaves `outdated` for a while; a Secret with certificates
        # does not, so it comes second.
        if case.observation.outdated:
            return ApplyObjects(case.observation.outdated)
        # A disk that fills or a certificate that expires during a long wait would stop the nodes.
        repaired = grow_claim(case) or certificates(case) or repaired
    return repaired or first_block(case, guards.objects_written) or _first(OPERATION, case)
