"""More voters or fewer: one at a time, each confirmed, highest ordinal first on the way down.

Node ids are ordinals, so the wanted voters are the ids below `spec.voters`.
What must not live here: repair of a wanted voter (`replacement.py`).
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.judge.copies import unrecorded
from kraftquorum_operator.judge.scale_up import next_ordinal
from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.observation import Progress, ReplicaId
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import (
    Action,
    CountPod,
    DeleteClaim,
    RecordClaims,
    RemoveVoter,
    SetClaimOwner,
    SetReplicas,
    Wait,
)
from kraftquorum_operator.plan.budget import missed_count
from kraftquorum_operator.plan.guards import VOTER_CHANGE, Case, first_block
from kraftquorum_operator.plan.replacement import admit, move_leadership


def voters_counted(case: Case) -> Action | None:
    """Have the disruption budget count the pods of the committed voters and no other (S22).

    A pod is counted once AddVoter is committed. Here the operator takes out only a pod whose
    replica is no voter; `shrink` takes out a pod that is to be removed. A silent or missing pod may
    be a voter's as long as there is a voter of its node id.
    """
    quorum, budget = case.observation.quorum, case.observation.budget
    if quorum is None or not quorum.confirmed or not quorum.record_committed:
        return None
    if ObjectRef("PodDisruptionBudget", case.observation.name) in dict(case.observation.refused):
        return None  # no repair waits for it
    version = budget.version if budget is not None else None
    ids = {replica.node_id for replica in (*quorum.replicas, *quorum.committed)}
    for pod in case.observation.pods:
        if pod.terminating:
            continue
        node = case.observation.node(pod.ordinal)
        voter = node is not None and node.replica in quorum.committed and not node.blank
        listed = budget is not None and budget.pods is not None
        if listed and voter and not pod.counted and pod.ordinal < case.spec.voters:
            return CountPod(pod.name, voter=True, version=version)
        known = node is not None or pod.ordinal not in ids
        if known and not voter and pod.counted:
            return CountPod(pod.name, voter=False, version=version)
    kept = {pod.name for pod in case.observation.pods}
    kept |= {names.pod(case.observation.name, ordinal) for ordinal in ids}
    selected = budget.pods or () if budget is not None else ()
    left = [name for name in selected if name not in kept]
    return CountPod(left[0], voter=False, version=version) if left else None


def claim_owners(case: Case) -> Action | None:
    """Mark the claims of an adopted quorum as ours, once their replicas are known to be in it."""
    quorum = case.observation.quorum
    if quorum is None or not quorum.confirmed:
        return None
    for node in case.observation.nodes:
        claim = case.observation.claim(node.replica.node_id)
        if claim is None or claim.terminating or claim.owner_uid == case.observation.uid:
            continue
        if node.cluster_id == quorum.cluster_id:
            return SetClaimOwner(claim.name, claim.uid)
    return None


def claim_records(case: Case) -> Action | None:
    """Record the claims of caught-up voters that are not recorded yet (S3).

    These are voters of a quorum that just formed or was adopted, or from before there were records;
    the operator records all others before they become voters.
    """
    quorum, statefulset = case.observation.quorum, case.observation.statefulset
    if quorum is None or statefulset is None or not quorum.confirmed:
        return None
    records = [
        record
        for voter in quorum.voters
        if voter.fresh
        and voter.replica in quorum.committed
        and (record := unrecorded(case.observation, voter.replica)) is not None
    ]
    return RecordClaims(statefulset.uid, tuple(records)) if records else None


def shrink(case: Case) -> Action | Wait | None:
    """Remove the next voter that is not wanted, then its pod, then, if configured, its claim.

    While a wanted voter is missing, the wanted number of voters stays: that voter is added first.
    """
    quorum = case.observation.quorum
    if quorum is None:
        return None
    present = {replica.node_id for replica in quorum.replicas}
    if len(present) <= case.spec.voters and present != set(range(case.spec.voters)):
        return None
    excess = [voter for voter in quorum.voters if voter.replica.node_id >= case.spec.voters]
    if excess:
        # Those that do not count anyway first, then the highest ordinal.
        return _remove_voter(case, min(excess, key=lambda v: (v.fresh, -v.replica.node_id)))
    return _lower_replicas(case) or _delete_kept_claim(case)


def _remove_voter(case: Case, voter: Progress) -> Action | Wait:
    quorum, old = case.observation.quorum, voter.replica
    if quorum is None:
        return Wait(guards.leader_elected.name, "no leader has answered yet")
    subject = Case(case.spec, case.observation, case.now_ms, ordinal=old.node_id, old=old)
    wait = first_block(
        subject,
        guards.formation_complete,
        *VOTER_CHANGE,
        guards.heal_before_shrink,
        guards.majority_survives_removal,
    )
    if wait is not None:
        return wait
    if case.must_resign(old):
        return move_leadership(subject)
    uncounted = first_block(subject, guards.budget_counts_voters)
    if uncounted is not None:
        uncounted = missed_count(subject) or uncounted
    return _uncount(case, subject, old) or uncounted or RemoveVoter(old, quorum.basis)


def _uncount(case: Case, subject: Case, old: ReplicaId) -> Action | None:
    node, budget = case.observation.node(subject.ordinal), case.observation.budget
    if node is not None and node.replica != old:
        return None
    if guards.pod_uncounted_before_removal(subject) is None:
        return None
    name = names.pod(case.observation.name, subject.ordinal)
    return CountPod(name, voter=False, version=budget.version if budget else None)


def _lower_replicas(case: Case) -> Action | Wait | None:
    statefulset, quorum = case.observation.statefulset, case.observation.quorum
    if statefulset is None or quorum is None:
        return None
    leaving = [pod.ordinal for pod in case.observation.pods if pod.ordinal >= statefulset.replicas]
    if leaving:
        ordinal = max(leaving)
        subject = Case(case.spec, case.observation, case.now_ms, ordinal=ordinal)
        return first_block(subject, guards.pod_gone_before_next_step)
    if statefulset.replicas <= case.spec.voters:
        return None
    fewer = statefulset.replicas - 1
    subject = Case(case.spec, case.observation, case.now_ms, ordinal=fewer, replicas=fewer)
    wait = first_block(
        subject,
        guards.replicas_never_below_highest_voter,
        guards.confirmed_voters_required,
        guards.one_voter_change_at_a_time,
        guards.pod_uncounted_before_removal,
    )
    return wait or SetReplicas(statefulset.uid, statefulset.resource_version, fewer)


def _delete_kept_claim(case: Case) -> Action | None:
    statefulset = case.observation.statefulset
    if case.spec.claim_retention != "Delete" or statefulset is None:
        return None
    for claim in reversed(case.observation.claims):
        if claim.ordinal < statefulset.replicas or claim.terminating:
            continue
        subject = Case(case.spec, case.observation, case.now_ms, ordinal=claim.ordinal)
        wait = first_block(
            subject,
            guards.confirmed_voters_required,
            guards.pod_gone_before_next_step,
            guards.fresh_claim_uid,
            guards.claim_deletion_accepted,
        )
        if wait is None:
            return DeleteClaim(
                claim.name, claim.uid, "its replica was removed and claimRetention is Delete"
            )
    return None


def grow(case: Case) -> Action | Wait | None:
    """Add the lowest wanted voter that is missing: its pod first, then join, catch up, add."""
    quorum, statefulset = case.observation.quorum, case.observation.statefulset
    if quorum is None or statefulset is None:
        return None
    ordinal = next_ordinal(case.observation, case.spec.voters)
    if ordinal is None:
        return None
    subject = Case(case.spec, case.observation, case.now_ms, ordinal=ordinal)
    wait = first_block(subject, guards.formation_complete)
    if wait is not None:
        return wait
    if statefulset.replicas <= ordinal:
        raised = Case(case.spec, case.observation, case.now_ms, replicas=ordinal + 1)
        blocked = first_block(raised, guards.claims_are_ours, guards.certificates_issued)
        if blocked is not None:
            return blocked
        return SetReplicas(statefulset.uid, statefulset.resource_version, ordinal + 1)
    return admit(case, ordinal, replaces=None)
