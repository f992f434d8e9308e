"""The core's index of its log: ends, epochs and the voter sets along it.

The storage has the bytes. A voter set applies as soon as its record is appended, and truncation
reverts it (P32). A log that was trimmed behind a snapshot, or begins with a snapshot, goes on from
the snapshot's head.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from raftnode.core.log_head import LogHead
from raftnode.core.records import (
    RAFT_VERSION,
    AddVoter,
    Batch,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
    TargetVoters,
)
from raftnode.core.types import (
    BASE_VOTER_RECORD,
    FIRST_OFFSET,
    NO_EPOCH,
    NO_OFFSET,
    NO_VOTERS,
    Epoch,
    LogPosition,
    Offset,
    ReplicaKey,
    VoterRecordId,
    VoterSet,
)


def _start(entry: tuple[Epoch, Offset]) -> Offset:
    return entry[1]


@dataclass(frozen=True, slots=True)
class VoterSetAt:
    """A voter set and the record that made it."""

    record: VoterRecordId
    voters: VoterSet


@dataclass(slots=True)
class LogIndex:
    """Index of one log.

    Invariants: `durable_end <= end`; epochs strictly rise with their start offsets;
    `history[0]` is the base that no truncation removes (S19). Unless `start` is 0: a
    snapshot covers it, and `epochs[0]` is that of the record before it.
    """

    base_voters: VoterSet = field(default_factory=VoterSet)
    start: Offset = FIRST_OFFSET
    end: Offset = FIRST_OFFSET
    durable_end: Offset = FIRST_OFFSET
    truncations: int = 0
    epochs: list[tuple[Epoch, Offset]] = field(default_factory=list[tuple[Epoch, Offset]])
    history: list[VoterSetAt] = field(init=False)
    raft_versions: list[tuple[Offset, int]] = field(default_factory=list[tuple[Offset, int]])
    """Each record of a version, and the version in force from it on, which never falls (P54)."""
    formation_completed_at: Offset = NO_OFFSET
    targets: list[VoterSetAt] = field(default_factory=list[VoterSetAt])
    """Reassignments asked for, one after the other; an empty set ends one (P33-P35)."""
    base_raft_version: int = RAFT_VERSION
    """The latch's version: what the first leader writes, unless it is 0."""
    snapshot: LogPosition | None = None
    """The newest whole snapshot beside the log; what is below its end is committed."""

    @classmethod
    def restore(
        cls,
        base_voters: VoterSet,
        *,
        start: Offset,
        end: Offset,
        epochs: Iterable[tuple[Epoch, Offset]],
        control: Iterable[Batch],
        base_raft_version: int = RAFT_VERSION,
        head: LogHead | None = None,
    ) -> LogIndex:
        """Rebuild the index from what recovery found; all of it durable.

        Args:
            base_voters: the latch's, or none.
            start: first offset of the log.
            end: one past its last record.
            epochs: (epoch, first offset), rising.
            control: all control batches in order, without their bytes.
            base_raft_version: the latch's.
            head: of the newest snapshot; there must be one unless the log begins at 0.
        """
        index = cls(
            base_voters, start, end, end, epochs=list(epochs), base_raft_version=base_raft_version
        )
        if head is not None:
            index.snapshot = head.position
        covered = FIRST_OFFSET
        if start > FIRST_OFFSET:
            assert head is not None, start  # noqa: S101
            index._begin_with(head)
            covered = head.position.end_offset
        for batch in control:
            if batch.base_offset >= covered:
                index._apply_control(batch)
        return index

    def __post_init__(self) -> None:
        self.history = [VoterSetAt(BASE_VOTER_RECORD, self.base_voters)]

    # -- reading ---------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The set in force: the latest in the log, committed or not (P32)."""
        return self.history[-1].voters

    @property
    def voter_record(self) -> VoterRecordId:
        """The record that the set in force comes from."""
        return self.history[-1].record

    @property
    def has_voter_record(self) -> bool:
        """Whether the log itself holds the voters, rather than the latch alone."""
        return self.voter_record != BASE_VOTER_RECORD

    @property
    def target_voters(self) -> VoterSet:
        """What a reassignment is to lead to, committed or not; empty: there is none (P34)."""
        return self.targets[-1].voters if self.targets else NO_VOTERS

    @property
    def target_record(self) -> VoterRecordId:
        """The record that the target comes from; the base's if there is none."""
        return self.targets[-1].record if self.targets else BASE_VOTER_RECORD

    @property
    def assignment_record(self) -> VoterRecordId:
        """The newest record of who votes or is to vote: what a reassignment is compared with."""
        return max(self.voter_record, self.target_record)

    def target_at(self, end: Offset) -> VoterSet:
        """The target of the log without what follows from `end` on: a snapshot's (S15)."""
        before = [at.voters for at in self.targets if at.record.offset < end]
        return before[-1] if before else NO_VOTERS

    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last record; -1 for an empty log."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    @property
    def position(self) -> LogPosition:
        """How far the log reaches: what votes compare."""
        return LogPosition(self.last_epoch, self.end)

    @property
    def raft_version(self) -> int:
        """The protocol version that the log is at, committed or not; 0 before any record of it.

        Never lowered, whatever the log says (P54).
        """
        return self.raft_versions[-1][1] if self.raft_versions else 0

    @property
    def raft_version_record(self) -> Offset:
        """Where the newest record of the version stands; -1: there is none."""
        return self.raft_versions[-1][0] if self.raft_versions else NO_OFFSET

    @property
    def formation_completed(self) -> bool:
        """Whether client writes may follow (P52)."""
        return self.formation_completed_at != NO_OFFSET

    def committed_voters(self, high_watermark: Offset) -> VoterSetAt:
        """The newest set whose record is below the high watermark; else the base."""
        return self.history[self._committed_at(high_watermark)]

    def voter_sets_since(self, high_watermark: Offset) -> list[VoterSetAt]:
        """The newest committed set and every later one."""
        return self.history[self._committed_at(high_watermark) :]

    def removal_of(self, key: ReplicaKey) -> Offset:
        """The offset of a replica's removal from the voters; -1: it is a voter or never was one."""
        last = NO_OFFSET
        for before, after in itertools.pairwise(self.history):
            if key in before.voters and key not in after.voters:
                last = after.record.offset
        return NO_OFFSET if key in self.voters else last

    def _committed_at(self, high_watermark: Offset) -> int:
        if self.history[-1].record.offset < high_watermark:
            return len(self.history) - 1  # nearly always: the newest is committed
        below = bisect.bisect_left(self.history, high_watermark, key=lambda at: at.record.offset)
        return max(below - 1, 0)

    def epoch_at(self, offset: Offset) -> Epoch:
        """Epoch of the record at `offset`, which must be below `end`."""
        at = bisect.bisect_right(self.epochs, offset, key=lambda entry: entry[1]) - 1
        return self.epochs[at][0] if at >= 0 else NO_EPOCH

    def end_of_epoch(self, epoch: Epoch) -> LogPosition:
        """The largest epoch not above `epoch` that has records, and where it ends (P21)."""
        at = bisect.bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        end = self.epochs[at][1] if at < len(self.epochs) else self.end
        if at == 0:
            return LogPosition(NO_EPOCH, self.start)
        return LogPosition(self.epochs[at - 1][0], end)

    def diverges_at(self, fetch: LogPosition) -> LogPosition | None:
        """Where a fetcher's log that ends at `fetch` diverges from this one; None: it does not."""
        if fetch.end_offset == FIRST_OFFSET:
            return None
        known = self.end_of_epoch(fetch.epoch)
        if known.epoch == fetch.epoch and fetch.end_offset <= known.end_offset:
            return None
        return known

    def needs_snapshot(self, fetch: LogPosition) -> bool:
        """Whether a fetcher must begin with the snapshot, its log ending at `fetch` (KIP-630).

        The fetcher's next record is below the start, or its last record is of an epoch that this
        log no longer knows. An empty log takes the snapshot rather than all records (P22).
        """
        if self.snapshot is None:
            return False
        if fetch.end_offset == FIRST_OFFSET:
            return True
        if self.start == FIRST_OFFSET:
            return False
        before = self.epochs[0][0]
        foreign = fetch.end_offset == self.start and fetch.epoch != before
        return fetch.end_offset < self.start or fetch.epoch < before or foreign

    def covers(self, position: LogPosition) -> bool:
        """Whether all that a snapshot of that position holds is or was in this log."""
        if position.end_offset < self.start:
            return True
        last = Offset(position.end_offset - 1)
        return position.end_offset <= self.end and self.epoch_at(last) == position.epoch

    def truncation_point(self, diverging: LogPosition) -> Offset:
        """Up to where a follower may keep its log, given the leader's answer (P22)."""
        own = self.end_of_epoch(diverging.epoch)
        if own.epoch == diverging.epoch:
            return min(own.end_offset, diverging.end_offset)
        return own.end_offset

    # -- changing --------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Take a batch that follows the log's end into the index."""
        assert batch.base_offset == self.end, (batch.base_offset, self.end)  # noqa: S101
        assert batch.epoch >= self.last_epoch, (batch.epoch, self.last_epoch)  # noqa: S101
        if batch.epoch > self.last_epoch:
            self.epochs.append((batch.epoch, batch.base_offset))
        self.end = batch.end_offset
        if batch.control:
            self._apply_control(batch)

    def _apply_control(self, batch: Batch) -> None:
        voters, record = self.voters, None
        for index, control in enumerate(batch.control):
            offset = Offset(batch.base_offset + index)
            match control:
                case AddVoter(voter):
                    voters, record = voters.with_added(voter), offset
                case RemoveVoter(key):
                    voters, record = voters.without(key), offset
                case RaftVersion(version):
                    in_force = max(version, self.raft_version)
                    self.raft_versions.append((offset, in_force))
                case FormationCompleted():
                    if not self.formation_completed:
                        self.formation_completed_at = offset
                case TargetVoters(target):
                    where = VoterRecordId(offset, batch.epoch)
                    self.targets.append(VoterSetAt(where, VoterSet.of(target)))
                case LeaderChange():
                    pass
        if record is not None:
            self.history.append(VoterSetAt(VoterRecordId(record, batch.epoch), voters))

    def truncate(self, end: Offset) -> None:
        """Forget everything from `end` on, voter sets included; the base stays (S19)."""
        self.end = end
        self.durable_end = min(self.durable_end, end)
        self.truncations += 1
        while self.epochs and self.epochs[-1][1] >= end:
            self.epochs.pop()
        while len(self.history) > 1 and self.history[-1].record.offset >= end:
            self.history.pop()
        while self.targets and self.targets[-1].record.offset >= end:
            self.targets.pop()
        while self.raft_versions and self.raft_versions[-1][0] >= end:
            self.raft_versions.pop()
        if self.formation_completed_at >= end:
            self.formation_completed_at = NO_OFFSET

    def trim(self, start: Offset) -> None:
        """Forget what is below `start`, which a snapshot covers."""
        assert self.snapshot is not None  # noqa: S101
        assert self.start <= start <= self.snapshot.end_offset, start  # noqa: S101
        self.start = start
        del self.epochs[: max(bisect.bisect_left(self.epochs, start, key=_start) - 1, 0)]
        for sets in (self.history, self.targets):
            passed = bisect.bisect_left(sets, start, key=lambda at: at.record.offset)
            del sets[: max(passed - 1, 0)]
        del self.raft_versions[: max(bisect.bisect_left(self.raft_versions, (start,)) - 1, 0)]

    def install(self, head: LogHead) -> None:
        """Go on from a snapshot in place of the log; all of it is durable."""
        self.start = self.end = self.durable_end = head.position.end_offset
        self.truncations += 1
        self.snapshot = head.position
        self.epochs = [(head.position.epoch, Offset(self.end - 1))]
        self._begin_with(head)

    def head_at(self, end: Offset) -> LogHead:
        """What the log below `end` says of the quorum; all of that must be committed."""
        voters = self.committed_voters(end)
        versions = [version for offset, version in self.raft_versions if offset < end]
        return LogHead(
            LogPosition(self.epoch_at(Offset(end - 1)), end),
            voters.voters,
            voters.record,
            versions[-1] if versions else 0,
            NO_OFFSET < self.formation_completed_at < end,
            self.target_at(end),
            max(
                (at.record for at in self.targets if at.record.offset < end),
                default=BASE_VOTER_RECORD,
            ),
        )

    def _begin_with(self, head: LogHead) -> None:
        last = Offset(head.position.end_offset - 1)
        self.history = [VoterSetAt(head.voter_record, head.voters)]
        self.raft_versions = [(last, head.raft_version)] if head.raft_version else []
        self.formation_completed_at = last if head.formation_completed else NO_OFFSET
        target = head.target_record
        if target == BASE_VOTER_RECORD and head.target_voters:
            target = VoterRecordId(last, head.position.epoch)  # an earlier program's snapshot
        has_target_record = target != BASE_VOTER_RECORD
        self.targets = [VoterSetAt(target, head.target_voters)] if has_target_record else []

    def set_base(self, voters: VoterSet, raft_version: int = RAFT_VERSION) -> None:
        """Put the latched voters under an empty log."""
        assert not self.has_voter_record  # noqa: S101
        self.base_raft_version = raft_version
        self.base_voters = voters
        self.history = [VoterSetAt(BASE_VOTER_RECORD, voters)]
