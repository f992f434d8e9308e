"""Reads one part of a log's files: a range of a segment, or a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kraftquorum_pipeline.errors import CorruptError, TrimmedError
from kraftquorum_pipeline.remote import open_files, path_of
from kraftquorum_pipeline.source.decode import Collector
from kraftquorum_pipeline.source.rows import (
    ROWS_MAX,
    Row,
    Shape,
    control_row,
    corrupt_row,
    state_row,
    table_of,
    voters_row,
)
from raftnode.api.encode import control_fields
from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError, RaftnodeError
from raftnode.logfiles import (
    Damage,
    File,
    Files,
    FoundBatch,
    Piece,
    PieceReader,
    SnapshotReader,
    read_index,
)
from raftnode.logformat import (
    HEADER_BYTES,
    EpochIndex,
    EpochStart,
    LogRecord,
    describe_control,
    iter_records,
    read_header,
)


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A whole snapshot: the state before a trimmed log."""

    path: str
    end_offset: int
    shape: Shape

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries of the state; damage raises at the end at the latest."""
        rows: list[Row] = []
        reader = SnapshotReader(open_files(), path_of(self.path))
        try:
            for entry in reader.records():
                rows.append(state_row(entry.offset, entry.epoch, entry.key, entry.value))
                if len(rows) >= ROWS_MAX:
                    yield from table_of(rows, self.shape, self.path)
                    rows = []
        except RaftnodeError as error:
            if not self.shape.skip_corrupt:
                raise CorruptError(self.path, str(error), 0) from error
            rows.append(corrupt_row(0, self.end_offset, self.path, -1, str(error)))
        else:
            if reader.snapshot is not None and len(voters := reader.snapshot.head.voters):
                at, epoch = self.end_offset - 1, int(reader.snapshot.snapshot_id.epoch)
                rows.append(voters_row(at, epoch, voters, at))
        yield from table_of(rows, self.shape, self.path)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A range of a segment.

    Attributes:
        path: the segment.
        base: the offset of the first record of the batch at `position`.
        position: the byte at which a batch begins.
        start: the first offset to read.
        end: one past the last offset.
        epochs: (epoch, first offset) that the batches must agree with; empty: not known.
        shape: the shape of the rows.
    """

    path: str
    base: int
    position: int
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    shape: Shape

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, after a check of every checksum."""
        files, path = open_files(), path_of(self.path)
        try:
            there = files.stat(path)
            if there is None:
                raise TrimmedError(self.path, "the segment no longer exists", self.start)
            yield from _Reading(self, files, there.size).run()
        except RaftnodeError as error:
            raise CorruptError(self.path, str(error), self.start) from error


class _Reading:
    def __init__(self, part: FilePart, files: Files, size: int) -> None:
        self._part = part
        self._files = files
        self._piece = Piece(path_of(part.path), Offset(part.base), size)
        self._collector = Collector(part.shape, part.path, part.start, part.end)

    def run(self) -> Iterator[pa.RecordBatch]:
        part = self._part
        position, expected = part.position, part.base
        known = EpochIndex(tuple(EpochStart(Epoch(e), Offset(o)) for e, o in part.epochs))
        while expected < part.end:
            reader = PieceReader(
                self._piece,
                end_offset=Offset(expected),
                position=position,
                epochs=known if part.epochs else None,
                durable=Offset(part.end),
            )
            for batch in reader.batches(self._files):
                yield from self._batch(batch)
                if batch.header.end_offset >= part.end:
                    yield from self._collector.take()
                    return
            expected = int(reader.end_offset)
            yield from self._collector.take()
            if reader.damage is None:
                reason = f"the segment ends here, but should have offsets up to {part.end - 1}"
                yield from self._leave_out(expected, part.end, reader.position, reason)
                return
            position, following = self._behind(reader.damage)
            reason = f"at byte {reader.damage.position}: {reader.damage.reason}"
            end = min(following, part.end)
            yield from self._leave_out(expected, end, reader.damage.position, reason)
            expected = following

    def _batch(self, batch: FoundBatch) -> Iterator[pa.RecordBatch]:
        header = batch.header
        if not header.is_control:
            self._collector.add(header, batch.data)
            if self._collector.full:
                yield from self._collector.take()
            return
        yield from self._collector.take()
        try:
            rows = [
                _control(record)
                for record in iter_records(batch.data)
                if self._part.start <= record.offset < self._part.end
            ]
        except DecodeError as error:
            base, end = int(header.base_offset), int(header.end_offset)
            yield from self._leave_out(base, end, batch.position, f"control batch: {error}")
        else:
            yield from table_of(rows, self._part.shape, self._part.path)

    def _leave_out(
        self, offset: int, end: int, position: int, reason: str
    ) -> Iterator[pa.RecordBatch]:
        part = self._part
        offset = max(offset, part.start)
        if end <= offset:
            return
        if not part.shape.skip_corrupt:
            raise CorruptError(part.path, reason, offset)
        row = corrupt_row(offset, end, part.path, position, reason)
        yield from table_of([row], part.shape, part.path)

    def _behind(self, damage: Damage) -> tuple[int, int]:
        """Return the position and the offset at which to continue after damage."""
        part, size = self._part, self._piece.size
        file = self._files.open_to_read(self._piece.path)
        try:
            header = _header(file, damage.position, damage.offset)
            if header is not None:
                # The length lies outside the checksum: it is right if a batch follows.
                position, end = damage.position + header[0], header[1]
                if position == size or _header(file, position, end) is not None:
                    return position, end
            index = read_index(self._files, self._piece.path, self._segment(), times=False)
            for number in range(0 if index is None else len(index)):
                entry = index.entry(number) if index is not None else None
                if entry is None or entry.position <= damage.position:
                    continue
                base = _base_of(file, entry.position, entry.last_offset)
                if base is not None and base > damage.offset:
                    return entry.position, base
        except DecodeError:
            pass
        finally:
            file.close()
        return size, part.end

    def _segment(self) -> Offset:
        return Offset(int(self._piece.path.stem))


def _header(file: File, position: int, base: int) -> tuple[int, int] | None:
    """Return size and end offset of the batch at a position, if it begins with that offset."""
    try:
        header = read_header(file.pread(HEADER_BYTES, position))
    except DecodeError:
        return None
    return (header.size, int(header.end_offset)) if header.base_offset == base else None


def _base_of(file: File, position: int, last: int) -> int | None:
    """Return the first offset of the batch at a position, if it ends with that offset."""
    try:
        header = read_header(file.pread(HEADER_BYTES, position))
    except DecodeError:
        return None
    return int(header.base_offset) if header.last_offset == last else None


def _control(record: LogRecord) -> Row:
    place = (int(record.offset), int(record.epoch), record.timestamp_ms)
    if record.control is not None:
        fields = control_fields(record.control)
        return control_row(place, type(record.control).__name__, fields, record.key, record.value)
    name, fields = describe_control(record.key, record.value)
    return control_row(place, name, fields, record.key, record.value)
