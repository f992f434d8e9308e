"""Whom to ask next. Pure: no clock, no I/O; randomness is an argument."""

from __future__ import annotations

import random
from collections.abc import Sequence

from raftnode.core.types import Endpoint

_HINTS_PER_ROUND_MAX = 8
"""More leaders than that in one round are not leaders: nodes point in circles."""


class LeaderSearch:
    """The order in which endpoints are asked for one call.

    A round asks each endpoint at most once: the one that is thought to lead, then those
    that answers hint at, then the configured ones in random order. After a round the
    caller waits and begins another, so that nodes which point at each other cost a wait
    and not a tight loop.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], first: Endpoint | None, rng: random.Random
    ) -> None:
        self._endpoints = endpoints
        self._rng = rng
        self._asked: set[Endpoint] = set()
        self._queue: list[Endpoint] = []
        self._hints = 0
        self.begin_round(first)

    def begin_round(self, first: Endpoint | None) -> None:
        """Begin a round, with `first` first."""
        rest = self._rng.sample(self._endpoints, len(self._endpoints))
        self._queue = [first, *rest] if first is not None else rest
        self._asked = set()
        self._hints = 0

    def hint(self, endpoint: Endpoint) -> None:
        """Ask this one next, unless it was asked in this round or hints come in circles."""
        if endpoint not in self._asked and self._hints < _HINTS_PER_ROUND_MAX:
            self._hints += 1
            self._queue.insert(0, endpoint)

    def again(self, endpoint: Endpoint) -> None:
        """Ask this one next, though it was asked; the caller limits how often."""
        self._asked.discard(endpoint)
        self._queue.insert(0, endpoint)

    def next(self) -> Endpoint | None:
        """The next to ask; None when the round is over."""
        while self._queue:
            endpoint = self._queue.pop(0)
            if endpoint not in self._asked:
                self._asked.add(endpoint)
                return endpoint
        return None


def backoff_ms(round_number: int, *, first_ms: int, max_ms: int, rng: random.Random) -> float:
    """How long to wait after a round without success: doubling, with jitter over its half."""
    full: float = min(max_ms, first_ms * 2 ** min(round_number, 30))
    return full * rng.uniform(0.5, 1.0)
