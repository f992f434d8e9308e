"""One file of the log: named by its first offset, batches end to end, nothing else.

A segment knows where the batches lie in its file, and returns no batch with a wrong checksum,
offset or epoch. `log` decides when to make, sync, cut or remove a segment; `log_recovery` decides
what a start does with the files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raftnode.core.records import Batch
from raftnode.core.types import NO_EPOCH, Epoch, Offset
from raftnode.errors import DecodeError, StorageCorruptError
from raftnode.logformat.batch import HEADER_BYTES, BatchHeader, check_crc, read_header, to_batch
from raftnode.logformat.epochs import EpochIndex, EpochStart
from raftnode.logformat.index import OFFSET_SUFFIX, TIME_SUFFIX, OffsetEntry, SegmentIndex
from raftnode.storage.files import File, Files
from raftnode.storage.segments.index_cache import IndexCache
from raftnode.storage.segments.index_files import IndexFiles, read_index, read_index_ends
from raftnode.storage.segments.window import Window

SUFFIX = ".log"
_WALK_BYTES = 8 << 10
_COPY_BYTES = 256 << 10


def segment_path(directory: Path, base_offset: Offset) -> Path:
    """Kafka's name for the segment that starts at an offset."""
    return directory / f"{base_offset:020d}{SUFFIX}"


def segment_base_offset(name: str, suffix: str = SUFFIX) -> Offset | None:
    """The offset in the name of a segment (or of its index); None for any other file."""
    digits = name.removesuffix(suffix)
    ours = name.endswith(suffix) and len(digits) == 20 and digits.isascii() and digits.isdigit()
    return Offset(int(digits)) if ours else None


@dataclass(frozen=True, slots=True)
class Damage:
    """The first place of a segment from which on it cannot be read."""

    path: Path
    position: int
    offset: Offset
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position} (offset {self.offset}): {self.reason}"


