"""When the driver takes its turns: soon after an event came, or when time is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TurnSchedule(Generic[T]):
    """Takes turns on the running loop while `until_result` waits.

    Args:
        turn: a turn, which is a plain call. What it returns, unless that is None, ends the wait,
            and so does an error.
    """

    def __init__(self, turn: Callable[[], T | None]) -> None:
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[T | None] | None = None
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def until_result(self) -> T | None:
        """Take a turn soon, and further ones when they are wanted, until one returns something.

        Returns:
            What the last turn returned; None: `end` was called.

        Raises:
            Exception: what a turn raised; none is taken after it.
        """
        self._waiter = self._loop.create_future()
        self.want()
        try:
            return await self._waiter
        finally:
            self._waiter = None
            self._cancel()

    def want(self) -> None:
        """Take a turn in the loop's next round; nothing happens if none is waited for."""
        if self._soon is None and self._waiter is not None:
            self._soon = self._loop.call_soon(self._take)

    def want_within(self, seconds: float) -> None:
        """Take a turn at the latest then.

        An earlier time that was asked for before stays: the turn asks again if it is too early,
        which costs less than a timer for each turn.
        """
        at_s, timer = self._loop.time() + seconds, self._timer
        if timer is not None:
            if timer.when() <= at_s:
                return
            timer.cancel()
        self._timer = self._loop.call_at(at_s, self._take_timed)

    def end(self) -> None:
        """Take no further turn: `until_result` returns None."""
        self._cancel()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take_timed(self) -> None:
        # Not at once: if the loop stood still, what came meanwhile is heard first. Else a replica
        # would miss its leader, or a leader its majority, with their frames here in time.
        self._timer = None
        self.want()

    def _take(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        try:
            result = self._turn()
        except Exception as error:  # noqa: BLE001 - the waiter raises it
            if not waiter.done():
                waiter.set_exception(error)
            return
        if result is not None and not waiter.done():
            waiter.set_result(result)

    def _cancel(self) -> None:
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        self._soon = self._timer = None
