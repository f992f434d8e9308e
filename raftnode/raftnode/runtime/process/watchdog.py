"""Ends a process whose storage or event loop makes no progress, from a thread of its own.

Only time in which the watchdog's thread also ran counts: a process that was stopped for a minute,
or a machine that was suspended, has not waited for its disk. This module measures and decides. It
has no operation that may wait for a disk, a lock or the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from raftnode.errors import ExitCode
from raftnode.runtime.disk.calls_in_flight import InFlight, Operation

_TICK_S = 0.25
_TICKS_IN_LIMIT = 20
_LATE = 2
"""How many ticks one interval counts for at most: beyond that, this thread itself did not run."""

LIVE_SHARE = 3
"""Liveness reports a stall after this share of the limit: a third."""

LAST_WORDS_S = 2.0
"""How long the journal and the termination message may take: their disk may hang as well."""


@dataclass(frozen=True, slots=True)
class Stall:
    """The part that makes no progress, and for how long this process has watched it."""

    what: str
    seconds: float
    code: ExitCode

    def __str__(self) -> str:
        return f"{self.what} for {self.seconds:.0f} s"


class Stalls:
    """Measures operations that do not end; it reads no clock but gets the time of each check.

    Args:
        tick_s: the time between two checks.
    """

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._seen_at_s: float | None = None
        self._operations: dict[Operation, float] = {}
        self._loop_s = 0.0

    def look(self, now_s: float, operations: tuple[Operation, ...], *, loop_turned: bool) -> None:
        """Note the operations under way, and whether the loop has turned since the last check."""
        since_s = 0.0 if self._seen_at_s is None else now_s - self._seen_at_s
        passed_s = min(since_s, _LATE * self._tick_s)
        self._seen_at_s = now_s
        # An operation that is seen for the first time has lasted for less than a tick.
        self._operations = {
            operation: self._operations.get(operation, -passed_s) + passed_s
            for operation in operations
        }
        self._loop_s = 0.0 if loop_turned else self._loop_s + passed_s

    @property
    def storage_s(self) -> float:
        """How long the oldest storage operation has been in flight; 0: none is."""
        return max(self._operations.values(), default=0.0)

    @property
    def worst(self) -> Stall | None:
        """The longest stall; the storage before the loop, which may wait for the storage."""
        if self._operations:
            operation, seconds = max(self._operations.items(), key=lambda item: item[1])
            # The loop is asked a tick after the operation began.
            if seconds > 0 and seconds + _LATE * self._tick_s >= self._loop_s:
                what = f"{operation} has not returned"
                return Stall(what, seconds, ExitCode.STORAGE_STALLED)
        if self._loop_s:
            return Stall("the event loop has not run", self._loop_s, ExitCode.LOOP_STALLED)
        return None


class Watchdog:
    """Watches one process.

    Args:
        limit_ms: the stall after which the process exits; 0: never, and liveness reports none.
        end: ends the process, and is called on this thread; it does not return in production.
    """

    def __init__(self, limit_ms: int, end: Callable[[Stall], None]) -> None:
        self.limit_s = limit_ms / 1000
        self.in_flight = InFlight()
        self._end = end
        tick_s = min(_TICK_S, self.limit_s / _TICKS_IN_LIMIT) if limit_ms else _TICK_S
        self._tick_s = tick_s
        self._stalls = Stalls(tick_s)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = self._answered = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch a loop as well, as long as it is not closed."""
        self._loop = loop

    @property
    def storage_s(self) -> float:
        """How long the oldest storage operation has been in flight; 0: none is."""
        return self._stalls.storage_s

    @property
    def stall(self) -> Stall | None:
        """The stall of at least a third of the limit, for liveness; None: there is none."""
        worst = self._stalls.worst
        if worst is None or not self.limit_s or worst.seconds < self.limit_s / LIVE_SHARE:
            return None
        return worst

    def _watch(self) -> None:
        while not self._stopped.wait(self._tick_s):
            self._stalls.look(
                time.monotonic(), self.in_flight.now(), loop_turned=self._loop_has_turned()
            )
            worst = self._stalls.worst
            if worst is not None and self.limit_s and worst.seconds >= self.limit_s:
                self._end(worst)
                return

    def _loop_has_turned(self) -> bool:
        """Whether the loop has answered the last probe; if so, send the next one."""
        loop, asked = self._loop, self._asked
        if loop is None or loop.is_closed():
            return True
        if self._answered < asked:
            return False
        self._asked = asked + 1
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            loop.call_soon_threadsafe(self._answer, self._asked)
        return True

    def _answer(self, question: int) -> None:
        self._answered = question


def end_process(code: ExitCode, last_words: Callable[[], None]) -> None:
    """End this process at once, though other threads hang; say why if that takes no time."""
    speaking = threading.Thread(target=last_words, name="last-words", daemon=True)
    speaking.start()
    speaking.join(LAST_WORDS_S)
    os._exit(code)
