"""Make large answers one at a time, with pauses, so that the quorum's own work goes first.

Reading, decoding and writing a megabyte of records occupies the event loop for ten milliseconds.
A few dozen concurrent clients would occupy it for a second, and the peers would consider the
node dead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

REST_AFTER_S = 0.002
"""Answers that together took less need no pause."""


class Turns:
    """A caller with a turn has the event loop to itself until it awaits; the next caller waits.

    A node has one instance, for reading records and for making answers of them. Two instances
    would follow each other without a pause.
    """

    def __init__(self) -> None:
        self.room: Callable[[], Awaitable[None]] | None = None
        """Returns once there is memory for one more large answer; None: at once."""
        self._lock = asyncio.Lock()
        self._took_s = 0.0
        self._rests_until_s = 0.0

    async def memory(self) -> None:
        """Wait until there is memory for a large answer, which the caller makes at once."""
        if self.room is not None:
            await self.room()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a turn; the work in it must not await.

        A pause, as long as the work took, precedes the next turn. A lone caller waits only for
        the pause after its own reading.
        """
        async with self._lock:
            await asyncio.sleep(max(self._rests_until_s - time.monotonic(), 0))
            await self.memory()
            began_s = time.monotonic()
            try:
                yield
            finally:
                now_s = time.monotonic()
                self._took_s += now_s - began_s
                if self._took_s >= REST_AFTER_S:
                    self._rests_until_s, self._took_s = now_s + self._took_s, 0.0
