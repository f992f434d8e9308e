"""How much a flood may take from other clients, and why so much."""

from __future__ import annotations

from collections.abc import Iterator

from floodlib.figures import Figures, Waits

HOLDING = frozenset({"idle", "trickle_head", "trickle_body", "idle_sessions", "handshakes"})
"""Floods that hold connections and complete no request: they get nothing to compete with."""
RATIO_MAX = 5.0
"""Of the median during such a flood to the median before. At most 1.2 was measured; the rest is for
a machine that becomes busy after the flood has begun."""
BEFORE_MIN_S = 0.02
"""Shorter medians before count as this: on a busy machine an undisturbed call takes so long."""
MEDIAN_MAX_S = 1.0
"""During any flood: half of `fetch_timeout_ms`, after which followers start an election."""
WORST_MAX_S = 4.0
"""A connection whose first two packets find the listener's queue full is there after 3 s, since
the client's system sends them again after 1 and 2 s. One second more is for the call itself. The
longest that was measured took 2.4 s, on a connection that was open."""


def breaches(figures: Figures) -> Iterator[str]:
    """Each bound that does not hold, as a sentence."""
    for what, before, during in (
        ("write", figures.writes_before, figures.writes),
        ("describe", figures.describes_before, figures.describes),
    ):
        if during.worst_s > WORST_MAX_S:
            yield f"the longest {what} took {during.worst_s:.2f} s, at most {WORST_MAX_S:g} s"
        median_max_s = _median_max_s(figures.kind, before)
        if during.median_s > median_max_s:
            yield f"the median {what} took {during.median_s:.3f} s, at most {median_max_s:.3f} s"


def _median_max_s(kind: str, before: Waits) -> float:
    if kind not in HOLDING:
        return MEDIAN_MAX_S
    return min(MEDIAN_MAX_S, RATIO_MAX * max(before.median_s, BEFORE_MIN_S))
