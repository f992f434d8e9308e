"""How many quorums the operator reconciles at once, and which is next.

Reconciliations share one event loop: hundreds at once delay each other, and a late answer looks
like a fault. A reconciliation that waits for a slow request costs no time of the loop, so it gives
up its place. A quorum that was slow the last time queues with other slow quorums. A quorum that is
not at rest, or for which a watch brought a change, comes before those that are only looked at
again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

AT_ONCE = 24
"""Places for quorums that were quick the last time, and as many for those that were slow."""

SLOW_S = 0.5
"""A reconciliation that takes longer continues, and gives its place to another."""


URGENT_IN_A_ROW = 4
"""After so many urgent reconciliations one that is not urgent gets a place, too."""


class _Places:
    """A number of places; those that wait for one are served in their order, urgent ones first."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._in_a_row = 0

    async def acquire(self, *, urgent: bool) -> None:
        """Wait for a place."""
        if self._free > 0:
            self._free -= 1
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._others).append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.release()  # it had got the place already
            raise

    def release(self) -> None:
        """Give a place to the next."""
        while self._urgent or self._others:
            first = self._urgent and (self._in_a_row < URGENT_IN_A_ROW or not self._others)
            waiting = (self._urgent if first else self._others).popleft()
            if not waiting.done():
                self._in_a_row = self._in_a_row + 1 if first else 0
                waiting.set_result(None)
                return
        self._free += 1


class Turns:
    """Places for reconciliations, one at a time for each quorum."""

    def __init__(self, at_once: int = AT_ONCE, slow_s: float = SLOW_S) -> None:
        self._quick = _Places(at_once)
        self._slow = _Places(at_once)
        self._slow_s = slow_s
        self._were_slow: set[str] = set()

    @asynccontextmanager
    async def turn(self, quorum: str, *, urgent: bool = False) -> AsyncGenerator[None]:
        """Wait for a place and hold it, at most as long as a quick reconciliation takes.

        Args:
            quorum: any constant name of the quorum.
            urgent: whether it comes before quorums at rest.
        """
        places = self._slow if quorum in self._were_slow else self._quick
        await places.acquire(urgent=urgent)
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
