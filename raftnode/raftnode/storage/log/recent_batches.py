"""The newest batches of the log, in memory: followers, readers and the store ask here first.

This is only a copy: the segments have every batch. A batch comes here as it is appended: the leader
has made it, or a follower has checked its checksum as it arrived. What a read finds on disk is
checked there each time and never comes here. It is not thread-safe by itself.
"""

from __future__ import annotations

from bisect import bisect_right

from raftnode.core.types import Offset

RECENT_BYTES = 4 << 20
"""How much of the log's end is held unless the settings say otherwise: as much as a busy quorum
writes within some hundred milliseconds, and more than a follower that keeps up is behind."""

BATCH_OVERHEAD_BYTES = 128
"""What a batch takes besides its bytes: three objects, and a place for each in a list."""


class RecentBatches:
    """Consecutive batches; the oldest are dropped first.

    Args:
        bytes_max: how much memory they take at most, with their overhead; 0: none is held.
    """

    def __init__(self, bytes_max: int = RECENT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bases: list[Offset] = []
        self._ends: list[Offset] = []
        self._data: list[bytes] = []
        self._size = 0

    @property
    def size_bytes(self) -> int:
        """How much memory they take, with their overhead."""
        return self._size

    def add(self, base_offset: Offset, end_offset: Offset, data: bytes) -> None:
        """Hold the next batch; it begins where the last one ends."""
        self._bases.append(base_offset)
        self._ends.append(end_offset)
        self._data.append(data)
        self._size += len(data) + BATCH_OVERHEAD_BYTES
        if self._size > self._bytes_max:
            self._let_go()

    def _let_go(self) -> None:
        # Drop more than needed: each removal from the front moves all the rest.
        gone = 0
        while self._size > self._bytes_max * 3 // 4:
            self._size -= len(self._data[gone]) + BATCH_OVERHEAD_BYTES
            gone += 1
        for values in (self._bases, self._ends, self._data):
            del values[:gone]

    def cut(self, end_offset: Offset) -> None:
        """Drop the batches from `end_offset` on, after a truncation to a batch boundary."""
        while self._ends and self._ends[-1] > end_offset:
            self._size -= len(self._data[-1]) + BATCH_OVERHEAD_BYTES
            for values in (self._bases, self._ends, self._data):
                del values[-1]

    def clear(self) -> None:
        """Drop all batches, as another log begins."""
        for values in (self._bases, self._ends, self._data):
            values.clear()
        self._size = 0

    def read(self, start_offset: Offset, max_bytes: int, end_offset: Offset) -> bytes | None:
        """Whole batches from the one that holds an offset, as `Log.read` gives them.

        At least one batch, unless it ends after `end_offset`; None: the first one is not held.
        """
        first = bisect_right(self._bases, start_offset) - 1
        if first < 0 or start_offset >= self._ends[-1]:
            return None
        size, end = 0, first
        while end < len(self._data) and self._ends[end] <= end_offset:
            size += len(self._data[end])
            if end > first and size > max_bytes:
                break
            end += 1
        return b"".join(self._data[first:end])
