"""The guards of formation: the operator forms a quorum once, and only if there was none before."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.observation import Claim, Observation, ReplicaId, majority
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guard import guard, replica_names


def named_voters(observation: Observation) -> tuple[tuple[ReplicaId, ...], str]:
    """The voters to name in a message, and the source of that list. No decision depends on it."""
    if voters := observation.reported_voters():
        return voters, ""
    if observation.last is not None and observation.last.voters:
        return (
            observation.last.voters,
            f", as last known at {observation.last.at or 'an unknown time'}",
        )
    return observation.known_voters(), ", the first voters"


@guard(needs_person=True, formation="blocked")
def claims_are_ours(case: Case) -> str | None:
    """The operator starts no pod on a PersistentVolumeClaim of another or of an unknown owner.

    A StatefulSet uses any claim that has the expected name. The operator identifies a claim of this
    quorum, or of an earlier quorum of this name, by its labels, by what was recorded on it or on
    the StatefulSet, or by its pod. A claim without any of these may hold a voter whose claim lost
    its labels. If it does, put the labels `app.kubernetes.io/name=kraftquorum` and
    `app.kubernetes.io/instance` with the quorum's name on it. Otherwise give the resource another
    name.
    """
    observation, begun = (
        case.observation,
        case.observation.latch is not None or case.quorum is not None,
    )
    for claim in _foreign_claims(observation):
        if claim.doubtful and (not begun or claim.ordinal < case.replicas):
            return _why_doubtful(observation, claim)
        if claim.ordinal < case.replicas:
            return (
                f"claim {claim.name} belongs to {claim.foreign_owner}: give the resource another "
                "name"
            )
    return None


def doubtful_claim(observation: Observation) -> str | None:
    """What to do about a claim that may hold a missing voter; None if there is no such claim."""
    return next(
        (_why_doubtful(observation, c) for c in _foreign_claims(observation) if c.doubtful), None
    )


def _foreign_claims(observation: Observation) -> list[Claim]:
    """The claims that are not known to be ours; a first voter's is ours even without labels."""
    replicas = observation.statefulset.replicas if observation.statefulset is not None else 0
    first = (
        {voter.replica.node_id for voter in observation.latch.voters}
        if observation.latch
        else set[int]()
    )
    return [
        claim
        for claim in observation.claims
        if claim.foreign_owner
        and claim.ordinal >= replicas
        and not (claim.doubtful and claim.ordinal in first)
    ]


def _why_doubtful(observation: Observation, claim: Claim) -> str:
    labels = f"{names.LABEL_APP}={names.APP} {names.LABEL_INSTANCE}={observation.name}"
    return (
        f"claim {claim.name} is named like a claim of this quorum and nothing on it identifies its "
        f"owner: if it holds a replica's data, label it ({labels}); otherwise give the resource "
        "another name"
    )


@guard(needs_person=True, formation="blocked")
def no_earlier_claims(case: Case) -> str | None:
    """No claim of this quorum's name is left from an earlier resource.

    Old claims may hold the only copy of the earlier quorum's data, so the operator forms no new
    quorum. It adopts the earlier quorum when its replicas elect a leader. If they cannot, restore
    what they lack (see [quorum-loss](../operations/quorum-loss.md)), or give the resource another
    name.
    """
    # S18.
    earlier = [
        claim.name
        for claim in case.observation.claims
        if claim.owner_uid != case.observation.uid and not claim.foreign_owner
    ]
    if not earlier:
        return None
    return (
        f"claims of an earlier resource exist: {', '.join(earlier)}; they may hold the only copy "
        "of its data, so the operator forms no other quorum; it adopts them once their replicas "
        "elect a leader"
    )


