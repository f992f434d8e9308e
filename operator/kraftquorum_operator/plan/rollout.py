"""Restarting pods whose template changed: followers one by one, the leader last."""

from __future__ import annotations

from kraftquorum_operator.observe.snapshot import Pod
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Action, DeletePod, Wait
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.recovery import move_leadership


def roll(case: Case) -> Action | Wait | None:
    """Restart the next outdated pod, if all voters are well; None when none is outdated."""
    statefulset, quorum = case.seen.statefulset, case.seen.quorum
    if statefulset is None or quorum is None or statefulset.revision is None:
        return None
    outdated = [p for p in case.seen.pods if p.revision not in {None, statefulset.revision}]
    if not outdated:
        return None

    def leads(pod: Pod) -> bool:
        return pod.ordinal == quorum.leader.node_id

    pod = min(outdated, key=lambda p: (leads(p), p.ready, -p.ordinal))
    old = quorum.leader if leads(pod) else None
    subject = Case(case.spec, case.seen, case.now_ms, ordinal=pod.ordinal, old=old)
    wait = first_block(
        subject,
        guards.formation_complete,
        guards.confirmed_voters_required,
        guards.one_voter_change_at_a_time,
        guards.all_voters_caught_up,
    )
    if wait is not None:
        return wait
    if leads(pod) and len(quorum.voters) > 1:
        return move_leadership(subject)
    if pod.terminating:
        return first_block(subject, guards.node_answers)
    return DeletePod(pod.name, pod.uid, "its template is outdated")
