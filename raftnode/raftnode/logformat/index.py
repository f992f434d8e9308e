"""The sparse indexes of a segment: `.index` by offset, `.timeindex` by time.

Both files have Kafka's form, big-endian and without a header. An entry of `.index` is an
int32 (last offset of a batch, less the segment's base) and an int32 (where that batch
begins). An entry of `.timeindex` is an int64 (the largest timestamp so far, ms) and an int32
(last offset of the batch that has it, less the base). There is an entry every few KiB, and one
for the last batch of a full segment, so that a single read finds the segment's end.

An index is a hint and never an authority: the code that follows an entry checks the batch that
it finds there. An index can always be made again from the segment, so its files are synced only
before a recovery point that counts on them.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from operator import lt
from typing import NamedTuple

from raftnode.core.types import Offset
from raftnode.errors import DecodeError
from raftnode.logformat.batch import BatchHeader

OFFSET_SUFFIX = ".index"
TIME_SUFFIX = ".timeindex"
INTERVAL_BYTES = 4096
"""Bytes of log between two entries; Kafka's default."""

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
NO_TIMESTAMP_MS = -1
INT32_MAX = 2**31 - 1
_SWAP = sys.byteorder == "little"


class OffsetEntry(NamedTuple):
    """A batch that an index points to."""

    last_offset: Offset
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp of the segment up to some batch, and the batch that has it."""

    timestamp_ms: int
    last_offset: Offset


class SegmentIndex:
    """Both indexes of one segment in memory.

    Invariant: offsets, positions and timestamps grow strictly; entries are only added.
    One thread adds; others may look up meanwhile.
    """

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")
        self._times = array("q")
        self._time_offsets = array("i")
        self._since = 0
        self.largest = TimeEntry(NO_TIMESTAMP_MS, base_offset)
        """The largest timestamp of all batches noted, indexed or not."""
        self._last: OffsetEntry | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def time_entries(self) -> int:
        """Number of entries of the time index."""
        return len(self._times)

    @property
    def last(self) -> OffsetEntry | None:
        """The last entry of the offset index."""
        return self.entry(len(self._offsets) - 1) if self._offsets else None

    def entry(self, number: int) -> OffsetEntry:
        """An entry of the offset index, counted from 0."""
        return OffsetEntry(
            Offset(self.base_offset + self._offsets[number]), self._positions[number]
        )

    def time_entry(self, number: int) -> TimeEntry:
        """An entry of the time index, counted from 0."""
        return TimeEntry(self._times[number], Offset(self.base_offset + self._time_offsets[number]))

    def note(self, header: BatchHeader, position: int) -> None:
        """Add the next batch of the segment."""
        if header.max_timestamp_ms > self.largest.timestamp_ms:
            self.largest = TimeEntry(header.max_timestamp_ms, header.last_offset)
        self._last = OffsetEntry(header.last_offset, position)
        if self._since > INTERVAL_BYTES:
            self._add()
        self._since += header.size

    def seal(self) -> None:
        """Add entries for the last batch, as the segment is full."""
        if self._last is not None and self._last != self.last:
            self._add()

    def _add(self) -> None:
        assert self._last is not None  # noqa: S101
        offset = self._last.last_offset - self.base_offset
        if offset > INT32_MAX or self._last.position > INT32_MAX:
            return  # not to be written in this form; a reader walks a little further
        # Readers find an entry by its offset: that comes last.
        self._positions.append(self._last.position)
        self._offsets.append(offset)
        if self.largest.timestamp_ms > (self._times[-1] if self._times else NO_TIMESTAMP_MS):
            self._time_offsets.append(self.largest.last_offset - self.base_offset)
            self._times.append(self.largest.timestamp_ms)
        self._since = 0

    def lookup(self, offset: Offset) -> OffsetEntry | None:
        """The last indexed batch that does not end after `offset`; None: begin at the start."""
        offsets = self._offsets
        number = bisect_right(offsets, offset - self.base_offset)
        return self.entry(number - 1) if number else None

    def cut(self, end_offset: Offset) -> SegmentIndex:
        """Return the entries of batches below an offset, for `note` to continue after the last."""
        kept = SegmentIndex(self.base_offset)
        limit = end_offset - self.base_offset
        number = bisect_right(self._offsets, limit - 1)
        kept._offsets, kept._positions = self._offsets[:number], self._positions[:number]
        number = bisect_right(self._time_offsets, limit - 1)
        kept._times, kept._time_offsets = self._times[:number], self._time_offsets[:number]
        if kept._times:
            kept.largest = kept.time_entry(number - 1)
        kept._last = kept.last
        return kept

    def continue_after(self, size: int) -> None:
        """Take the size of the last entry's batch in bytes; called after `cut`."""
        self._since = size

    def encoded_offsets(self, first: int = 0) -> bytes:
        """Entries of the offset index from a number on, as they stand in the file."""
        pairs = array("i", bytes(OFFSET_ENTRY_BYTES * (len(self._offsets) - first)))
        pairs[0::2], pairs[1::2] = self._offsets[first:], self._positions[first:]
        return _big_endian(pairs)

    def encoded_times(self, first: int = 0) -> bytes:
        """Entries of the time index from a number on, as they stand in the file."""
        parts = (
            timestamp.to_bytes(8, "big", signed=True) + offset.to_bytes(4, "big")
            for timestamp, offset in zip(
                self._times[first:], self._time_offsets[first:], strict=True
            )
        )
        return b"".join(parts)

    @classmethod
    def decode(
        cls, base_offset: Offset, offsets: bytes, times: bytes = b"", *, torn: bool = False
    ) -> SegmentIndex:
        """Read the content of the files.

        Args:
            base_offset: of the segment.
            offsets: content of the offset index.
            times: content of the time index.
            torn: leave out what follows the last entry that makes sense.

        Raises:
            DecodeError: no whole number of entries, or they do not grow.
        """
        index = cls(base_offset)
        index._offsets, index._positions = decode_offsets(offsets, torn=torn)
        index._times, index._time_offsets = decode_times(times, torn=torn)
        if index._times:
            index.largest = index.time_entry(len(index._times) - 1)
        index._last = index.last
        return index


