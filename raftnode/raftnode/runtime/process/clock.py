"""The node's clocks: a monotonic one for the core, the wall's for records."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """Monotonic milliseconds, the core's time.

    Time that the machine slept counts if the system can measure it: a lease is over by then (S33).
    """
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, the timestamp of records; no decision depends on it."""
    return time.time_ns() // 1_000_000


def fetch_sequence_base() -> int:
    """A start for the Fetch sequence that is above any earlier start's (S3)."""
    return time.time_ns() // 1000
