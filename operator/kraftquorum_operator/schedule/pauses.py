"""How long to pause: longer after each failure in a row, and never all at the same moment."""

from __future__ import annotations

import random

JITTER = (0.9, 1.1)
"""Each pause is so much shorter or longer, so that pauses that began together drift apart."""

DOUBLINGS_MAX = 10
"""More of them make no pause longer: each has a longest one."""


def after_failures_s(failures: int, first_s: float, longest_s: float) -> float:
    """The pause after failures in a row: twice as long after each, up to the longest.

    Args:
        failures: how many, at least one.
        first_s: the pause after the first failure.
        longest_s: no pause is longer, unless `first_s` is.
    """
    doublings = min(failures - 1, DOUBLINGS_MAX)
    return min(first_s * 2**doublings, max(first_s, longest_s))


def jittered_s(pause_s: float) -> float:
    """The pause, somewhat shorter or longer."""
    return pause_s * random.uniform(*JITTER)  # noqa: S311 - no secret
