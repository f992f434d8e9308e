"""Wakes the reconciliation of a quorum after a change."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Wakeups:
    """One event per quorum; watches set it, the quorum's task waits for it."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], asyncio.Event] = {}

    def wake(self, namespace: str, name: str) -> None:
        """End the pause of a quorum's task, now or when it next pauses."""
        event = self._events.get((namespace, name))
        if event is not None:
            event.set()

    def wake_all(self, namespace: str) -> None:
        """End the pauses of all quorums of a namespace."""
        for place, name in self._events:
            if place == namespace:
                self.wake(place, name)

    async def pause(self, namespace: str, name: str, seconds: float) -> bool:
        """Wait for a change, at most this long; returns whether there was one."""
        event = self._events.setdefault((namespace, name), asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        woken = event.is_set()
        event.clear()
        return woken

    def forget(self, namespace: str, name: str) -> None:
        """Forget a deleted quorum."""
        self._events.pop((namespace, name), None)
