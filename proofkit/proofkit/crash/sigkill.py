"""The operating system's calls; at one of the calls that change a file the process is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Literal, NoReturn

from raftnode.storage.files import OsCalls

Moment = Literal["before", "middle", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "middle", "after")


class KillingCalls(OsCalls):
    """Counts modifying calls and kills the process at one of them.

    Args:
        at: number of the call, from 0; None: only count.
        moment: before it, after it, or, of a write, with half of it done.

    Attributes:
        hold: called within each `fdatasync`, which lasts until it returns.
    """

    def __init__(self, at: int | None = None, moment: Moment = "before") -> None:
        self.count = 0
        self._at = at
        self._moment: Moment = moment
        self._lock = threading.Lock()
        self.hold: Callable[[], None] | None = None

    def _strikes(self) -> Moment | None:
        """Count a call; what is to be done about it."""
        with self._lock:
            self.count += 1
            strikes = self._at is not None and self.count - 1 == self._at
        if strikes and self._moment == "before":
            die()
        return self._moment if strikes else None

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`; only one that may make a file counts."""
        if not flags & os.O_CREAT:
            return super().open(path, flags, mode)
        strikes = self._strikes()
        fd = super().open(path, flags, mode)
        return fd if strikes is None else die()

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As `os.pwrite`."""
        strikes = self._strikes()
        if strikes == "middle":
            super().pwrite(fd, data[: len(data) // 2], position)
            die()
        written = super().pwrite(fd, data, position)
        return written if strikes is None else die()

    def ftruncate(self, fd: int, length: int) -> None:
        """As `os.ftruncate`."""
        strikes = self._strikes()
        super().ftruncate(fd, length)
        if strikes:
            die()

    def fallocate(self, fd: int, length: int) -> None:
        """As `OsCalls.fallocate`."""
        strikes = self._strikes()
        super().fallocate(fd, length)
        if strikes:
            die()

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        strikes = self._strikes()
        if self.hold is not None:
            self.hold()
        super().fdatasync(fd)
        if strikes:
            die()

    def fsync(self, fd: int) -> None:
        """As `os.fsync`."""
        strikes = self._strikes()
        super().fsync(fd)
        if strikes:
            die()

    def mkdir(self, path: str, mode: int) -> None:
        """As `os.mkdir`."""
        strikes = self._strikes()
        super().mkdir(path, mode)
        if strikes:
            die()

    def rename(self, source: str, target: str) -> None:
        """As `os.rename`."""
        strikes = self._strikes()
        super().rename(source, target)
        if strikes:
            die()

    def link(self, source: str, target: str) -> None:
        """As `os.link`."""
        strikes = self._strikes()
        super().link(source, target)
        if strikes:
            die()

    def unlink(self, path: str) -> None:
        """As `os.unlink`."""
        strikes = self._strikes()
        super().unlink(path)
        if strikes:
            die()


def die() -> NoReturn:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # the signal is on its way
        signal.pause()
