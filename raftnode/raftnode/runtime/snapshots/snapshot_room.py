"""The check for disk room for the next snapshot, and the report if there is none.

A snapshot takes its room before it gives any back: only a whole snapshot lets older ones be removed
and the log be trimmed. So without room for a snapshot the log only grows. The node reports that,
and tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.metrics.node_metrics import NodeMetrics

_log = structlog.get_logger("raftnode")

RETRY_S, RETRY_MAX_S = 1.0, 30.0
"""The time between two checks for room: twice as long each time."""


class SnapshotRoom:
    """Checks for room.

    Args:
        free_bytes: returns the free bytes of the disk, given the wanted bytes; it may block.
        reserve_bytes: the bytes kept for the log (S30).
        trims: whether the log is trimmed behind snapshots: they make room then.
        disk: gets the missing bytes, and says whether the disk runs low.
        metrics: get the missing bytes, too.
        now_s: a clock that never goes back.
    """

    def __init__(
        self,
        free_bytes: Callable[[int], int],
        reserve_bytes: int,
        *,
        trims: bool,
        disk: DiskState,
        metrics: NodeMetrics,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free_bytes = free_bytes
        self._reserve_bytes = reserve_bytes
        self._trims = trims
        self._disk = disk
        self._metrics = metrics
        self._now_s = now_s
        self._retry_s = RETRY_S
        self._again_at = -1.0

    @property
    def may_look(self) -> bool:
        """Whether it is time to check again."""
        return self._now_s() >= self._again_at

    @property
    def pressing(self) -> bool:
        """Whether the disk runs low, and a snapshot would let a part of the log be trimmed."""
        return self._trims and self._disk.low

    def free(self, snapshot_bytes: int) -> int:
        """Bytes that are free for a snapshot of that size; it may block.

        Raises:
            StorageError: the disk failed.
        """
        return self._free_bytes(snapshot_bytes + self.margin_bytes)

    def suffices(self, free_bytes: int, snapshot_bytes: int) -> bool:
        """Whether so much is enough for a snapshot of that size; report if it is not."""
        missing = snapshot_bytes + self.margin_bytes - free_bytes
        if missing > 0:
            self.lacks(missing)
            return False
        return True

    @property
    def margin_bytes(self) -> int:
        """The bytes that must be free beside the snapshot.

        Twice the reserve, so that writing the snapshot never makes a disk low. If the log is
        trimmed behind the snapshot, half of the reserve: the snapshot then gives back more than it
        takes, which is worth a while below the reserve. A snapshot that was not made while there
        was room would never be made.
        """
        return self._reserve_bytes // 2 if self._trims else 2 * self._reserve_bytes

    def lacks(self, missing_bytes: int) -> None:
        """Note that there was no room; report it once, and set the time of the next check."""
        if not self._disk.snapshot_room_missing_bytes:
            _log.warning("snapshot_skipped", missing_bytes=missing_bytes, trims=self._trims)
        self._show(missing_bytes)
        self._again_at = self._now_s() + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    def taken(self) -> None:
        """Note that a snapshot was taken."""
        if self._disk.snapshot_room_missing_bytes:
            _log.info("snapshot_resumed")
        self._show(0)
        self._retry_s, self._again_at = RETRY_S, -1.0

    def _show(self, missing_bytes: int) -> None:
        self._disk.snapshot_room_missing_bytes = missing_bytes
        self._metrics.snapshot_room_missing_bytes.set(missing_bytes)
