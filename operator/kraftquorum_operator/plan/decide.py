"""The one decision: what is wanted and observed in; an action, a wait or done out.

Derived from this observation alone, so that it is the same after a crash, in a
second operator, or when somebody else did the step. The order is S24's: repair
before shrink before grow before roll; whatever comes first in it gives up what
comes later, since nothing is remembered.

Objects come first while there is no quorum, and so does the StatefulSet always: a
pod that repair makes again is made of its template. The others come after what
repair can do, but before what it waits for, which may last for days.
"""

from __future__ import annotations

from collections.abc import Callable

from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.copies import distrust
from kraftquorum_operator.observe.disks import distrust_damaged
from kraftquorum_operator.observe.snapshot import Snapshot
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Action, ApplyObjects, Decision, Done, Wait, describe
from kraftquorum_operator.plan.formation import create, latch, raise_replicas, send_latch
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.quorum_loss import without_leader
from kraftquorum_operator.plan.recovery import repair, retire, retire_waits
from kraftquorum_operator.plan.rollout import roll
from kraftquorum_operator.plan.scaling import (
    budget_count,
    claim_owners,
    claim_records,
    grow,
    shrink,
    voter_labels,
)
from kraftquorum_operator.plan.stuck import exchange

Step = Callable[[Case], Action | Wait | None]

PREPARATION: tuple[Step, ...] = (create, raise_replicas, send_latch, exchange, latch)
"""What needs no leader."""

REPAIR: tuple[Step, ...] = (voter_labels, budget_count, claim_owners, claim_records, repair, retire)
"""What a formed quorum needs to stay well."""

OPERATION: tuple[Step, ...] = (shrink, grow, roll, retire_waits)
"""What a formed and well quorum may need, in the order of S24."""

PASSING = frozenset(
    {
        "all_blank_before_formation",
        "earlier_quorum_elects_leader",
        "majority_reachable",
        "leader_elected",
    }
)
"""Guards that a missing Service may be behind."""


def decide(spec: QuorumSpec, seen: Snapshot, now_ms: int) -> Decision:
    """Decide the next step.

    Args:
        spec: what is wanted.
        seen: what is there, read after the last action.
        now_ms: the operator's monotonic clock, the one that `silent_since_ms` is on.
    """
    seen = distrust_damaged(distrust(seen))
    case = Case(spec, seen, now_ms)
    paused = first_block(case, guards.not_paused)
    if paused is not None:
        return _pause(paused, decide(spec.model_copy(update={"pause": False}), seen, now_ms))
    blocked = first_block(case, guards.objects_are_ours)
    if blocked is not None:
        return blocked
    first = tuple(k for k in seen.outdated if seen.quorum is None or k.startswith("StatefulSet/"))
    if first:
        return ApplyObjects(first)
    prepared = _first(PREPARATION, case)
    if seen.quorum is None:
        decision = prepared or without_leader(case)
        if isinstance(decision, Wait) and decision.guard in PASSING:
            return first_block(case, guards.objects_written) or decision
        return decision
    decision = prepared or first_block(case, guards.latch_and_quorum_agree) or _operate(case)
    if decision is not None:
        return decision
    blocked = first_block(case, *guards.VOTER_CHANGE, guards.formation_complete)
    if blocked is not None:
        return blocked
    return Done(f"{len(seen.quorum.voters)} voters, all caught up")


def _pause(paused: Wait, held_back: Decision) -> Wait:
    """Wait for the pause to end, with what it holds back: the status goes on telling that."""
    match held_back:
        case Done():
            why = paused.why
        case Wait(guard, reason):
            why = f"{paused.why}; without it: {guard}: {reason}"
        case action:
            why = f"{paused.why}; without it: {describe(action)}"
    return Wait(paused.guard, why, held_back)


def _first(steps: tuple[Step, ...], case: Case) -> Action | Wait | None:
    return next((found for step in steps if (found := step(case)) is not None), None)


def _operate(case: Case) -> Action | Wait | None:
    repaired = _first(REPAIR, case)
    if case.seen.outdated and (repaired is None or isinstance(repaired, Wait)):
        return ApplyObjects(case.seen.outdated)
    return repaired or first_block(case, guards.objects_written) or _first(OPERATION, case)
