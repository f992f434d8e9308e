"""The node's clocks: a monotonic one for the core, the wall's for records."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """Monotonic milliseconds: what the core reckons with.

    Those that the machine slept count where the system can tell: a lease is over by then (S33).
    """
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970: what records are stamped with; never decides anything."""
    return time.time_ns() // 1_000_000


def fetch_sequence_base() -> int:
    """A start for the Fetch sequence that is above any earlier start's (S3)."""
    return time.time_ns() // 1000
