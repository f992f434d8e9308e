"""One timer for many deadlines: what waits is looked at when the earliest is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class DeadlineTimer:
    """Calls `expire` once the earliest deadline is due; many different ones cost no more than few.

    Args:
        expire: gets the loop's time, ends what is overdue, and returns the earliest deadline that
            is left; None: none is.
        pause_s: the least time between two calls: one may come so much too late.
    """

    def __init__(self, expire: Callable[[float], float | None], *, pause_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._expire = expire
        self._pause_s = pause_s
        self._timer: asyncio.TimerHandle | None = None
        self._at_s = 0.0
        self._not_before_s = 0.0

    def watch(self, deadline_s: float) -> None:
        """Note a deadline, by the loop's time."""
        if self._timer is None or deadline_s < self._at_s:
            self.cancel()
            self._at_s = max(deadline_s, self._not_before_s)
            self._timer = self._loop.call_at(self._at_s, self._due)

    def _due(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        self._not_before_s = now_s + self._pause_s
        earliest_s = self._expire(now_s)
        if earliest_s is not None:
            self.watch(earliest_s)

    def cancel(self) -> None:
        """Call `expire` no more, until the next deadline is noted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
