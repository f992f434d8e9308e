"""The reader of snapshot files: from the first byte to the last, and nothing counts before that.

A wrong checksum, offset, name or count makes the whole file damaged. `snapshot_file` describes the
format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

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
    Offset,
    VoterRecordId,
    VoterSet,
)
from raftnode.errors import DecodeError
from raftnode.logformat.batch import LogRecord, iter_records
from raftnode.logformat.control_fields import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from raftnode.logformat.encoding import Reader
from raftnode.logformat.snapshot import SnapshotHead, SnapshotId, StateRecord
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
from raftnode.storage.inspection.log_reader import Piece, PieceReader
from raftnode.storage.snapshots.snapshot_file import SnapshotDamagedError, SnapshotFile

PAUSE_BYTES = 64 << 10
"""While a whole file is read, another thread that waits for the interpreter gets it this often."""


def with_pauses(records: Iterable[StateRecord], pause: Callable[[], None]) -> Iterator[StateRecord]:
    """The records; `pause` is called after each `PAUSE_BYTES` of them, and may raise to give up."""
    size = 0
    for record in records:
        yield record
        size += len(record.key) + len(record.value)
        if size >= PAUSE_BYTES:
            size = 0
            pause()


@dataclass(slots=True)
class SnapshotReader:
    """Reads one snapshot from its first byte to its last; nothing of it counts before that.

    Attributes:
        path: the file.
        snapshot_id: the expected id; None: the id in the file's name.
        own: False: the reader accepts Kafka's snapshots too, of which it knows only the form.
        snapshot: the snapshot that was read; None until `records` has come to its end.
        on_bytes: called with the number of bytes read since the last call.
    """

    files: Files
    path: Path
    own: bool = True
    on_bytes: Callable[[int], None] = lambda _count: None
    snapshot: SnapshotFile | None = None
    snapshot_id: SnapshotId | None = None

    def records(self) -> Iterator[StateRecord]:
        """Yield the state; afterwards `snapshot` is set.

        Raises:
            SnapshotDamagedError: naming the file and what is wrong.
            FileOperationError: it cannot be read.
        """
        snapshot_id = self.snapshot_id or SnapshotId.of(self.path.name)
        if snapshot_id is None:
            raise self._damaged("it does not have the name of a snapshot")
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
            self.snapshot = content.finish(there.size)
        except DecodeError as error:
            raise self._damaged(str(error)) from error

    def check(self) -> None:
        """Compare the checksums of all batches and of the whole file, without reading records.

        This is many times as fast as `records`.

        Raises:
            SnapshotDamagedError: naming the file and what is wrong.
            FileOperationError: it cannot be read.
        """
        snapshot_id = self.snapshot_id or SnapshotId.of(self.path.name)
        there = self.files.stat(self.path)
        if there is None or snapshot_id is None:
            raise self._damaged("it does not exist, or does not have the name of a snapshot")
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
            stored_checksum = reader.tagged_fields().get(TAG_CHECKSUM)
            if stored_checksum is not None and stored_checksum != CHECKSUM.pack(checksum):
                raise DecodeError("the footer has the checksum of other content")
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
    """The checksum of all batches before this one."""

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
            (self.timestamp_ms,) = TIMESTAMP.unpack(reader.take(TIMESTAMP.size))
            tags = reader.tagged_fields()
            place = tags.get(TAG)
            wanted = PLACE.pack(self.snapshot_id.end_offset, self.snapshot_id.epoch)
            if place != wanted and (place is not None or self.own):
                raise DecodeError("the header has the name of another snapshot")
            if self.own:
                self.voter_record = self._record_id(tags.get(TAG_VOTER_RECORD))
                self.target_record = self._record_id(tags.get(TAG_TARGET_RECORD))
        elif kind == SNAPSHOT_FOOTER:
            self.ended = True
            self._version(reader)
            tags = reader.tagged_fields()
            checksum, count = tags.get(TAG_CHECKSUM), tags.get(TAG)
            if count != COUNT.pack(self.data) and (count is not None or self.own):
                raise DecodeError(f"{self.data} records, but the footer says {count!r}")
            if checksum is not None and checksum != CHECKSUM.pack(self.checksum):
                raise DecodeError("the footer has the checksum of other content")
        elif record.control is not None:
            self.control = [*(self.control or ()), record.control]
        elif self.own:
            # A later program's record: its part of the quorum's state would be lost.
            raise DecodeError(f"control record of unknown type {kind}")

    def _record_id(self, tag: bytes | None) -> VoterRecordId:
        if tag is None:
            return BASE_VOTER_RECORD
        if len(tag) != PLACE.size:
            raise DecodeError(f"record of voters of {len(tag)} bytes")
        offset, epoch = PLACE.unpack(tag)
        if not (0 <= offset < self.snapshot_id.end_offset and epoch <= self.snapshot_id.epoch):
            raise DecodeError(f"voters of offset {offset}, epoch {epoch}")
        return VoterRecordId(Offset(offset), Epoch(epoch))

    def _version(self, reader: Reader) -> None:
        version = reader.int16()
        if version != VERSION:
            raise reader.error(f"version {version}")

    def _state(self, record: LogRecord) -> StateRecord:
        origin = dict(record.headers).get(ORIGIN)
        if record.key is None or record.value is None or origin is None:
            raise DecodeError(f"record {record.offset} is not an entry of a state")
        if len(origin) != PLACE.size:
            raise DecodeError(f"record {record.offset}: origin of {len(origin)} bytes")
        offset, epoch = PLACE.unpack(origin)
        if not (0 <= offset < self.snapshot_id.end_offset and epoch <= self.snapshot_id.epoch):
            raise DecodeError(f"record {record.offset} has offset {offset}, epoch {epoch}")
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
            VoterSet.of(
                v for record in control if isinstance(record, TargetVoters) for v in record.voters
            ),
            voter_record=self.voter_record,
            target_record=self.target_record,
        )
        return SnapshotFile(self.snapshot_id, head, self.data, size, self.made_ms)
