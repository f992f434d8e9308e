"""A signal between two threads: a counter of the kernel, on which a thread or a selector can wait.

It replaces a lock and a queue where there is nothing to pass on: a signal costs one system call
and takes no lock that the other thread may hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol


class Loop(Protocol):
    """The part of an event loop that watches a descriptor."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> object:
        """Call back whenever the descriptor is readable."""
        ...

    def remove_reader(self, fd: int, /) -> bool:
        """Watch it no more."""
        ...


class ThreadSignal:
    """Any thread sends it and one thread receives it; signals not received yet count as one.

    The owner closes it once no thread uses it any more.
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC)

    def notify(self) -> None:
        """Wake the other thread; never waits."""
        os.eventfd_write(self._fd, 1)

    def wait(self) -> None:
        """Wait for a signal; returns at once if there was one since the last wait."""
        os.eventfd_read(self._fd)

    def add_callback(self, loop: Loop, callback: Callable[[], None]) -> None:
        """Call back on the loop after each signal, in place of `wait`."""

        def receive() -> None:
            os.eventfd_read(self._fd)
            callback()

        loop.add_reader(self._fd, receive)

    def remove_callback(self, loop: Loop) -> None:
        """Stop the callbacks."""
        loop.remove_reader(self._fd)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)
