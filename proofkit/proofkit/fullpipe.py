"""A file that hangs: a FIFO that is full, so a write to it waits until it is read."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_SIZE = 4096


class FullPipe:
    """A FIFO with a reader that does not read yet.

    Args:
        path: where to make it.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self._reader, fcntl.F_SETPIPE_SZ, _SIZE)
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            while os.write(writer, b"\n" * _SIZE):
                pass
        except BlockingIOError:
            pass
        finally:
            os.close(writer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._reader)

    def read(self) -> bytes:
        """Read what is in it, without what filled it; empty: there is nothing now."""
        try:
            return os.read(self._reader, 1 << 20).lstrip(b"\n")
        except BlockingIOError:
            return b""
