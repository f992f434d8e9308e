"""Large answers are made one at a time, with pauses: a node's first work is its quorum's.

Reading, decoding and writing a megabyte of records takes the loop ten milliseconds. A few
dozen clients that ask at once would have it do nothing else for a second, and the peers would
take the node for dead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

REST_AFTER_S = 0.002
"""Answers that took less together need no pause: small ones follow each other at once."""


class Turns:
    """Who has a turn has the loop to itself until it awaits; the next one waits for its own.

    A node has one of these, for reading records and for making answers of them: two would
    follow each other without a pause.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._took_s = 0.0
        self._rests_until_s = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a turn; what is done in it must not await.

        The pause, as long as the work before it took, comes before the next turn: whoever is
        alone waits only for that after its own reading.
        """
        async with self._lock:
            await asyncio.sleep(max(self._rests_until_s - time.monotonic(), 0))
            began_s = time.monotonic()
            try:
                yield
            finally:
                now_s = time.monotonic()
                self._took_s += now_s - began_s
                if self._took_s >= REST_AFTER_S:
                    self._rests_until_s, self._took_s = now_s + self._took_s, 0.0
