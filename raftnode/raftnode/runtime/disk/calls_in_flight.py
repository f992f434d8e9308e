"""The storage's system calls under way, so that another thread sees a call that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from raftnode.storage.files import Stat, SystemCalls

P = ParamSpec("P")
T = TypeVar("T")


class Operation:
    """One call that has begun and not returned; it is equal only to itself."""

    __slots__ = ("name", "path")

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path

    def __str__(self) -> str:
        return f"{self.name} of {self.path}"


class InFlight:
    """The calls under way, at most one for each thread."""

    def __init__(self) -> None:
        self._by_thread: dict[int, Operation] = {}

    def now(self) -> tuple[Operation, ...]:
        """All calls under way; may be called from any thread."""
        # The copy of a dictionary is atomic, whatever other threads do.
        return tuple(self._by_thread.copy().values())

    def run(
        self, operation: Operation, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Make a call, and note it as under way meanwhile."""
        thread = threading.get_ident()
        self._by_thread[thread] = operation
        try:
            return call(*args, **kwargs)
        finally:
            del self._by_thread[thread]


class WatchedCalls:
    """System calls, each noted as in flight while it lasts.

    Args:
        calls: the system calls that do the work.
        in_flight: where the calls are noted.
    """

    def __init__(self, calls: SystemCalls, in_flight: InFlight) -> None:
        self._calls = calls
        self._run = in_flight.run
        self._paths: dict[int, str] = {}

    def _of(self, name: str, fd: int) -> Operation:
        return Operation(name, self._paths.get(fd, "?"))

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`."""
        fd = self._run(Operation("open", path), self._calls.open, path, flags, mode)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        """As `os.close`."""
        operation = Operation("close", self._paths.pop(fd, "?"))
        self._run(operation, self._calls.close, fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """As `os.pread`."""
        return self._run(self._of("pread", fd), self._calls.pread, fd, length, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As `os.pwrite`."""
        return self._run(self._of("pwrite", fd), self._calls.pwrite, fd, data, position)

    def ftruncate(self, fd: int, length: int) -> None:
        """As `os.ftruncate`."""
        self._run(self._of("ftruncate", fd), self._calls.ftruncate, fd, length)

    def fallocate(self, fd: int, length: int) -> None:
        """As `SystemCalls.fallocate`."""
        self._run(self._of("fallocate", fd), self._calls.fallocate, fd, length)

    def free_bytes(self, fd: int) -> int:
        """As `SystemCalls.free_bytes`."""
        return self._run(self._of("fstatvfs", fd), self._calls.free_bytes, fd)

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        self._run(self._of("fdatasync", fd), self._calls.fdatasync, fd)

    def fsync(self, fd: int) -> None:
        """As `os.fsync`."""
        self._run(self._of("fsync", fd), self._calls.fsync, fd)

    def flock(self, fd: int) -> None:
        """As `SystemCalls.flock`."""
        self._run(self._of("flock", fd), self._calls.flock, fd)

    def fstat(self, fd: int) -> Stat:
        """Status of an open file."""
        return self._run(self._of("fstat", fd), self._calls.fstat, fd)

    def stat(self, path: str) -> Stat:
        """Status of whatever stands at the path now."""
        return self._run(Operation("stat", path), self._calls.stat, path)

    def mkdir(self, path: str, mode: int) -> None:
        """As `os.mkdir`."""
        self._run(Operation("mkdir", path), self._calls.mkdir, path, mode)

    def rename(self, source: str, target: str) -> None:
        """As `os.rename`."""
        self._run(Operation("rename", source), self._calls.rename, source, target)

    def link(self, source: str, target: str) -> None:
        """As `os.link`."""
        self._run(Operation("link", source), self._calls.link, source, target)

    def unlink(self, path: str) -> None:
        """As `os.unlink`."""
        self._run(Operation("unlink", path), self._calls.unlink, path)

    def listdir(self, path: str) -> list[str]:
        """As `os.listdir`."""
        return self._run(Operation("listdir", path), self._calls.listdir, path)
