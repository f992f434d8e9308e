"""Snapshot files (KIP-630): the state at one committed offset, in the log's own batches.

A file `<end offset>-<epoch>.checkpoint` stands beside the segments. It holds a header, our
control records for what the log said of the quorum up to there (S27: the voters are AddVoter
records, never Kafka's), the state, and a footer. Its offsets count from 0 and its epoch is
the snapshot's, as in Kafka's. Tagged fields of ours in the header repeat the place, so that a
file under a wrong name is found out, and name the record that the voters come from; in the
footer one counts the records of the state and one is the checksum of all before it. A record's
own offset and epoch are record headers. Kafka skips all of these.

The same state at the same place makes the same bytes on every replica, so that a transfer that
one leader began can be finished by another.

What lives here: what a snapshot is and how it is written; `snapshotreading` reads it. What must
not: which snapshots are kept, and what a state is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import crc32c

from raftnode.core.log_head import LogHead
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
from raftnode.errors import StorageCorruptError
from raftnode.logformat.batch import (
    Record,
    encode_control_records,
    encode_data_batch,
    stamp,
)
from raftnode.logformat.control import encode_control_record
from raftnode.logformat.control_fields import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from raftnode.logformat.encoding import int16, tagged_fields
from raftnode.logformat.snapshot_fields import (
    CHECKSUM,
    COUNT,
    ORIGIN,
    PLACE,
    TAG,
    TAG_CHECKSUM,
    TAG_TARGET_RECORD,
    TAG_VOTER_RECORD,
    TIMESTAMP,
    VERSION,
)
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import SNAPSHOT_SUFFIX

PARTIAL_SUFFIX = SNAPSHOT_SUFFIX + ".part"
"""Of a snapshot that was being written when the node stopped; never read."""

_BATCH_BYTES = 64 << 10
"""About how many bytes of keys and values stand in a batch: little enough that none of the
calls that hold the interpreter for its length is felt elsewhere."""

_BATCH_RECORDS = 512
"""At most in a batch, however small they are: some milliseconds of work."""

_SYNC_BYTES = 1 << 20
"""Synced as often as that: a file system that writes its data with its journal, as ext4 does, lets
the log's own fsyncs wait until what is being synced of a snapshot is written."""

_OFFSET_DIGITS, _EPOCH_DIGITS = 20, 10


class SnapshotDamagedError(StorageCorruptError):
    """A snapshot file that is not whole, not what its name says, or not well formed."""


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """Which snapshot: the state without `end_offset`; `epoch` is that of the record before it."""

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
    """The record that told of a target last; the base's: none ever did."""


class StateRecord(NamedTuple):
    """One entry of the state, and the record of the log that wrote it."""

    key: bytes
    value: bytes
    offset: Offset
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A whole snapshot.

    Attributes:
        snapshot_id: its name.
        head: what it says of the quorum.
        records: of the state.
        size: of the file, bytes.
        made_ms: stamped on its batches; of ours, the time of the last record that it covers.
    """

    snapshot_id: SnapshotId
    head: SnapshotHead
    records: int
    size: int
    made_ms: int

    @property
    def log_head(self) -> LogHead | None:
        """What a log that begins with it goes on from; None: the file does not tell enough."""
        head = self.head
        if head.voter_record == BASE_VOTER_RECORD:
            return None
        return LogHead(
            self.snapshot_id.position,
            head.voters,
            head.voter_record,
            head.raft_version,
            head.formation_completed,
            head.target_voters,
            head.target_record,
        )


def list_snapshots(files: Files, directory: Path) -> list[SnapshotId]:
    """The snapshots in the log's directory by their names, oldest first."""
    found = (SnapshotId.of(name) for name in files.listdir(directory))
    return sorted(one for one in found if one is not None)


