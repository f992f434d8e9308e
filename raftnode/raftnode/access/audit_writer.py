"""Writes the lines of the audit log, on a thread of its own: a disk that hangs stops only that.

The caller bounds how many lines wait. A line that could not be written is counted in the next.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Line = dict[str, Any]

THREAD_NAME = "audit-log"
LOST = "lost"
"""The field of a line with the number of lines that were lost before it."""

_STDERR_DESCRIPTOR = 2


class AuditWriter:
    """A file, its thread, and the lines that wait for it.

    Args:
        path: of the file, to which lines are appended; None: stderr.
        on_failed: is called on the thread with a line that could not be written, and the reason.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path | None, on_failed: Callable[[Line, Exception], None]) -> None:
        self._path = path
        self._on_failed = on_failed
        self._descriptor = _STDERR_DESCRIPTOR if path is None else _open(path)
        self._lines = deque[Line]()
        self._lost = 0
        self._is_cut_short = path is not None and _is_cut_short(path)
        """Whether the file ends in a part of a line, after which another line would be lost too."""
        self._is_writing = self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many lines are not written yet."""
        return len(self._lines) + self._is_writing

    def put(self, line: Line) -> None:
        """Have a line written."""
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until no line waits; return whether that came in time. Blocks."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.waiting, timeout_s)

    def close(self, timeout_s: float) -> int:
        """Write what waits, and close the file; return how many lines are left. Blocks."""
        self.flush(timeout_s)
        with self._changed:
            left = self.waiting
            self._lines.clear()
            self._is_closing = True
            self._changed.notify_all()
        if left:
            return left  # The thread hangs in the file, and ends with the process.
        self._thread.join()
        if self._path is not None:
            os.close(self._descriptor)
        return 0

    def _run(self) -> None:
        while (line := self._next()) is not None:
            failure: Exception | None = None
            try:
                self._write(line)
                self._lost = 0
            except Exception as error:  # noqa: BLE001 - the thread must live for the next line
                self._lost += 1
                failure = error
            with self._changed:
                self._is_writing = False
                is_left = self._is_closing  # then `close` has counted it
                self._changed.notify_all()
            if failure is not None and not is_left:
                self._on_failed(line, failure)

    def _next(self) -> Line | None:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closing)
            if not self._lines:
                return None
            self._is_writing = True
            return self._lines.popleft()

    def _write(self, line: Line) -> None:
        self._lost += line.get(LOST, 0)
        shown = {**line, LOST: self._lost} if self._lost else line
        data = json.dumps(shown).encode() + b"\n"
        self._follow_rotation()
        if self._is_cut_short:
            data = b"\n" + data
        while data:
            written = os.write(self._descriptor, data)
            self._is_cut_short = data[written - 1 : written] != b"\n"
            data = data[written:]

    def _follow_rotation(self) -> None:
        """Open the file again if it was moved or deleted."""
        if self._path is None:
            return
        own = os.fstat(self._descriptor)
        with suppress(FileNotFoundError):
            there = self._path.stat()
            if (there.st_ino, there.st_dev) == (own.st_ino, own.st_dev):
                return
        opened = _open(self._path)
        os.close(self._descriptor)
        self._descriptor, self._is_cut_short = opened, _is_cut_short(self._path)


def _open(path: Path) -> int:
    # A FIFO without a reader is an error with O_NONBLOCK, and would hang the start without it.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    os.set_blocking(descriptor, True)
    return descriptor


def _is_cut_short(path: Path) -> bool:
    """Whether a file ends in a part of a line, such as an earlier process's on a full disk."""
    if not path.is_file():  # to open a FIFO would wait for a writer
        return False
    with suppress(OSError), path.open("rb") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    return False
