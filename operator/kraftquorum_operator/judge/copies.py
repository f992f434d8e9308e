"""Volumes that were restored from a copy, found by the claim that they are on (S3).

A volume that was restored from a snapshot or a backup lacks votes and acknowledged
records, under a directory id that is still a voter. So the operator records each
replica before it becomes a voter, or when it is first observed as one. It records
directory id and claim UID on the claim itself, where a copy of the claim has the UID
of the original, and on the StatefulSet, for a recreated claim without annotations.
Pure.

What must not live here: the status as input, or a guess. A replica without a record
on the claim and on the StatefulSet is from before there were records, and is trusted
once. The claim's record counts before that of the StatefulSet, so that a person can
accept a volume by annotating its claim.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import (
    Claim,
    ClaimRecord,
    Node,
    Observation,
    ReplicaId,
    StatefulSet,
)


def voters_of(observation: Observation) -> frozenset[ReplicaId]:
    """All voters, in force or committed; without a leader the last known ones."""
    if observation.quorum is None:
        return frozenset(observation.known_voters())
    return frozenset((*observation.quorum.replicas, *observation.quorum.committed))


def why_copied(observation: Observation, node: Node) -> str | None:
    """Why the storage that answers is not the one that was recorded; None if it may be."""
    claim, statefulset = observation.claim(node.replica.node_id), observation.statefulset
    if claim is None or statefulset is None or node.blank:
        return None
    if node.replica in voters_of(observation):
        return _why_voter(node.replica, claim, statefulset)
    return _why_other(node.replica, claim, statefulset)


def _why_voter(replica: ReplicaId, claim: Claim, statefulset: StatefulSet) -> str | None:
    """A replica was recorded before it became a voter, or is from before there were records."""
    wanted = ClaimRecord(replica.directory_id, claim.uid)
    on_claim, last = claim.record, statefulset.record(replica.node_id)
    if on_claim is not None:
        if on_claim.claim_uid != claim.uid:
            return f"claim {claim.name} is a copy of claim {on_claim.claim_uid}"
        if on_claim.directory_id != replica.directory_id:
            return (
                f"voter {replica} answers from claim {claim.name}, on which directory id "
                f"{on_claim.directory_id} was recorded"
            )
        return None
    if last is None or last == wanted:
        return None
    return f"voter {replica} answers from claim {claim.name}, which is not the recorded one"


def _why_other(replica: ReplicaId, claim: Claim, statefulset: StatefulSet) -> str | None:
    """Not a voter: a new directory id on any claim is fine, a recorded one on another is not."""
    known = [claim.record, statefulset.record(replica.node_id)]
    if claim.record == ClaimRecord(replica.directory_id, claim.uid):
        return None
    for record in known:
        if record is not None and record.directory_id == replica.directory_id:
            return f"replica {replica} was recorded on claim {record.claim_uid}, not on this one"
    return None


def copied_voters(observation: Observation) -> tuple[ReplicaId, ...]:
    """The voters that answer from a volume that was restored from a copy."""
    voters = voters_of(observation)
    return tuple(
        node.replica
        for node in observation.nodes
        if node.replica in voters and why_copied(observation, node) is not None
    )


def unrecorded(observation: Observation, replica: ReplicaId) -> tuple[str, int, ClaimRecord] | None:
    """What is to be recorded about a replica; None if it is, or must not be."""
    node, claim = observation.node(replica.node_id), observation.claim(replica.node_id)
    if node is None or claim is None or observation.statefulset is None or node.replica != replica:
        return None
    wanted = ClaimRecord(replica.directory_id, claim.uid)
    last = observation.statefulset.record(replica.node_id)
    if claim.terminating or (claim.record, last) == (wanted, wanted):
        return None
    return None if why_copied(observation, node) else (claim.name, claim.ordinal, wanted)
