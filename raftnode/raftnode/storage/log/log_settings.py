"""How the log is kept: what its owner decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How the log is kept."""

    segment_bytes: int = 64 << 20
    """Size in bytes at which a new segment is begun; a batch that is larger gets its own.
    64 MiB: few files, and a start after a crash checks at most that much."""

    segment_ms: int = 7 * 86_400_000
    """How much later than its first batch, by their timestamps, a batch may be to stand in
    a segment. Kafka's default: a quiet log is cut into pieces of known age too."""

    preallocate: bool = False
    """Whether the segment that grows has the room of `segment_bytes` reserved on the disk."""

    free_bytes_kept: int = 0
    """So many bytes stay free on the disk when room is reserved; else none is."""

    on_not_reserved: Callable[[str], None] = lambda _: None
    """Told why no room is reserved: once, and again only if there was room in between."""

    now_ms: Callable[[], int] = _now_ms
    """Time stamped on the control batches that this leader makes."""

    before_roll: Callable[[], None] | None = None
    """Called before a segment is made or removed: the check of the directory's identity (S4)."""
