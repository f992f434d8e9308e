"""No leader answers: distinguishes a quorum that can recover from one that is lost.

What must not live here: any action. The operator never forms a quorum again; it
reports what each replica holds, and a person decides.
"""

from __future__ import annotations

from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Wait
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.stuck_pods import why_not_recreated


def without_leader(case: Case) -> Wait:
    """Why there is no leader, the gravest reason first."""
    lost = first_block(case, guards.never_rebootstrap)
    if lost is not None:
        return lost
    silent = first_block(case, guards.majority_reachable)
    if silent is not None:
        return why_not_recreated(case) or _name_doubtful_claim(case, silent)
    return first_block(case, guards.leader_elected) or Wait(
        guards.leader_elected.name, "a leader has just answered; the operator observes it again"
    )


def _name_doubtful_claim(case: Case, silent: Wait) -> Wait:
    """A missing voter may be on a claim that has lost its labels."""
    doubt = guards.doubtful_claim(case.observation)
    return silent if doubt is None else Wait(silent.guard, f"{silent.why}; {doubt}")