@dataclass(frozen=True, slots=True)
class ControlBatch:
    """A control batch, without its bytes, and where it stands in its segment."""

    batch: Batch
    position: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of reading a segment to its end."""

    epochs: tuple[EpochStart, ...]
    control: tuple[ControlBatch, ...]
    damage: Damage | None


class Segment:
    """An open segment.

    Invariant: [0, size) of the file holds the batches of [base_offset, end_offset).
    One thread appends or truncates; others may read meanwhile what was there before.
    """

    def __init__(
        self, files: Files, file: File, base_offset: Offset, cache: IndexCache | None = None
    ) -> None:
        self._files = files
        self._cache = cache or IndexCache()
        self.file = file
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.reserved = 0
        """The byte up to which the disk keeps room; 0: up to the end of the file."""
        self._given_back = False
        """Whether room was given back without an `fsync` since, so that a crash may restore it."""
        self.readers = 0
        """How many readers it has now; the log closes a removed segment after the last reader."""
        self._index: SegmentIndex | None = SegmentIndex(base_offset)
        """Held while the segment grows; None once it is sealed: read from the file at need."""
        self._index_files: IndexFiles | None = None
        self._first_timestamp_ms: int | None = None

    @classmethod
    def create(
        cls, files: Files, directory: Path, base_offset: Offset, cache: IndexCache | None = None
    ) -> Segment:
        """Make an empty segment and its indexes, durably."""
        file = files.open(segment_path(directory, base_offset), create=True)
        segment = cls(files, file, base_offset, cache)
        if file.stat().size:
            raise segment.corrupt(0, base_offset, "a new segment is not empty")
        file.fsync()
        segment._index_files = IndexFiles.create(files, file.path)
        files.fsync_dir(directory)
        return segment

    @classmethod
    def open(
        cls, files: Files, directory: Path, base_offset: Offset, cache: IndexCache | None = None
    ) -> Segment:
        """Open an existing segment; it counts as empty until recovery has read it."""
        return cls(files, files.open(segment_path(directory, base_offset)), base_offset, cache)

    # -- on a start ------------------------------------------------------------

    def accept_sealed(self, next_base: Offset) -> BatchHeader | None:
        """Accept a full segment as it is if its last batch is where its index says.

        Reads only the ends of the three files.

        Returns:
            The last batch's header; None: the indexes do not suffice, so `scan` is needed.
        """
        size = self.file.stat().size
        try:
            tails = read_index_ends(self._files, self.file.path, self.base_offset)
            entry = None if tails is None else tails.last
            if tails is None or entry is None or entry.last_offset + 1 != next_base:
                return None
            header = read_header(self.file.pread(HEADER_BYTES, entry.position))
        except DecodeError:
            return None
        if header.end_offset != next_base or entry.position + header.size != size:
            return None
        largest = tails.largest
        if largest.timestamp_ms < header.max_timestamp_ms or largest.last_offset >= next_base:
            return None
        self.size, self.end_offset, self._index = size, next_base, None
        return header

    def resume(self, offset: Offset) -> bool:
        """Accept the batches below a batch boundary as they are, with the help of the indexes.

        Returns:
            False: the indexes do not suffice, or there is no such boundary; nothing is accepted.
        """
        try:
            index = read_index(self._files, self.file.path, self.base_offset, torn=True)
            if index is None:
                return False
            index, end, position = self._followed(index.cut(offset))
            for header, at in self._headers(position, end, offset):
                index.note(header, at)
                end, position = header.end_offset, at + header.size
        except (DecodeError, StorageCorruptError):
            return False
        if end != offset or position > self.file.stat().size:
            return False
        self._index, self.size, self.end_offset = index, position, end
        return True

    def _followed(self, index: SegmentIndex) -> tuple[SegmentIndex, Offset, int]:
        """The end of the last entry's batch, and the index without entries torn by a crash."""
        while index.last is not None:
            entry = index.last
            header = self._header_of(entry)
            if header is not None and index.largest.timestamp_ms >= header.max_timestamp_ms:
                index.continue_after(header.size)
                return index, header.end_offset, entry.position + header.size
            index = index.cut(entry.last_offset)
        return index, self.base_offset, 0

    def _header_of(self, entry: OffsetEntry) -> BatchHeader | None:
        """The batch that an index entry points to; None if there is no batch with that end."""
        try:
            header = read_header(self.file.pread(HEADER_BYTES, entry.position))
        except DecodeError:
            return None
        return header if header.last_offset == entry.last_offset else None

    def scan(self, check_from: Offset, last_epoch: Epoch) -> Scan:
        """Read on from where the segment ends here; check bodies that end after `check_from`.

        Control batches are always checked and decoded. Afterwards the segment
        ends before the damage, if any was found.
        """
        assert self._index is not None  # noqa: S101
        there = self.file.stat()
        file_size = there.size
        # The room that a crash has left, whichever start had reserved it.
        self.reserved = file_size + there.spare_bytes if there.spare_bytes else 0
        window = Window(self.file)
        epochs: list[EpochStart] = []
        control: list[ControlBatch] = []
        damage: Damage | None = None
        while self.size < file_size:
            try:
                header = read_header(window.at(self.size, HEADER_BYTES))
                self._check_place(header, last_epoch, file_size)
                if header.is_control or header.end_offset > check_from:
                    data = window.at(self.size, header.size)
                    check_crc(header, data)
                    if header.is_control:
                        batch = without_data(to_batch(header, bytes(data)))
                        control.append(ControlBatch(batch, self.size))
            except DecodeError as error:
                damage = Damage(self.file.path, self.size, self.end_offset, str(error))
                break
            if header.epoch != last_epoch:
                epochs.append(EpochStart(header.epoch, header.base_offset))
                last_epoch = header.epoch
            self._index.note(header, self.size)
            self.size += header.size
            self.end_offset = header.end_offset
        return Scan(tuple(epochs), tuple(control), damage)

    def _check_place(self, header: BatchHeader, last_epoch: Epoch, file_size: int) -> None:
        if header.base_offset != self.end_offset:
            raise DecodeError(f"base offset {header.base_offset}, expected {self.end_offset}")
        if header.epoch < last_epoch or header.epoch == NO_EPOCH:
            raise DecodeError(f"epoch {header.epoch} after {last_epoch}")
        if self.size + header.size > file_size:
            raise DecodeError(f"{file_size - self.size} of {header.size} bytes are there")

    def keep_index(self, *, sealed: bool) -> None:
        """Write the index files for the segment's batches, durably, after a scan."""
        assert self._index is not None  # noqa: S101
        if sealed:
            self._index.seal()
        self._index_files = IndexFiles.adopt(self._files, self.file.path, self._index)
        if sealed:
            self._let_go_of_index()

    # -- growing ---------------------------------------------------------------

    def append(self, data: bytes, headers: list[BatchHeader]) -> None:
        """Write whole batches at the end (not durable yet)."""
        assert self._index is not None  # noqa: S101
        if self._first_timestamp_ms is None and not self.size:
            self._first_timestamp_ms = headers[0].base_timestamp_ms
        self.file.pwrite(data, self.size)
        for header in headers:
            self._index.note(header, self.size)
            self.size += header.size
        if self._index_files is not None:
            self._index_files.write(self._index)
        self.end_offset = headers[-1].end_offset

    @property
    def first_timestamp_ms(self) -> int | None:
        """Timestamp of the first batch; None in an empty segment."""
        if self._first_timestamp_ms is None and self.size:
            header = self._header_at(0, self.base_offset)
            self._first_timestamp_ms = header.base_timestamp_ms
        return self._first_timestamp_ms

    def sync_index(self) -> None:
        """Make the index files durable, as a recovery point needs."""
        if self._index_files is not None:
            self._index_files.sync()

    def seal(self) -> None:
        """Complete the indexes of a full segment, durably, and drop them from memory."""
        self.give_back_durably()
        if self._index is not None and self._index_files is not None:
            self._index.seal()
            self._index_files.write(self._index)
            self._index_files.sync()
            self._let_go_of_index()

    def _let_go_of_index(self) -> None:
        if self._index is not None:
            self._cache.put(self.file.path, self._index)
        if self._index_files is not None:
            self._index_files.close()
        self._index = self._index_files = None

    # -- room beyond its end -----------------------------------------------------

    def reserve(self, length: int) -> int | None:
        """Let the disk keep room for the bytes below `length` (not durable yet).

        The file still ends where its records end.

        Returns:
            None; or the errno of a refusal: then nothing is reserved.
        """
        refused = self.file.reserve(length)
        if refused is None:
            self.reserved = length
        else:
            # After a refusal, a file system keeps the room that it had reserved until then.
            self._cut_room()
        return refused

    def give_back(self) -> bool:
        """Give back the room beyond the end (not durable yet); False: there was none.

        Nothing may be appended meanwhile.
        """
        if self.reserved <= self.size:
            return False
        self._cut_room()
        return True

    def _cut_room(self) -> None:
        # A truncation to its own size keeps the file and frees the blocks behind it.
        self.file.truncate(self.size)
        self.reserved = 0
        self._given_back = True

    def give_back_durably(self) -> None:
        """Give back the room beyond the end, and make an earlier return of room durable.

        No start looks for the room once another segment grows.
        """
        self.give_back()
        if self._given_back:
            self.file.fsync()
            self._given_back = False

    # -- reading ---------------------------------------------------------------

    def read(
        self, start_offset: Offset, max_bytes: int, end_offset: Offset, epochs: EpochIndex
    ) -> bytes:
        """Whole batches from the one that holds `start_offset`, as `Log.read` promises.

        Raises:
            StorageCorruptError: the bytes there are not what was written.
        """
        limit = self.size
        expected, first = self._find(start_offset)
        data = self.file.pread(min(max(max_bytes, _WALK_BYTES), limit - first), first)
        position, total = 0, len(data)
        while expected < end_offset and position < total:
            try:
                if total - position < HEADER_BYTES:
                    break
                header = read_header(data, position)
                self._check_read(header, expected, epochs)
                if header.end_offset > end_offset or (
                    position and position + header.size > max_bytes
                ):
                    break
                if position + header.size > total:
                    if position:
                        break
                    data = self.file.pread(header.size, first)
                    total = len(data)
                check_crc(header, data, position)
            except DecodeError as error:
                raise self.corrupt(first + position, expected, str(error)) from error
            position += header.size
            expected = header.end_offset
        if position or expected >= end_offset or total >= HEADER_BYTES:
            return data[:position]
        raise self.corrupt(first + total, start_offset, "the file ends here")

    def _check_read(self, header: BatchHeader, expected: Offset, epochs: EpochIndex) -> None:
        if header.base_offset != expected:
            raise DecodeError(f"base offset {header.base_offset}, expected {expected}")
        epoch = epochs.epoch_at(expected)
        if header.epoch != epoch:
            raise DecodeError(f"epoch {header.epoch}, expected {epoch}")

    def batch_at(self, position: int, offset: Offset) -> Batch:
        """The batch that begins at a position with an offset, checked.

        Raises:
            StorageCorruptError: something else stands there.
        """
        header = self._header_at(position, offset)
        data = self.file.pread(header.size, position)
        try:
            check_crc(header, data)
            return to_batch(header, data)
        except DecodeError as error:
            raise self.corrupt(position, offset, str(error)) from error

    def _header_at(self, position: int, offset: Offset) -> BatchHeader:
        try:
            header = read_header(self.file.pread(HEADER_BYTES, position))
            if header.base_offset != offset:
                raise DecodeError(f"base offset {header.base_offset}, expected {offset}")  # noqa: TRY301
        except DecodeError as error:
            raise self.corrupt(position, offset, str(error)) from error
        return header

    def boundary(self, offset: Offset) -> tuple[Offset, int]:
        """The last batch boundary that is not after `offset`, and its position.

        Raises:
            StorageCorruptError: the bytes there are no batch.
        """
        return (self.end_offset, self.size) if offset >= self.end_offset else self._find(offset)

    def _find(self, offset: Offset) -> tuple[Offset, int]:
        """Base offset and position of the batch that holds an offset."""
        index = self._index
        if index is None:
            index = self._cache.get(self.file.path, self._load_index)
        entry = index.lookup(offset)
        if entry is None:
            return self._walk_to(offset, self.base_offset, 0)
        header = self._header_of(entry)
        if header is not None:
            with contextlib.suppress(StorageCorruptError):
                end = entry.position + header.size
                return self._walk_to(offset, header.end_offset, end, before=header)
        # The index or the segment is damaged; only the segment's batches show which.
        self._cache.put(self.file.path, self._rebuilt_index())
        return self._walk_to(offset, self.base_offset, 0)

    def _walk_to(
        self, offset: Offset, expected: Offset, position: int, *, before: BatchHeader | None = None
    ) -> tuple[Offset, int]:
        if before is not None and before.base_offset <= offset < before.end_offset:
            return before.base_offset, position - before.size
        for header, at in self._headers(position, expected, self.end_offset):
            if header.end_offset > offset:
                return header.base_offset, at
        raise self.corrupt(self.size, offset, "the file ends here")

    def _headers(
        self, position: int, expected: Offset, end_offset: Offset
    ) -> Iterator[tuple[BatchHeader, int]]:
        """Headers from a position on, up to an offset."""
        window = Window(self.file, _WALK_BYTES)
        while expected < end_offset:
            try:
                header = read_header(window.at(position, HEADER_BYTES))
            except DecodeError as error:
                raise self.corrupt(position, expected, str(error)) from error
            if header.base_offset != expected:
                raise self.corrupt(position, expected, f"base offset {header.base_offset}")
            yield header, position
            position += header.size
            expected = header.end_offset

    def _load_index(self) -> SegmentIndex:
        try:
            index = read_index(self._files, self.file.path, self.base_offset, times=False)
        except DecodeError:
            index = None
        return self._rebuilt_index() if index is None else index

    def _rebuilt_index(self, end_offset: Offset | None = None) -> SegmentIndex:
        index = SegmentIndex(self.base_offset)
        end = self.end_offset if end_offset is None else end_offset
        for header, position in self._headers(0, self.base_offset, end):
            index.note(header, position)
        return index

    def corrupt(self, position: int, offset: Offset, reason: str) -> StorageCorruptError:
        """The error that names a place of this segment."""
        return StorageCorruptError(str(Damage(self.file.path, position, offset, reason)))

    # -- shrinking -------------------------------------------------------------

    def truncate(self, end_offset: Offset, position: int) -> None:
        """Cut the file at a batch boundary, durably; the segment grows again from there."""
        if self._index is None:
            index = self._rebuilt_index(end_offset)
        else:
            index, start, at = self._followed(self._index.cut(end_offset))
            for header, where in self._headers(at, start, end_offset):
                index.note(header, where)
        self.size = position
        self.end_offset = end_offset
        if not position:
            self._first_timestamp_ms = None
        self._index = index
        self._cache.drop(self.file.path)
        self.file.truncate(position)
        self.reserved = 0
        self.file.fsync()
        if self._index_files is not None:
            self._index_files.close()
        self._index_files = IndexFiles.adopt(self._files, self.file.path, index)

    def remove(self) -> None:
        """Remove the files, durably; the segment's own goes last."""
        if self._index_files is not None:
            self._index_files.close()
            self._index_files = None
        self._cache.drop(self.file.path)
        for suffix in (TIME_SUFFIX, OFFSET_SUFFIX):
            path = self.file.path.with_suffix(suffix)
            if self._files.stat(path) is not None:
                self._files.unlink(path)
        self._files.unlink(self.file.path)

    def rewrite(self, position: int) -> None:
        """Write the bytes from `position` on once more, so that the next sync covers them."""
        while position < self.size:
            data = self.file.pread(min(_COPY_BYTES, self.size - position), position)
            if not data:
                raise self.corrupt(position, self.end_offset, "the file ends here")
            self.file.pwrite(data, position)
            position += len(data)

    def close(self) -> None:
        """Close the files."""
        if self._index_files is not None:
            self._index_files.close()
        self.file.close()


def without_data(batch: Batch) -> Batch:
    """A control batch for the core's index, which needs no bytes."""
    return Batch(batch.base_offset, batch.last_offset, batch.epoch, b"", batch.control)
