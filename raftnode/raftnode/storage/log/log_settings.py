"""The settings of a log, which its owner decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from raftnode.storage.log.recent_batches import RECENT_BYTES


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of a log."""

    segment_bytes: int = 64 << 20
    """Size in bytes at which a new segment is begun; a larger batch gets a segment of its own.
    64 MiB: few files, and a start after a crash checks at most that much."""
    segment_ms: int = 7 * 86_400_000
    """How much later than a segment's first batch, by their timestamps, a batch of the same
    segment may be. Kafka's default: a quiet log is cut into pieces of known age too."""

    preallocate: bool = False
    """Whether the segment that grows has the room of `segment_bytes` reserved on the disk."""

    free_bytes_kept: int = 0
    """How many bytes stay free on the disk when room is reserved; otherwise none is reserved."""

    on_not_reserved: Callable[[str], None] = lambda _: None
    """Called with the reason why no room is reserved: once, and again only if there was room in
    between."""

    recent_bytes: int = RECENT_BYTES
    """How much memory the newest batches take, from which reads are answered; 0: none is held."""

    now_ms: Callable[[], int] = _now_ms
    """Time stamped on the control batches that this leader makes."""

    before_roll: Callable[[], None] | None = None
    """Called before a segment is made or removed: the check of the directory's identity (S4)."""
