"""The core's state as the API shows it."""

from __future__ import annotations

import copy
from typing import cast

from raftnode.api.model import (
    ListenerCertificate,
    NodeInfo,
    PendingChange,
    QuorumInfo,
    ReassignmentInfo,
    Replica,
    ReplicaProgress,
    Role,
    StorageInfo,
    VoterRecord,
)
from raftnode.core.config import CoreConfig
from raftnode.core.describe import QuorumDescription, ReplicaDescription
from raftnode.core.membership.pending_change import PendingChange as CoreChange
from raftnode.core.replica import Replica as CoreReplica
from raftnode.core.replication.leadership import epoch_committed
from raftnode.core.roles import Follower, Leader, Unattached, role_name
from raftnode.core.types import Endpoint, VoterRecordId, format_directory_id
from raftnode.runtime import reason_sentences
from raftnode.runtime.process import clock


def present(replica: CoreReplica) -> CoreReplica:
    """Return a copy of the replica with the current time, for reading only.

    The replica's own time is the time of its last event. A leader that hears from no other
    replica has no event until it resigns: by that time the others would look caught up until then.
    """
    shown = copy.copy(replica)
    shown.now_ms = max(replica.now_ms, clock.now_ms())
    return shown


def role_of(replica: CoreReplica) -> Role:
    """The role as the API names it: a fetching replica outside the voter set is an observer."""
    if isinstance(replica.role, Unattached | Follower) and not replica.is_voter:
        return "observer"
    return cast("Role", role_name(replica.role))


def is_caught_up(replica: CoreReplica, config: CoreConfig) -> bool:
    """Readiness: attached to a leader, at most a fetch timeout behind it, on a disk that works."""
    if replica.has_stalled_disk:
        return False
    match replica.role:
        case Leader() as role:
            return epoch_committed(replica, role)
        case Follower(caught_up_at_ms=int(at)):
            return replica.now_ms - at <= config.fetch_timeout_ms
        case _:
            return False


def describe_node(
    replica: CoreReplica,
    *,
    peer: Endpoint,
    api: Endpoint,
    leader_api: Endpoint | None,
    version: str,
    storage: StorageInfo,
    certificates: tuple[ListenerCertificate, ...] = (),
) -> NodeInfo:
    """Describe one node from its own core."""
    leader = replica.leader
    return NodeInfo(
        node_id=replica.key.node_id,
        directory_id=format_directory_id(replica.key.directory_id),
        incarnation=replica.incarnation,
        cluster_id=replica.cluster_id,
        role=role_of(replica),
        epoch=replica.epoch,
        leader=Replica.of(leader) if leader else None,
        leader_api=str(leader_api) if leader_api else None,
        peer_endpoint=str(peer),
        api_endpoint=str(api),
        log_start_offset=replica.log.start,
        log_end_offset=replica.log.end,
        durable_end_offset=replica.log.durable_end,
        high_watermark=replica.high_watermark,
        voters=tuple(Replica.of(key) for key in replica.log.voters),
        caught_up=is_caught_up(replica, replica.config),
        version=version,
        storage=storage,
        certificates=certificates,
    )


def describe_quorum(
    description: QuorumDescription, *, cluster_id: str, confirmed: bool
) -> QuorumInfo:
    """Describe the quorum from its leader's core."""
    end = description.log_end
    return QuorumInfo(
        cluster_id=cluster_id,
        leader=Replica.of(description.leader),
        epoch=description.epoch,
        high_watermark=description.high_watermark,
        log_start_offset=description.log_start,
        log_end_offset=end,
        voters=tuple(_progress(replica, end) for replica in description.voters),
        committed_voters=tuple(Replica.of(key) for key in description.committed_voters),
        voter_record=voter_record(description.voter_record),
        voter_record_committed=description.voter_record_committed,
        observers=tuple(_progress(replica, end) for replica in description.observers),
        pending_change=_pending(description.pending_change),
        target_voters=tuple(_progress(replica, end) for replica in description.target_voters),
        reassignment=_reassignment(description),
        assignment_record=voter_record(description.assignment_record),
        raft_version=description.raft_version,
        raft_version_committed=description.raft_version_committed,
        formation_completed=description.formation_completed,
        epoch_committed=description.epoch_committed,
        confirmed=confirmed,
    )


def voter_record(record: VoterRecordId) -> VoterRecord:
    """The compare-and-set value of a voter set."""
    return VoterRecord(offset=record.offset, epoch=record.epoch)


def _reassignment(description: QuorumDescription) -> ReassignmentInfo | None:
    if not description.target_voters:
        return None
    waiting_for = description.step_waits_for
    return ReassignmentInfo(
        record=voter_record(description.target_record),
        committed=description.target_committed,
        waiting_for=reason_sentences.wait(waiting_for) if waiting_for else "",
    )


def _progress(replica: ReplicaDescription, end: int) -> ReplicaProgress:
    return ReplicaProgress(
        node_id=replica.key.node_id,
        directory_id=format_directory_id(replica.key.directory_id),
        endpoint=str(replica.endpoint) if replica.endpoint else None,
        acknowledged_offset=replica.acknowledged,
        lag=end - max(replica.acknowledged, 0),
        last_fetch_age_ms=replica.last_fetch_age_ms,
        last_caught_up_age_ms=replica.last_caught_up_age_ms,
        caught_up=replica.caught_up,
        fenced=replica.fenced,
        incarnation=replica.incarnation,
        higher_epoch=replica.higher_epoch,
        blank=replica.blank,
        could_be_voter=replica.could_be_voter,
    )


def _pending(change: CoreChange | None) -> PendingChange | None:
    if change is None:
        return None
    return PendingChange(
        kind=change.kind,
        replica=Replica.of(change.key),
        appended_offset=change.appended,
        waiting_for=reason_sentences.wait(change.waiting_for),
    )
