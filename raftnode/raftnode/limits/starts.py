"""How many requests start in a turn of the event loop: the others wait, holder by holder.

A thousand clients that send their next request as soon as they have an answer would otherwise
start a thousand requests in one turn, and the peers' frames would wait for all of them. Here a turn
starts a few; a holder with one request waits for one turn, however many another holder has.
Nothing is refused, and a client that waits for its answer sends nothing meanwhile.
"""

from __future__ import annotations

import asyncio

from raftnode.limits.fair_queue import FairQueue

TURN_S = 0.01
"""Once a turn has taken this long, further requests wait for the next one."""


class FairStarts:
    """Lets requests start, a few in each turn of the loop.

    Args:
        per_turn: how many start in a turn.
        turn_s: how long a turn may take before further requests wait for the next one.
    """

    def __init__(self, per_turn: int, turn_s: float = TURN_S) -> None:
        self._per_turn = per_turn
        self._turn_s = turn_s
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._began_s: float | None = None
        """When the present turn started its first request; None: it has started none."""
        self._started = 0
        self._armed = False

    @property
    def waits(self) -> bool:
        """Whether requests wait for a turn."""
        return bool(self._waiting)

    async def start(self, holder: str) -> None:
        """Return once the holder's request may start; at once if the turn has room."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._has_room(loop):
            self._started += 1
            return
        ready: asyncio.Future[None] = loop.create_future()
        self._waiting.put(holder, ready)
        self._arm(loop)
        await ready

    def _has_room(self, loop: asyncio.AbstractEventLoop) -> bool:
        now_s = loop.time()
        if self._began_s is None:
            self._began_s, self._started = now_s, 0
            self._arm(loop)
        return self._started < self._per_turn and now_s - self._began_s < self._turn_s

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._armed:
            self._armed = True
            loop.call_soon(self._next_turn, loop)

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._armed, self._began_s, self._started = False, None, 0
        if not self._waiting:
            return
        self._began_s = loop.time()
        while self._waiting and self._started < self._per_turn:
            ready = self._waiting.pop()
            if not ready.done():  # a client that has gone no longer waits
                ready.set_result(None)
                self._started += 1
        self._arm(loop)
