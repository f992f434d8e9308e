"""One file of the log: named by its first offset, batches end to end, nothing else.

A segment knows where batches lie in its file. When to make, sync, cut or remove one
is decided by `log`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raftnode.core.records import Batch
from raftnode.core.types import NO_EPOCH, Epoch, Offset
from raftnode.errors import DecodeError, StorageCorruptError
from raftnode.storage.batch import HEADER_BYTES, BatchHeader, check_crc, read_header, to_batch
from raftnode.storage.epochs import EpochStart
from raftnode.storage.files import File, Files

SUFFIX = ".log"
INDEX_INTERVAL_BYTES = 4096
_SCAN_BYTES = 256 << 10
_AFTER_ANY_POSITION = 1 << 62


def segment_path(directory: Path, base_offset: Offset) -> Path:
    """Kafka's name for the segment that starts at an offset."""
    return directory / f"{base_offset:020d}{SUFFIX}"


def segment_base_offset(name: str) -> Offset | None:
    """The offset in a segment's name; None for any other file."""
    digits = name.removesuffix(SUFFIX)
    ours = name.endswith(SUFFIX) and len(digits) == 20 and digits.isascii() and digits.isdigit()
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
class Scan:
    """What reading a segment from end to end found."""

    epochs: tuple[EpochStart, ...]
    control: tuple[Batch, ...]
    """Control batches, without their bytes."""
    damage: Damage | None


