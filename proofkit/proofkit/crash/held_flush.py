"""A flush that takes long: it runs in its own thread while other threads use the storage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

SETTLED_S = 0.005
"""After so long, what waits for the flush most likely waits. If not, it does so later: which of
its calls come before those of others is then another, and what must be found is the same."""


class Holdable(Protocol):
    """System calls whose `fdatasync` calls `hold`, if it is set."""

    hold: Callable[[], None] | None


class HeldFlush:
    """One flush, which does not return until it is released.

    Args:
        calls: what it is made of; its other `fdatasync`s are not held.
        flush: the storage's.
    """

    def __init__(self, calls: Holdable, flush: Callable[[], object]) -> None:
        self._calls = calls
        self._under_way, self._released = threading.Event(), threading.Event()
        self._failures: list[BaseException] = []
        calls.hold = self._hold
        self._flush = threading.Thread(target=self._work, args=(flush,), daemon=True)
        self._threads = [self._flush]
        self._flush.start()
        self._under_way.wait()
        self._raise()

    def _hold(self) -> None:
        if threading.current_thread() is self._flush:
            self._under_way.set()
            self._released.wait()

    def _work(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised where it was begun
            self._failures.append(error)
        finally:
            self._under_way.set()

    def _raise(self) -> None:
        if self._failures:
            raise self._failures[0]

    def begin_behind(self, work: Callable[[], object]) -> None:
        """Begin work that must wait for the flush; raise its error if it did not wait."""
        thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        self._threads.append(thread)
        thread.start()
        thread.join(SETTLED_S)
        self._raise()

    def release(self) -> None:
        """Let the flush return and the waiting work finish; raise their errors."""
        self.end()
        self._raise()

    def end(self) -> None:
        """The same after a failure, which came first."""
        self._released.set()
        for thread in self._threads:
            thread.join()
        self._calls.hold = None
