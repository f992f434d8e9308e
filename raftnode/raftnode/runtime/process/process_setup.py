"""The set-up of a node's process: signals, open files, the termination message."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import structlog

from raftnode.errors import ExitCode

_log = structlog.get_logger("raftnode")

FILES_WANTED = 16_384
"""How many open files to ask the system for, if it allows this process so many."""

FILES_RESERVED = 512
"""How many of these clients cannot use: for peers both ways, segments, and replaced files."""


def open_standard_files() -> None:
    """Open the null device in place of each standard stream that was closed at the start.

    The next file would get its number otherwise: what Python, a library or the audit log writes to
    stderr would go into a segment of the log.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one


def raise_file_limit() -> int:
    """Allow this process more open files if the system does; return how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return FILES_WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as problem:
        _log.warning("file_limit_not_raised", limit=soft, problem=str(problem))
        return soft
    return wanted


def descriptors_for_clients(limit: int) -> int:
    """How many of the process's open files may be clients' connections."""
    return max(limit - FILES_RESERVED, limit // 2)


class StopSignals:
    """SIGTERM and SIGINT, from now to the end of the process.

    The loop's own handlers would end with the loop, and then a second SIGTERM would kill a
    process that is about to exit cleanly.
    """

    def __init__(self) -> None:
        self._come = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def connect(self, stop: Callable[[], None]) -> None:
        """Call `stop` on the running loop at each signal, including a signal that came before."""
        self._loop, self._stop = asyncio.get_running_loop(), stop
        if self._come:
            stop()

    def ignore(self) -> None:
        """Ignore signals until the exit: Python would remove the handlers before that."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._come = True
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it is stopping
                self._loop.call_soon_threadsafe(self._stop)


def write_termination_message(path: Path | None, code: ExitCode, message: str) -> None:
    """Write where Kubernetes looks why the process exits; None: write nowhere."""
    if path is None:
        return
    text = json.dumps({"reason": code.name, "message": message})
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        _log.warning("termination_message_not_written", path=str(path), problem=str(problem))
