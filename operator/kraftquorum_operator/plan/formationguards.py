"""The guards of formation: a quorum is formed once, and only where there has been none."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.observe.snapshot import Claim, Replica, Snapshot, majority
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guarding import guard, replica_names


def named_voters(seen: Snapshot) -> tuple[tuple[Replica, ...], str]:
    """The voters as people know them, and where that is from: for sentences, not for judgements."""
    if told := seen.told_voters():
        return told, ""
    if seen.last is not None and seen.last.voters:
        return seen.last.voters, f", as last known at {seen.last.at or 'an unknown time'}"
    return seen.known_voters(), ", the first voters"


@guard
def claims_are_ours(case: Case) -> str | None:
    """The operator puts no pod on a volume claim of another or of an unknown owner.

    A StatefulSet takes any claim that has the name. A claim is this quorum's, or an earlier
    one's of the name, by its labels, by what was recorded on it or on the StatefulSet, or by its
    pod. One without any of these may hold a voter that lost its labels: put the labels
    `app.kubernetes.io/name=kraftquorum` and `app.kubernetes.io/instance` with the quorum's name
    on it if it is. Else give the resource another name.
    """
    seen, begun = case.seen, case.seen.latch is not None or case.quorum is not None
    for claim in _strangers(seen):
        if claim.doubtful and (not begun or claim.ordinal < case.replicas):
            return _why_doubtful(seen, claim)
        if claim.ordinal < case.replicas:
            return f"claim {claim.name} belongs to {claim.stranger}: give the resource another name"
    return None


def doubtful_claim(seen: Snapshot) -> str | None:
    """What a person can do about a claim that may hold a voter that is missed; None: none may."""
    return next((_why_doubtful(seen, c) for c in _strangers(seen) if c.doubtful), None)


def _strangers(seen: Snapshot) -> list[Claim]:
    """The claims that are not known to be ours; a first voter's is, whatever it has lost."""
    replicas = seen.statefulset.replicas if seen.statefulset is not None else 0
    first = {voter.replica.node_id for voter in seen.latch.voters} if seen.latch else set[int]()
    return [
        claim
        for claim in seen.claims
        if claim.stranger
        and claim.ordinal >= replicas
        and not (claim.doubtful and claim.ordinal in first)
    ]


def _why_doubtful(seen: Snapshot, claim: Claim) -> str:
    labels = f"{names.LABEL_APP}={names.APP} {names.LABEL_INSTANCE}={seen.name}"
    return (
        f"claim {claim.name} has a name of this quorum and nothing on it says whose it is: if it "
        f"holds a replica's data, label it ({labels}); else give the resource another name"
    )


@guard
def no_earlier_claims(case: Case) -> str | None:
    """No claim of this quorum's name is left from an earlier resource (S18).

    With old claims no new quorum is formed, since they may hold the only copy of its data: it
    is adopted when its replicas elect a leader. If they cannot, bring back what they lack
    (see [quorum-loss](../operations/quorum-loss.md)), or give the resource another name.
    """
    earlier = [
        claim.name
        for claim in case.seen.claims
        if claim.owner_uid != case.seen.uid and not claim.stranger
    ]
    if not earlier:
        return None
    return (
        f"claims of an earlier resource exist: {', '.join(earlier)}; they may hold the only copy "
        "of its data, so no other quorum is formed; they are adopted once their replicas elect a "
        "leader"
    )


@guard
def all_blank_before_formation(case: Case) -> str | None:
    """Every first voter has answered that it is blank (S18)."""
    for ordinal in range(case.spec.voters):
        node = case.seen.node(ordinal)
        if node is None:
            pod = case.seen.pod(ordinal)
            detail = f": {pod.detail}" if pod and pod.detail else ""
            return f"replica {ordinal} has not answered yet{detail}"
        if not node.blank:
            return f"replica {node.replica} already belongs to cluster {node.cluster_id}"
    return None


def _may_know_better(seen: Snapshot) -> bool:
    """Whether no replica told its voters yet and one may that the latch does not list.

    The latch's set is the first one; the voters of today may be on other claims.
    """
    if seen.latch is None or any(not node.blank and node.voters for node in seen.nodes):
        return False
    listed = {voter.replica.node_id for voter in seen.latch.voters}
    return any(
        claim.phase == "Bound" and claim.ordinal not in listed and seen.node(claim.ordinal) is None
        for claim in seen.claims
    )


@guard
def never_rebootstrap(case: Case) -> str | None:
    """Where a quorum has been, no new one is ever formed by the operator.

    Blocks when the storage of a majority of the last known voters is known to be lost, or, where
    the last voters are not known, when no claim can hold their data. `status.nodes` says which
    replicas hold which offsets and epochs; a person must decide
    (see [quorum-loss](../operations/quorum-loss.md)).
    """
    seen = case.seen
    known = seen.known_voters()
    if not known:
        if seen.remembered_cluster_id is None or seen.may_hold_data():
            return None
        return (
            f"the status remembers cluster {seen.remembered_cluster_id}, whose latch and data are "
            "gone; a person must decide"
        )
    gone = tuple(replica for replica in known if seen.is_storage_gone(replica))
    if len(known) - len(gone) >= majority(len(known)) or _may_know_better(seen):
        return None
    named, source = named_voters(seen)
    lost = tuple(replica for replica in named if seen.is_storage_gone(replica))
    if len(named) - len(lost) >= majority(len(named)):
        named, lost, source = known, gone, ""
    holders = "; ".join(
        f"{node.replica} holds epoch {node.epoch} to offset {node.log_end_offset}"
        for node in seen.nodes
        if not node.blank
    )
    return (
        f"storage of {len(lost)} of {len(named)} voters is gone ({replica_names(lost)}{source}); "
        f"{holders or 'no replica holds data'}; a person must decide"
    )


@guard
def earlier_quorum_elects_leader(case: Case) -> str | None:
    """Where a quorum has been whose latch is missing, its replicas elect a leader first.

    The latch is then made again for that quorum. Blocks as long as a replica holds data, or the
    status remembers a cluster id and a claim may hold its data, and no leader has answered.
    """
    seen = case.seen
    if seen.latch is not None or seen.quorum is not None:
        return None
    data = tuple(node.replica for node in seen.nodes if not node.blank)
    if not data and seen.remembered_cluster_id is None:
        return None
    which = f"cluster {seen.remembered_cluster_id}" if seen.remembered_cluster_id else "a quorum"
    holders = f"; {replica_names(data)} hold data of it" if data else ""
    return f"the latch of {which} is missing, and no leader has answered yet{holders}"


@guard
def latch_and_quorum_agree(case: Case) -> str | None:
    """The quorum that answers has the latched cluster id."""
    latch, quorum = case.seen.latch, case.quorum
    if latch is None or quorum is None or latch.cluster_id == quorum.cluster_id:
        return None
    return f"the latch names cluster {latch.cluster_id}, the quorum is {quorum.cluster_id}"


@guard
def formation_complete(case: Case) -> str | None:
    """All first voters have the first batch, so that clients may write (P52).

    Until then only repairs are made.
    """
    if case.quorum is not None and case.quorum.formation_completed:
        return None
    return "the first voters do not all have the first records yet"