def _big_endian(values: array[int]) -> bytes:
    if _SWAP:
        values.byteswap()
    return values.tobytes()


def decode_offsets(data: bytes, *, torn: bool = False) -> tuple[array[int], array[int]]:
    """Relative offsets and positions of an offset index.

    Raises:
        DecodeError: no whole number of entries, or they do not grow.
    """
    words = _words(data, OFFSET_ENTRY_BYTES, torn=torn)
    offsets, positions = words[0::2], words[1::2]
    sound = min(
        _sound(offsets, "offset", OFFSET_ENTRY_BYTES, torn=torn),
        _sound(positions, "position", OFFSET_ENTRY_BYTES, torn=torn),
    )
    return offsets[:sound], positions[:sound]


def decode_times(data: bytes, *, torn: bool = False) -> tuple[array[int], array[int]]:
    """Timestamps and relative offsets of a time index.

    Raises:
        DecodeError: no whole number of entries, or they do not grow.
    """
    words = _words(data, TIME_ENTRY_BYTES, torn=torn)
    halves = zip(words[0::3], words[1::3], strict=True)
    times = array("q", (high << 32 | low & 0xFFFFFFFF for high, low in halves))
    offsets = words[2::3]
    sound = min(
        _sound(times, "timestamp", TIME_ENTRY_BYTES, torn=torn),
        _sound(offsets, "offset", TIME_ENTRY_BYTES, torn=torn),
    )
    return times[:sound], offsets[:sound]


def _words(data: bytes, entry_bytes: int, *, torn: bool) -> array[int]:
    left_over = len(data) % entry_bytes
    if left_over and not torn:
        raise DecodeError(
            f"{len(data)} bytes are not a whole number of entries of {entry_bytes} bytes"
        )
    words = array("i")
    words.frombytes(data[: len(data) - left_over])
    if _SWAP:
        words.byteswap()
    return words


def _sound(values: array[int], what: str, entry_bytes: int, *, torn: bool) -> int:
    """How many values grow strictly from 0 on."""
    if not values or (values[0] >= 0 and all(map(lt, values, values[1:]))):
        return len(values)
    before = -1
    for number, value in enumerate(values):
        if value <= before:
            if torn:
                return number
            raise DecodeError(
                f"entry at byte {number * entry_bytes}: {what} {value} after {before}"
            )
        before = value
    return len(values)
