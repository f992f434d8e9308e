"""How many quorums are looked at at once, and who is next.

Looks share one event loop: with hundreds at once each is late, and what is late looks like a
fault. A look that waits for something slow costs no time of the loop, so it gives its place
up; and a quorum that was slow the last time waits among its like, not before the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

AT_ONCE = 24
"""Places for quorums that were quick the last time, and as many for those that were slow."""

SLOW_S = 0.5
"""A look that takes longer gives its place to another; it goes on."""


class Turns:
    """Places for looks; first come, first served, one look of a quorum at a time."""

    def __init__(self, at_once: int = AT_ONCE, slow_s: float = SLOW_S) -> None:
        self._quick = asyncio.Semaphore(at_once)
        self._slow = asyncio.Semaphore(at_once)
        self._slow_s = slow_s
        self._were_slow: set[str] = set()

    @asynccontextmanager
    async def turn(self, quorum: str) -> AsyncGenerator[None]:
        """Wait for a place and hold it, at most for as long as a quick look takes.

        Args:
            quorum: whose look it is; any name that is always the same.
        """
        places = self._slow if quorum in self._were_slow else self._quick
        await places.acquire()
        gave_up = False

        def give_up() -> None:
            nonlocal gave_up
            gave_up = True
            places.release()

        timer = asyncio.get_running_loop().call_later(self._slow_s, give_up)
        try:
            yield
        finally:
            timer.cancel()
            if gave_up:
                self._were_slow.add(quorum)
            else:
                self._were_slow.discard(quorum)
                places.release()

    def forget(self, quorum: str) -> None:
        """Drop a quorum that is gone."""
        self._were_slow.discard(quorum)
