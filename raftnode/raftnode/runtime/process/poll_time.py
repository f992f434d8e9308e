"""How long the event loop has waited for work: what the KIPs call poll idle (P58).

Time in the selector is idle, and nothing else is. A loop that is blocked in a system call, or
waits for a processor, uses no processor time and is busy all the same.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from weakref import WeakKeyDictionary


class TimedSelector(selectors.DefaultSelector):
    """The default selector, which also adds up the time that it waits."""

    def __init__(self) -> None:
        super().__init__()
        self._waited_s = 0.0
        self._since_s: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events as the default selector does."""
        self._since_s = time.monotonic()
        try:
            return super().select(timeout)
        finally:
            self._waited_s += time.monotonic() - self._since_s
            self._since_s = None

    @property
    def waited_s(self) -> float:
        """Seconds that all waits took, this one included."""
        since_s = self._since_s
        return self._waited_s + (0 if since_s is None else time.monotonic() - since_s)


_SELECTORS: WeakKeyDictionary[asyncio.AbstractEventLoop, TimedSelector] = WeakKeyDictionary()


def make_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop whose waits are measured."""
    selector = TimedSelector()
    loop = asyncio.SelectorEventLoop(selector)
    _SELECTORS[loop] = selector
    return loop


def waited_s() -> float | None:
    """Seconds that the running loop has waited for work; None: `make_loop` did not make it."""
    selector = _SELECTORS.get(asyncio.get_running_loop())
    return None if selector is None else selector.waited_s
