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

What lives here: the form. What must not: which snapshots are kept, and what a state is.
"""

from __future__ import annotations

import struct
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
    FIRST_OFFSET,
    NO_EPOCH,
    Epoch,
    LogPosition,
    Offset,
    VoterRecordId,
    VoterSet,
)
from raftnode.errors import DecodeError, StorageCorruptError
from raftnode.storage.batch import (
    LogRecord,
    Record,
    encode_control_records,
    encode_data_batch,
    iter_records,
    stamp,
)
from raftnode.storage.control import encode_control_record
from raftnode.storage.controlfields import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from raftnode.storage.encoding import Reader, int16, tagged_fields
from raftnode.storage.files import Files
from raftnode.storage.inspection import SNAPSHOT_SUFFIX, Piece, PieceReader

PARTIAL_SUFFIX = SNAPSHOT_SUFFIX + ".part"
"""Of a snapshot that was being written when the node stopped; never read."""

BATCH_BYTES = 64 << 10
"""About how many bytes of keys and values stand in a batch: little enough that none of the
calls that hold the interpreter for its length is felt elsewhere."""

_BATCH_RECORDS = 512
"""At most in a batch, however small they are: some milliseconds of work."""

_SYNC_BYTES = 8 << 20
"""Synced as often as that, so that the log's own fsyncs never wait behind a whole snapshot."""

_OFFSET_DIGITS, _EPOCH_DIGITS = 20, 10
_VERSION = 0
_TAG = 10_000  # far from any tag that Kafka may add
_TAG_VOTER_RECORD = 10_001
_TAG_TARGET_RECORD = 10_002
_TAG_CHECKSUM = 10_001
_PLACE = struct.Struct(">qi")
_COUNT = struct.Struct(">q")
_CHECKSUM = struct.Struct(">I")
_TIMESTAMP = struct.Struct(">q")
_ORIGIN = "kq"
"""Name of the record header with the offset and epoch of the record that wrote an entry."""


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
    place = _PLACE.pack(snapshot_id.end_offset, snapshot_id.epoch)
    tags = {_TAG: place}
    if head.voter_record != BASE_VOTER_RECORD:
        tags[_TAG_VOTER_RECORD] = _PLACE.pack(head.voter_record.offset, head.voter_record.epoch)
    if head.target_record != BASE_VOTER_RECORD:
        tags[_TAG_TARGET_RECORD] = _PLACE.pack(head.target_record.offset, head.target_record.epoch)
    value = int16(_VERSION) + _TIMESTAMP.pack(head.last_timestamp_ms)
    return int16(0) + int16(SNAPSHOT_HEADER), value + tagged_fields(tags)


def _footer(records: int, checksum: int) -> tuple[bytes, bytes]:
    tags = {_TAG: _COUNT.pack(records), _TAG_CHECKSUM: _CHECKSUM.pack(checksum)}
    return int16(0) + int16(SNAPSHOT_FOOTER), int16(_VERSION) + tagged_fields(tags)


