"""The newest batches of the log, in memory: what followers, readers and the store ask for first.

A copy, never the truth: what it does not hold stands in the segments. Not thread-safe by itself.
"""

from __future__ import annotations

from bisect import bisect_right

from raftnode.core.types import Offset

RECENT_BYTES = 4 << 20
"""So much of the log's end at most: what a busy quorum writes within some hundred milliseconds,
and more than a follower that keeps up is behind."""


class RecentBatches:
    """Batches that follow each other, the oldest let go first."""

    def __init__(self, bytes_max: int = RECENT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bases: list[Offset] = []
        self._ends: list[Offset] = []
        self._data: list[bytes] = []
        self._size = 0

    def add(self, base_offset: Offset, end_offset: Offset, data: bytes) -> None:
        """Hold the next batch; it begins where the last one ends."""
        self._bases.append(base_offset)
        self._ends.append(end_offset)
        self._data.append(data)
        self._size += len(data)
        if self._size > self._bytes_max:
            self._let_go()

    def _let_go(self) -> None:
        # More than must go: each removal from the front moves all the rest.
        gone = 0
        while self._size > self._bytes_max * 3 // 4:
            self._size -= len(self._data[gone])
            gone += 1
        for values in (self._bases, self._ends, self._data):
            del values[:gone]

    def cut(self, end_offset: Offset) -> None:
        """The log was truncated to a boundary between batches."""
        while self._ends and self._ends[-1] > end_offset:
            self._size -= len(self._data[-1])
            for values in (self._bases, self._ends, self._data):
                del values[-1]

    def clear(self) -> None:
        """Another log begins."""
        for values in (self._bases, self._ends, self._data):
            values.clear()
        self._size = 0

    def read(self, start_offset: Offset, max_bytes: int, end_offset: Offset) -> bytes | None:
        """Whole batches from the one that holds an offset, as `Log.read` gives them.

        At least one, unless it ends after `end_offset`; None: the first is not held.
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
