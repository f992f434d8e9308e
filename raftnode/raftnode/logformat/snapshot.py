"""The format of a snapshot file (KIP-630): its name, its header and its footer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from raftnode.core.records import (
    AddVoter,
    ControlRecord,
    FormationCompleted,
    RaftVersion,
    TargetVoters,
)
from raftnode.core.types import (
    BASE_VOTER_RECORD,
    Epoch,
    LogPosition,
    Offset,
    VoterRecordId,
    VoterSet,
)
from raftnode.logformat.control_fields import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from raftnode.logformat.encoding import int16, tagged_fields
from raftnode.logformat.snapshot_fields import (
    CHECKSUM,
    COUNT,
    PLACE,
    TAG,
    TAG_CHECKSUM,
    TAG_TARGET_RECORD,
    TAG_VOTER_RECORD,
    TIMESTAMP,
    VERSION,
)

SNAPSHOT_SUFFIX = ".checkpoint"
_OFFSET_DIGITS, _EPOCH_DIGITS = 20, 10


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """A snapshot's id: its state ends before `end_offset`; `epoch` is the last record's epoch."""

    end_offset: Offset
    epoch: Epoch

    def __str__(self) -> str:
        return f"{self.end_offset:0{_OFFSET_DIGITS}d}-{self.epoch:0{_EPOCH_DIGITS}d}"

    @property
    def file_name(self) -> str:
        """Kafka's name for the file."""
        return f"{self}{SNAPSHOT_SUFFIX}"

    @property
    def position(self) -> LogPosition:
        """The same, as the core has it."""
        return LogPosition(self.epoch, self.end_offset)

    @classmethod
    def at(cls, position: LogPosition) -> SnapshotId:
        """The snapshot that the core names by a position in the log."""
        return cls(position.end_offset, position.epoch)

    @classmethod
    def of(cls, name: str) -> SnapshotId | None:
        """The snapshot that a file's name says; None for any other file."""
        stem = name.removesuffix(SNAPSHOT_SUFFIX)
        offset, dash, epoch = stem.partition("-")
        ours = (
            stem != name
            and dash
            and len(offset) == _OFFSET_DIGITS
            and len(epoch) == _EPOCH_DIGITS
            and (offset + epoch).isascii()
            and (offset + epoch).isdigit()
        )
        return cls(Offset(int(offset)), Epoch(int(epoch))) if ours else None


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """What the log up to the snapshot says of the quorum."""

    voters: VoterSet = field(default_factory=VoterSet)
    raft_version: int = 0
    formation_completed: bool = False
    last_timestamp_ms: int = -1
    """Timestamp of the last record that it covers; -1: not known."""
    target_voters: VoterSet = field(default_factory=VoterSet)
    """Of a reassignment that is not finished; empty: there is none (S15)."""
    voter_record: VoterRecordId = BASE_VOTER_RECORD
    """The record that the voters come from; the base's: a file of an earlier program."""
    target_record: VoterRecordId = BASE_VOTER_RECORD
    """The last record of a target; the base's: there never was one."""


class StateRecord(NamedTuple):
    """One entry of the state, and the record of the log that wrote it."""

    key: bytes
    value: bytes
    offset: Offset
    epoch: Epoch


def quorum_records(head: SnapshotHead) -> Iterator[ControlRecord]:
    """The control records behind the header: what the log says of the quorum."""
    if head.raft_version:
        yield RaftVersion(head.raft_version)
    for voter in head.voters.voters:
        yield AddVoter(voter)
    if head.formation_completed:
        yield FormationCompleted()
    if head.target_voters:
        yield TargetVoters(head.target_voters.voters)


def header_record(snapshot_id: SnapshotId, head: SnapshotHead) -> tuple[bytes, bytes]:
    """Key and value of the first record of a snapshot file."""
    place = PLACE.pack(snapshot_id.end_offset, snapshot_id.epoch)
    tags = {TAG: place}
    if head.voter_record != BASE_VOTER_RECORD:
        tags[TAG_VOTER_RECORD] = PLACE.pack(head.voter_record.offset, head.voter_record.epoch)
    if head.target_record != BASE_VOTER_RECORD:
        tags[TAG_TARGET_RECORD] = PLACE.pack(head.target_record.offset, head.target_record.epoch)
    value = int16(VERSION) + TIMESTAMP.pack(head.last_timestamp_ms)
    return int16(0) + int16(SNAPSHOT_HEADER), value + tagged_fields(tags)


def footer_record(records: int, checksum: int) -> tuple[bytes, bytes]:
    """Key and value of the last record: how many records, and the checksum of all before it."""
    tags = {TAG: COUNT.pack(records), TAG_CHECKSUM: CHECKSUM.pack(checksum)}
    return int16(0) + int16(SNAPSHOT_FOOTER), int16(VERSION) + tagged_fields(tags)