class Segment:
    """An open segment.

    Invariant: [0, size) of the file holds the batches of [base_offset, end_offset).
    One thread appends or truncates; others may read meanwhile what was there before.
    """

    def __init__(self, file: File, base_offset: Offset) -> None:
        self.file = file
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        # (offset, position) of a batch every few KiB; replaced, never shrunk in place.
        self._index: list[tuple[Offset, int]] = []

    @classmethod
    def create(cls, files: Files, directory: Path, base_offset: Offset) -> Segment:
        """Make an empty segment, durably."""
        segment = cls(files.open(segment_path(directory, base_offset), create=True), base_offset)
        if segment.file.stat().size:
            raise segment._corrupt(0, base_offset, "a new segment is not empty")
        segment.file.fsync()
        files.fsync_dir(directory)
        return segment

    @classmethod
    def open(cls, files: Files, directory: Path, base_offset: Offset) -> Segment:
        """Open an existing segment; it is empty here until `scan` has read it."""
        return cls(files.open(segment_path(directory, base_offset)), base_offset)

    def append(self, data: bytes, batches: list[tuple[Offset, int]], end_offset: Offset) -> None:
        """Write whole batches at the end (not durable yet).

        Args:
            data: their bytes.
            batches: base offset and size of each.
            end_offset: one past the last record.
        """
        self.file.pwrite(data, self.size)
        for offset, size in batches:
            self._note(offset, self.size)
            self.size += size
        self.end_offset = end_offset

    def _note(self, offset: Offset, position: int) -> None:
        if not self._index or position - self._index[-1][1] >= INDEX_INTERVAL_BYTES:
            self._index.append((offset, position))

    def scan(self, check_from: Offset, last_epoch: Epoch) -> Scan:
        """Walk all headers and build the index; check bodies that end after `check_from`.

        Control batches are always checked and decoded. Afterwards the segment
        ends before the damage, if any was found.
        """
        file_size = self.file.stat().size
        window = _Window(self.file)
        epochs: list[EpochStart] = []
        control: list[Batch] = []
        damage: Damage | None = None
        while self.size < file_size:
            try:
                header = read_header(window.at(self.size, HEADER_BYTES))
                self._check_place(header, last_epoch, file_size)
                if header.is_control or header.end_offset > check_from:
                    data = window.at(self.size, header.size)
                    check_crc(header, data)
                    if header.is_control:
                        control.append(_without_data(to_batch(header, bytes(data))))
            except DecodeError as error:
                damage = Damage(self.file.path, self.size, self.end_offset, str(error))
                break
            if header.epoch != last_epoch:
                epochs.append(EpochStart(header.epoch, header.base_offset))
                last_epoch = header.epoch
            self._note(header.base_offset, self.size)
            self.size += header.size
            self.end_offset = header.end_offset
        return Scan(tuple(epochs), tuple(control), damage)

    def _check_place(self, header: BatchHeader, last_epoch: Epoch, file_size: int) -> None:
        if header.base_offset != self.end_offset:
            raise DecodeError(f"base offset {header.base_offset} instead of {self.end_offset}")
        if header.epoch < last_epoch or header.epoch == NO_EPOCH:
            raise DecodeError(f"epoch {header.epoch} after {last_epoch}")
        if self.size + header.size > file_size:
            raise DecodeError(f"{file_size - self.size} of {header.size} bytes there")

    def read(self, start_offset: Offset, max_bytes: int, end_offset: Offset) -> bytes:
        """Whole batches from the one that holds `start_offset`, as `Log.read` promises.

        Raises:
            StorageCorruptError: what stands there is no batch.
        """
        first = last = None
        for header, position in self._walk(start_offset):
            if header.end_offset <= start_offset:
                continue
            if header.end_offset > end_offset:
                break
            if first is not None and position + header.size - first > max_bytes:
                break
            first = position if first is None else first
            last = position + header.size
            if header.end_offset == end_offset:
                break
        if first is None or last is None:
            return b""
        data = self.file.pread(last - first, first)
        if len(data) != last - first:
            raise self._corrupt(first + len(data), start_offset, "the file ends here")
        return data

    def boundary(self, offset: Offset) -> tuple[Offset, int]:
        """The last batch boundary that is not after `offset`, and its position.

        Raises:
            StorageCorruptError: what stands there is no batch.
        """
        if offset >= self.end_offset:
            return self.end_offset, self.size
        place: tuple[Offset, int] = (self.base_offset, 0)
        for header, position in self._walk(offset):
            place = (header.base_offset, position)
            if header.end_offset > offset:
                break
        return place

    def _walk(self, offset: Offset) -> Iterator[tuple[BatchHeader, int]]:
        """Headers and positions from an indexed batch at or before `offset` on."""
        index = self._index
        place = bisect_right(index, (offset, _AFTER_ANY_POSITION))
        if not place:
            return
        expected, position = index[place - 1]
        window = _Window(self.file)
        while position < self.size:
            try:
                header = read_header(window.at(position, HEADER_BYTES))
            except DecodeError as error:
                raise self._corrupt(position, expected, str(error)) from error
            if header.base_offset != expected:
                raise self._corrupt(position, expected, f"base offset {header.base_offset}")
            yield header, position
            position += header.size
            expected = header.end_offset

    def _corrupt(self, position: int, offset: Offset, reason: str) -> StorageCorruptError:
        return StorageCorruptError(str(Damage(self.file.path, position, offset, reason)))

    def truncate(self, end_offset: Offset, position: int) -> None:
        """Cut the file at a batch boundary, durably."""
        self.size = position
        self.end_offset = end_offset
        self._index = [entry for entry in self._index if entry[1] < position]
        self.file.truncate(position)
        self.file.fsync()

    def rewrite(self, position: int) -> None:
        """Write the bytes from `position` on once more, so that the next sync covers them."""
        while position < self.size:
            data = self.file.pread(min(_SCAN_BYTES, self.size - position), position)
            if not data:
                raise self._corrupt(position, self.end_offset, "the file ends here")
            self.file.pwrite(data, position)
            position += len(data)


class _Window:
    """Reads a file forward in large pieces."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._start = 0
        self._data = b""

    def at(self, position: int, length: int) -> memoryview:
        """Bytes from a position on; fewer than `length` only at the end of the file."""
        skip = position - self._start
        if skip < 0 or skip + length > len(self._data):
            self._data = self._file.pread(max(length, _SCAN_BYTES), position)
            self._start, skip = position, 0
        return memoryview(self._data)[skip : skip + length]


def _without_data(batch: Batch) -> Batch:
    return Batch(batch.base_offset, batch.last_offset, batch.epoch, b"", batch.control)
