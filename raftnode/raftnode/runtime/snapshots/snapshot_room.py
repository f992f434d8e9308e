"""Whether the disk has room for the next snapshot, and what is told where it has not.

A snapshot takes its room before it gives any back: older ones go, and the log is trimmed, once
it is whole. So without room for it the log only grows. That is told, and tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from raftnode.api.metrics import NodeMetrics
from raftnode.runtime.disk.disk_state import DiskState

_log = structlog.get_logger("raftnode")

RETRY_S, RETRY_MAX_S = 1.0, 30.0
"""Between two looks for room: twice as long each time."""


class SnapshotRoom:
    """Looks for room.

    Args:
        free_bytes: how much the disk has, told how much is wanted of it; it may block.
        reserve_bytes: what is kept for the log (S30).
        trims: whether the log goes behind snapshots: they make room then.
        disk: told how much is missing, and asked whether it runs low.
        metrics: told likewise.
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
        """Whether it is time to look again."""
        return self._now_s() >= self._again_at

    @property
    def pressing(self) -> bool:
        """The disk runs low, and a snapshot would let a part of the log go."""
        return self._trims and self._disk.low

    def free(self, snapshot_bytes: int) -> int:
        """Bytes that are free for a snapshot of that size; it may block.

        Raises:
            StorageError: the disk failed.
        """
        return self._free_bytes(snapshot_bytes + self.margin_bytes)

    def suffices(self, free_bytes: int, snapshot_bytes: int) -> bool:
        """Whether so much is enough for a snapshot of that size; tells if it is not."""
        missing = snapshot_bytes + self.margin_bytes - free_bytes
        if missing > 0:
            self.lacks(missing)
            return False
        return True

    @property
    def margin_bytes(self) -> int:
        """What must be free beside the snapshot.

        Twice the reserve, so that writing it never makes a disk low. Where the log goes behind
        it, half of the reserve: it gives back more than it takes, which is worth a while below
        the reserve, and one that was not made while there was room never will be.
        """
        return self._reserve_bytes // 2 if self._trims else 2 * self._reserve_bytes

    def lacks(self, missing_bytes: int) -> None:
        """There was no room; says so once, and when to look again."""
        if not self._disk.snapshot_room_missing_bytes:
            _log.warning("snapshot_skipped", missing_bytes=missing_bytes, trims=self._trims)
        self._show(missing_bytes)
        self._again_at = self._now_s() + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    def taken(self) -> None:
        """A snapshot was taken."""
        if self._disk.snapshot_room_missing_bytes:
            _log.info("snapshot_resumed")
        self._show(0)
        self._retry_s, self._again_at = RETRY_S, -1.0

    def _show(self, missing_bytes: int) -> None:
        self._disk.snapshot_room_missing_bytes = missing_bytes
        self._metrics.snapshot_room_missing_bytes.set(missing_bytes)