def _batches(records: Iterable[StateRecord]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        origin = _PLACE.pack(record.offset, record.epoch)
        batch.append(Record(record.key, record.value, ((_ORIGIN, origin),)))
        size += len(record.key) + len(record.value)
        if size >= BATCH_BYTES or len(batch) >= _BATCH_RECORDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# -- reading ---------------------------------------------------------------------


@dataclass(slots=True)
class SnapshotReader:
    """Reads one snapshot from its first byte to its last; nothing of it counts before that.

    Attributes:
        path: the file.
        snapshot_id: what it should be; None: what its name says.
        own: False: Kafka's are taken too, of which only the form is known.
        found: what it was; None until `records` has come to its end.
        on_bytes: told how many bytes have been read since it was told last.
    """

    files: Files
    path: Path
    own: bool = True
    on_bytes: Callable[[int], None] = lambda _count: None
    found: SnapshotFile | None = None
    snapshot_id: SnapshotId | None = None

    def records(self) -> Iterator[StateRecord]:
        """Yield the state; afterwards `found` is set.

        Raises:
            SnapshotDamagedError: naming the file and what is wrong.
            FileOperationError: it cannot be read.
        """
        snapshot_id = self.snapshot_id or SnapshotId.of(self.path.name)
        if snapshot_id is None:
            raise self._damaged("its name is not that of a snapshot")
        there = self.files.stat(self.path)
        if there is None:
            raise self._damaged("it does not exist")
        piece = Piece(self.path, FIRST_OFFSET, there.size)
        reader = PieceReader(piece, NO_EPOCH, on_bytes=self.on_bytes)
        content = _Content(snapshot_id, own=self.own)
        try:
            for batch in reader.batches(self.files):
                for record in iter_records(batch.data):
                    state = content.see(record)
                    if state is not None:
                        yield state
                content.checksum = crc32c.crc32c(batch.data, content.checksum)
            if reader.damage is not None:
                raise self._damaged(f"at byte {reader.damage.position}: {reader.damage.reason}")
            self.found = content.finish(there.size)
        except DecodeError as error:
            raise self._damaged(str(error)) from error

    def check(self) -> None:
        """Compare the checksums of all batches and of the whole; records are not looked at.

        Many times as fast as `records`.

        Raises:
            SnapshotDamagedError: naming the file and what is wrong.
            FileOperationError: it cannot be read.
        """
        snapshot_id = self.snapshot_id or SnapshotId.of(self.path.name)
        there = self.files.stat(self.path)
        if there is None or snapshot_id is None:
            raise self._damaged("it does not exist, or its name is not that of a snapshot")
        reader = PieceReader(
            Piece(self.path, FIRST_OFFSET, there.size), NO_EPOCH, on_bytes=self.on_bytes
        )
        checksum = before = 0
        last = b""
        try:
            for batch in reader.batches(self.files):
                if batch.header.epoch != snapshot_id.epoch:  # which no checksum of the last covers
                    raise self._damaged(f"at byte {batch.position}: epoch {batch.header.epoch}")
                before, checksum = checksum, crc32c.crc32c(batch.data, checksum)
                last = bytes(batch.data) if batch.header.is_control else b""
            if reader.damage is not None:
                raise self._damaged(f"at byte {reader.damage.position}: {reader.damage.reason}")
            _check_footer(last, before)
        except DecodeError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> SnapshotDamagedError:
        return SnapshotDamagedError(f"snapshot {self.path}: {reason}")


def _check_footer(last: bytes, checksum: int) -> None:
    """The last batch must be a footer with the checksum of all before it.

    Raises:
        DecodeError: it is not.
    """
    for record in iter_records(last) if last else ():
        key, value = record.key or b"", record.value or b""
        if record.is_control and int.from_bytes(key[2:4], "big", signed=True) == SNAPSHOT_FOOTER:
            reader = Reader(value, 0, len(value), "footer")
            reader.int16()
            found = reader.tagged_fields().get(_TAG_CHECKSUM)
            if found is not None and found != _CHECKSUM.pack(checksum):
                raise DecodeError("the footer's checksum is of another content")
            return
    raise DecodeError("no footer")


@dataclass(slots=True)
class _Content:
    """Checks the records of a snapshot as they pass by."""

    snapshot_id: SnapshotId
    own: bool
    begun: bool = False
    ended: bool = False
    data: int = 0
    timestamp_ms: int = -1
    made_ms: int = -1
    control: list[ControlRecord] | None = None
    voter_record: VoterRecordId = BASE_VOTER_RECORD
    target_record: VoterRecordId = BASE_VOTER_RECORD
    checksum: int = 0
    """Of all batches before this one."""

    def see(self, record: LogRecord) -> StateRecord | None:
        if self.ended:
            raise DecodeError(f"record {record.offset} after the footer")
        if record.epoch != self.snapshot_id.epoch:
            raise DecodeError(f"record {record.offset} has epoch {record.epoch}")
        if record.is_control:
            self._see_control(record)
            return None
        if not self.begun:
            raise DecodeError("no header")
        self.data += 1
        return self._state(record) if self.own else None

    def _see_control(self, record: LogRecord) -> None:
        key, value = record.key or b"", record.value or b""
        kind = int.from_bytes(key[2:4], "big", signed=True)
        reader = Reader(value, 0, len(value), f"control record {record.offset}")
        if (kind == SNAPSHOT_HEADER) == self.begun:
            raise DecodeError("a second header" if self.begun else "no header")
        if kind == SNAPSHOT_HEADER:
            self.begun, self.made_ms = True, record.timestamp_ms
            self._version(reader)
            (self.timestamp_ms,) = _TIMESTAMP.unpack(reader.take(_TIMESTAMP.size))
            tags = reader.tagged_fields()
            place = tags.get(_TAG)
            wanted = _PLACE.pack(self.snapshot_id.end_offset, self.snapshot_id.epoch)
            if place != wanted and (place is not None or self.own):
                raise DecodeError("it was written under another name")
            if self.own:
                self.voter_record = self._record_id(tags.get(_TAG_VOTER_RECORD))
                self.target_record = self._record_id(tags.get(_TAG_TARGET_RECORD))
        elif kind == SNAPSHOT_FOOTER:
            self.ended = True
            self._version(reader)
            tags = reader.tagged_fields()
            checksum, count = tags.get(_TAG_CHECKSUM), tags.get(_TAG)
            if count != _COUNT.pack(self.data) and (count is not None or self.own):
                raise DecodeError(f"{self.data} records, the footer says {count!r}")
            if checksum is not None and checksum != _CHECKSUM.pack(self.checksum):
                raise DecodeError("the footer's checksum is of another content")
        elif record.control is not None:
            self.control = [*(self.control or ()), record.control]
        elif self.own:
            # A later program's: what it says of the quorum would be left out.
            raise DecodeError(f"control record of unknown type {kind}")

    def _record_id(self, tag: bytes | None) -> VoterRecordId:
        if tag is None:
            return BASE_VOTER_RECORD
        if len(tag) != _PLACE.size:
            raise DecodeError(f"record of voters of {len(tag)} bytes")
        offset, epoch = _PLACE.unpack(tag)
        if not (0 <= offset < self.snapshot_id.end_offset and epoch <= self.snapshot_id.epoch):
            raise DecodeError(f"voters of offset {offset}, epoch {epoch}")
        return VoterRecordId(Offset(offset), Epoch(epoch))

    def _version(self, reader: Reader) -> None:
        version = reader.int16()
        if version != _VERSION:
            raise reader.error(f"version {version}")

    def _state(self, record: LogRecord) -> StateRecord:
        origin = dict(record.headers).get(_ORIGIN)
        if record.key is None or record.value is None or origin is None:
            raise DecodeError(f"record {record.offset} is no entry of a state")
        if len(origin) != _PLACE.size:
            raise DecodeError(f"record {record.offset}: origin of {len(origin)} bytes")
        offset, epoch = _PLACE.unpack(origin)
        if not (0 <= offset < self.snapshot_id.end_offset and epoch <= self.snapshot_id.epoch):
            raise DecodeError(f"record {record.offset} is of offset {offset}, epoch {epoch}")
        return StateRecord(record.key, record.value, Offset(offset), Epoch(epoch))

    def finish(self, size: int) -> SnapshotFile:
        if not self.ended:
            raise DecodeError("no footer")
        control = self.control or []
        versions = [record.version for record in control if isinstance(record, RaftVersion)]
        head = SnapshotHead(
            VoterSet.of(record.voter for record in control if isinstance(record, AddVoter)),
            versions[-1] if versions else 0,
            any(isinstance(record, FormationCompleted) for record in control),
            self.timestamp_ms,
            VoterSet.of(v for one in control if isinstance(one, TargetVoters) for v in one.voters),
            voter_record=self.voter_record,
            target_record=self.target_record,
        )
        return SnapshotFile(self.snapshot_id, head, self.data, size, self.made_ms)