# -- writing ---------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    files: Files
    path: Path
    snapshot_id: SnapshotId
    timestamp_ms: int
    offset: int = 0
    position: int = 0
    synced: int = 0
    checksum: int = 0

    def write(
        self, records: Iterable[StateRecord], head: SnapshotHead, pause: Callable[[], None]
    ) -> int:
        """Write the whole content and sync it; returns how many records the state has."""
        file = self.files.open(self.path, create=True)
        try:
            file.truncate(0)

            def put(data: bytes, count: int) -> None:
                file.pwrite(data, self.position)
                self.checksum = crc32c.crc32c(data, self.checksum)
                self.position += len(data)
                self.offset += count
                if self.position - self.synced >= _SYNC_BYTES:
                    file.fdatasync()
                    self.synced = self.position

            control = [_header(self.snapshot_id, head), *map(encode_control_record, _quorum(head))]
            put(self._control(control), len(control))
            total = 0
            for batch in _batches(records):
                data = encode_data_batch(batch, self.timestamp_ms)
                put(stamp(data, Offset(self.offset), self.snapshot_id.epoch), len(batch))
                total += len(batch)
                pause()
            put(self._control([_footer(total, self.checksum)]), 1)
            file.fsync()
        finally:
            file.close()
        return total

    def _control(self, records: list[tuple[bytes, bytes]]) -> bytes:
        place = Offset(self.offset), self.snapshot_id.epoch
        return encode_control_records(records, *place, self.timestamp_ms)


def write_snapshot(
    files: Files,
    directory: Path,
    snapshot_id: SnapshotId,
    head: SnapshotHead,
    records: Iterable[StateRecord],
    *,
    now_ms: int,
    pause: Callable[[], None] = lambda: None,
    make_way: Callable[[], None] = lambda: None,
) -> SnapshotFile:
    """Make a snapshot file, durably: a crash leaves none or a whole one, and so has no room.

    Args:
        files: the file layer.
        directory: the log's.
        snapshot_id: an offset below which everything is committed and durable here, and the
            epoch of the last record below it.
        head: what the log up to there says of the quorum.
        records: the state there; read once.
        now_ms: stamped on its batches.
        pause: called after each batch; it may raise to give up.
        make_way: called when it is durable, before it gets its name.

    Raises:
        FileOperationError: the disk has no room for its content (`is_full`); or it failed, and
            nothing may be written any more.
    """
    partial = directory / f"{snapshot_id}{PARTIAL_SUFFIX}"
    path = directory / snapshot_id.file_name
    try:
        with files.apart() as apart:
            writer = _Writer(apart, partial, snapshot_id, now_ms)
            total = writer.write(records, head, pause)
    except BaseException:
        if files.failure is None and files.stat(partial) is not None:
            files.unlink(partial)
        raise
    make_way()
    files.run("rename", path, files.calls.rename, str(partial), str(path))
    files.fsync_dir(directory)
    return SnapshotFile(snapshot_id, head, total, writer.position, now_ms)


def _quorum(head: SnapshotHead) -> Iterator[ControlRecord]:
    if head.raft_version:
        yield RaftVersion(head.raft_version)
    for voter in head.voters.voters:
        yield AddVoter(voter)
    if head.formation_completed:
        yield FormationCompleted()
    if head.target_voters:
        yield TargetVoters(head.target_voters.voters)


def _header(snapshot_id: SnapshotId, head: SnapshotHead) -> tuple[bytes, bytes]:
    place = PLACE.pack(snapshot_id.end_offset, snapshot_id.epoch)
    tags = {TAG: place}
    if head.voter_record != BASE_VOTER_RECORD:
        tags[TAG_VOTER_RECORD] = PLACE.pack(head.voter_record.offset, head.voter_record.epoch)
    if head.target_record != BASE_VOTER_RECORD:
        tags[TAG_TARGET_RECORD] = PLACE.pack(head.target_record.offset, head.target_record.epoch)
    value = int16(VERSION) + TIMESTAMP.pack(head.last_timestamp_ms)
    return int16(0) + int16(SNAPSHOT_HEADER), value + tagged_fields(tags)


def _footer(records: int, checksum: int) -> tuple[bytes, bytes]:
    tags = {TAG: COUNT.pack(records), TAG_CHECKSUM: CHECKSUM.pack(checksum)}
    return int16(0) + int16(SNAPSHOT_FOOTER), int16(VERSION) + tagged_fields(tags)


def _batches(records: Iterable[StateRecord]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        origin = PLACE.pack(record.offset, record.epoch)
        batch.append(Record(record.key, record.value, ((ORIGIN, origin),)))
        size += len(record.key) + len(record.value)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_RECORDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
