"""How much of large answers the node holds for clients that have not read them yet."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from raftnode.limits.fair_queue import FairQueue

LARGE_BYTES = 16 << 10
"""A smaller answer does not wait: all connections together hold less than the limit of them."""

WOKEN = 4
"""How many answers a measurement lets go; each that is made lets go one more."""

HOLDER: ContextVar[str] = ContextVar("holder", default="")
"""The holder of the request or session that the present task serves."""


class UnreadAnswers:
    """Lets large answers be made as long as the unread ones leave room.

    What is made counts until the next measurement, which finds what is still unread.

    Args:
        most: bytes of unread answers; the last answer that is made may exceed it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self.total = 0

    @property
    def waits(self) -> bool:
        """Whether an answer waits for room."""
        return bool(self._waiting)

    async def room(self) -> None:
        """Return once a large answer may be made; the caller makes it and calls `add`.

        The caller must not await anything between these two.
        """
        if not self._waiting and self.total < self._most:
            return
        while True:
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.put(HOLDER.get(), ready)
            await ready
            if self.total < self._most:
                return

    def add(self, size: int) -> None:
        """Count an answer that was made."""
        self.total += size
        self._wake(1)

    def measured(self, total: int) -> None:
        """Take the size of all that is unread now."""
        self.total = total
        self._wake(WOKEN)

    def _wake(self, most: int) -> None:
        while self._waiting and most > 0 and self.total < self._most:
            ready = self._waiting.pop()
            if not ready.done():  # a client that has gone no longer waits
                ready.set_result(None)
                most -= 1
