"""A bell between two threads: a counter of the kernel, on which a thread or a selector can wait.

It replaces a lock and a queue where there is nothing to hand over: a ring costs one system call
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


class Bell:
    """Rung by any thread, heard by one; rings that were not heard yet count as one.

    The owner closes it once no thread uses it any more.
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Wake the other thread; never waits."""
        os.eventfd_write(self._fd, 1)

    def wait(self) -> None:
        """Wait for a ring; returns at once if there was one since the last wait."""
        os.eventfd_read(self._fd)

    def tell(self, loop: Loop, callback: Callable[[], None]) -> None:
        """Call back on the loop after each ring, in place of `wait`."""

        def heard() -> None:
            os.eventfd_read(self._fd)
            callback()

        loop.add_reader(self._fd, heard)

    def tell_no_more(self, loop: Loop) -> None:
        """Call back no more."""
        loop.remove_reader(self._fd)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)
