"""DescribeQuorum: what a leader knows, at one moment (P26, S11)."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.membership import voter_changes
from raftnode.core.membership.pending_change import PendingChange
from raftnode.core.reasons.waits import Wait
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Leader
from raftnode.core.types import Endpoint, Epoch, Offset, ReplicaKey, VoterRecordId, VoterSet


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One voter or observer; ages in milliseconds, None: never in this epoch."""

    key: ReplicaKey
    endpoint: Endpoint | None
    acknowledged: Offset
    last_fetch_age_ms: int | None
    last_caught_up_age_ms: int | None
    caught_up: bool
    fenced: bool
    incarnation: int
    higher_epoch: Epoch | None = None
    """The epoch of its Fetches, if above the leader's: the replica follows once it is to be added.
    """
    blank: bool = False
    """An observer that belongs to no cluster yet: it has announced itself and holds no records."""
    could_be_voter: bool = False
    """An observer that AddVoter would not refuse; always False for a voter."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """A leader's view; `voters` is the set in force, perhaps not yet committed."""

    leader: ReplicaKey
    epoch: Epoch
    high_watermark: Offset
    log_start: Offset
    log_end: Offset
    voters: tuple[ReplicaDescription, ...]
    committed_voters: VoterSet
    voter_record: VoterRecordId
    voter_record_committed: bool
    observers: tuple[ReplicaDescription, ...]
    pending_change: PendingChange | None
    target_voters: tuple[ReplicaDescription, ...]
    target_record: VoterRecordId
    target_committed: bool
    assignment_record: VoterRecordId
    step_waits_for: Wait | None
    formation_completed: bool
    epoch_committed: bool
    raft_version: int
    raft_version_committed: bool


def describe(replica: Replica) -> QuorumDescription | None:
    """Describe the quorum; None on a replica that does not lead."""
    role, log = replica.role, replica.log
    if not isinstance(role, Leader):
        return None
    # Only a replica that has fetched from this leader is an observer: not a voter removed and gone.
    observers = sorted(
        key
        for key, progress in role.progress.items()
        if key not in log.voters and _is_observer(replica, progress)
    )
    appended = [change for change in role.changes if change.appended is not None]
    return QuorumDescription(
        leader=replica.key,
        epoch=role.epoch,
        high_watermark=replica.high_watermark,
        log_start=log.start,
        log_end=log.end,
        voters=tuple(
            _self(replica) if key == replica.key else _other(replica, role, key)
            for key in log.voters
        ),
        committed_voters=log.committed_voters(replica.high_watermark).voters,
        voter_record=log.voter_record,
        voter_record_committed=log.voter_record.offset < replica.high_watermark,
        observers=tuple(_other(replica, role, key) for key in observers),
        pending_change=next(iter(appended or role.changes), None),
        target_voters=tuple(
            _self(replica) if key == replica.key else _other(replica, role, key)
            for key in log.target_voters
        ),
        target_record=log.target_record,
        target_committed=log.target_record.offset < replica.high_watermark,
        assignment_record=log.assignment_record,
        step_waits_for=role.step_waits_for if log.target_voters else None,
        formation_completed=log.formation_completed,
        epoch_committed=leadership.epoch_committed(replica, role),
        raft_version=log.raft_version,
        raft_version_committed=log.raft_version_record < replica.high_watermark,
    )


def _is_observer(replica: Replica, progress: Progress) -> bool:
    return progress.has_asked or _is_announced(replica, progress)


def _is_announced(replica: Replica, progress: Progress) -> bool:
    return progress.is_announced(replica.now_ms, replica.config.fetch_timeout_ms)


def _self(replica: Replica) -> ReplicaDescription:
    own, log = replica.own, replica.log
    behind = log.durable_end < log.end
    return ReplicaDescription(
        replica.key,
        replica.endpoint,
        log.durable_end,
        0,
        replica.now_ms - (own.last_caught_up_ms or 0) if behind else 0,
        caught_up=replica.has_caught_up_disk,
        fenced=False,
        incarnation=replica.incarnation,
    )


def _other(replica: Replica, role: Leader, key: ReplicaKey) -> ReplicaDescription:
    progress = role.progress.get(key) or Progress()
    config, now = replica.config, replica.now_ms
    blank = _is_announced(replica, progress)
    fetched = progress.announced_ms if blank else progress.last_fetch_ms
    caught_up = progress.last_caught_up_ms
    return ReplicaDescription(
        key,
        progress.endpoint or replica.log.voters.endpoint_of(key),
        progress.acknowledged,
        None if fetched is None else now - fetched,
        None if caught_up is None else now - caught_up,
        caught_up=progress.is_caught_up(now, config.fetch_timeout_ms, config.election_timeout_ms),
        fenced=progress.fenced,
        incarnation=progress.incarnation,
        higher_epoch=progress.higher_epoch,
        blank=blank,
        could_be_voter=voter_changes.could_add(replica, role, key),
    )
