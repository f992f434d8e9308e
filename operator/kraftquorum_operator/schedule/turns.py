"""How many quorums the operator reconciles at once, and which is next.

Reconciliations share one event loop: hundreds at once delay each other, and a late answer looks
like a fault. A reconciliation that waits for a slow request costs no time of the loop, so it gives
up its place. A quorum that was slow the last time queues with other slow quorums.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

AT_ONCE = 24
"""Places for quorums that were quick the last time, and as many for those that were slow."""

SLOW_S = 0.5
"""A reconciliation that takes longer continues, and gives its place to another."""


class Turns:
    """Places for reconciliations; first come, first served, one at a time for each quorum."""

    def __init__(self, at_once: int = AT_ONCE, slow_s: float = SLOW_S) -> None:
        self._quick = asyncio.Semaphore(at_once)
        self._slow = asyncio.Semaphore(at_once)
        self._slow_s = slow_s
        self._were_slow: set[str] = set()

    @asynccontextmanager
    async def turn(self, quorum: str) -> AsyncGenerator[None]:
        """Wait for a place and hold it, at most as long as a quick reconciliation takes.

        Args:
            quorum: any constant name of the quorum.
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
        """Forget a deleted quorum."""
        self._were_slow.discard(quorum)