@guard(formation="waits")
def all_blank_before_formation(case: Case) -> str | None:
    """Every first voter has answered that its storage is blank."""
    # S18.
    for ordinal in range(case.spec.voters):
        node = case.observation.node(ordinal)
        if node is None:
            pod = case.observation.pod(ordinal)
            detail = f": {pod.detail}" if pod and pod.detail else ""
            return f"replica {ordinal} has not answered yet{detail}"
        if not node.blank:
            return f"replica {node.replica} already belongs to cluster {node.cluster_id}"
    return None


def _may_have_newer_voters(observation: Observation) -> bool:
    """Whether no replica has reported its voters yet, and a replica outside the latch may.

    The latch lists the first voters; the current voters may be on other claims.
    """
    if observation.latch is None or any(
        not node.blank and node.voters for node in observation.nodes
    ):
        return False
    listed = {voter.replica.node_id for voter in observation.latch.voters}
    return any(
        claim.phase == "Bound"
        and claim.ordinal not in listed
        and observation.node(claim.ordinal) is None
        for claim in observation.claims
    )


@guard(needs_person=True, formation="blocked")
def never_rebootstrap(case: Case) -> str | None:
    """The operator never forms a new quorum in place of an earlier one.

    Blocks when the storage of a majority of the last known voters is known to be lost. If the last
    voters are not known, it blocks when no claim can hold their data. `status.nodes` shows which
    replicas hold which offsets and epochs; a person must decide
    (see [quorum-loss](../operations/quorum-loss.md)).
    """
    observation = case.observation
    known = observation.known_voters()
    if not known:
        if observation.remembered_cluster_id is None or observation.may_hold_data():
            return None
        return (
            f"the status names cluster {observation.remembered_cluster_id}, whose latch and data "
            "are gone; a person must decide"
        )
    gone = tuple(replica for replica in known if observation.is_storage_gone(replica))
    if len(known) - len(gone) >= majority(len(known)) or _may_have_newer_voters(observation):
        return None
    named, source = named_voters(observation)
    lost = tuple(replica for replica in named if observation.is_storage_gone(replica))
    if len(named) - len(lost) >= majority(len(named)):
        named, lost, source = known, gone, ""
    holders = "; ".join(
        f"{node.replica} holds epoch {node.epoch} to offset {node.log_end_offset}"
        for node in observation.nodes
        if not node.blank
    )
    return (
        f"storage of {len(lost)} of {len(named)} voters is gone ({replica_names(lost)}{source}); "
        f"{holders or 'no replica holds data'}; a person must decide"
    )


@guard(formation="waits")
def earlier_quorum_elects_leader(case: Case) -> str | None:
    """If the latch of an earlier quorum is missing, its replicas elect a leader first.

    The operator then recreates the latch for that quorum. Until a leader has answered, this blocks
    if a replica holds data, or if the status names a cluster id and a claim may hold its data.
    """
    observation = case.observation
    if observation.latch is not None or observation.quorum is not None:
        return None
    data = tuple(node.replica for node in observation.nodes if not node.blank)
    if not data and observation.remembered_cluster_id is None:
        return None
    which = (
        f"cluster {observation.remembered_cluster_id}"
        if observation.remembered_cluster_id
        else "a quorum"
    )
    holders = f"; {replica_names(data)} hold its data" if data else ""
    return f"the latch of {which} is missing, and no leader has answered yet{holders}"


@guard(needs_person=True)
def latch_and_quorum_agree(case: Case) -> str | None:
    """The quorum that answers has the cluster id of the latch."""
    latch, quorum = case.observation.latch, case.quorum
    if latch is None or quorum is None or latch.cluster_id == quorum.cluster_id:
        return None
    return f"the latch names cluster {latch.cluster_id}, but the quorum is {quorum.cluster_id}"


@guard()
def formation_complete(case: Case) -> str | None:
    """All first voters have the first batch, so that clients may write.

    Until then the operator only makes repairs.
    """
    # P52.
    if case.quorum is not None and case.quorum.formation_completed:
        return None
    return "not all first voters have the first records yet"
