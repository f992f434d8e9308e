"""The one decision: what is wanted and observed in; an action, a wait or done out.

Derived from this observation alone, so that it is the same after a crash, in a
second operator, or when somebody else did the step. The order is S24's: repair
before shrink before grow before roll; whatever comes first in it gives up what
comes later, since nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Callable

from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.snapshot import Snapshot
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Action, ApplyObjects, Decision, Done, Wait
from kraftquorum_operator.plan.copies import distrust
from kraftquorum_operator.plan.deletion import delete
from kraftquorum_operator.plan.formation import create, latch, raise_replicas, send_latch
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.quorum_loss import without_leader
from kraftquorum_operator.plan.recovery import repair, retire, retire_waits
from kraftquorum_operator.plan.rollout import roll
from kraftquorum_operator.plan.scaling import (
    claim_owners,
    claim_records,
    grow,
    shrink,
    voter_labels,
)

Step = Callable[[Case], Action | Wait | None]

PREPARATION: tuple[Step, ...] = (create, raise_replicas, send_latch, latch)
"""What needs no leader."""

OPERATION: tuple[Step, ...] = (
    voter_labels,
    claim_owners,
    claim_records,
    repair,
    retire,
    shrink,
    grow,
    roll,
    retire_waits,
)
"""What a formed quorum may need, in the order of S24."""


def decide(spec: QuorumSpec, seen: Snapshot, now_ms: int) -> Decision:
    """Decide the next step.

    Args:
        spec: what is wanted.
        seen: what is there, read after the last action.
        now_ms: the operator's monotonic clock, the one that `silent_since_ms` is on.
    """
    seen = distrust(seen)
    case = Case(spec, seen, now_ms)
    if seen.deleting:
        return delete(case)
    blocked = first_block(case, guards.not_paused, guards.objects_are_ours)
    if blocked is not None:
        return blocked
    if seen.outdated:
        return ApplyObjects(seen.outdated)
    for step in PREPARATION:
        if (decision := step(case)) is not None:
            return decision
    if seen.quorum is None:
        return without_leader(case)
    blocked = first_block(case, guards.latch_and_quorum_agree)
    if blocked is not None:
        return blocked
    for step in OPERATION:
        if (decision := step(case)) is not None:
            return decision
    blocked = first_block(case, *guards.VOTER_CHANGE, guards.formation_complete)
    if blocked is not None:
        return blocked
    return Done(f"{len(seen.quorum.voters)} voters, all caught up")
