"""How much of a log others may fill: a few lines a minute of each kind, without tracebacks.

Any client can send any bytes as often as it likes, and a client that has gone leaves connections
that cannot be answered. Such lines report that it happens, not each time. The module has the
budget, and puts aiohttp's and asyncio's own lines under it. The node and the operator use both.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import structlog
from aiohttp import ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

_log = structlog.get_logger(__name__)

LINES = 5
"""Of one kind, in each minute."""
_PER_S = 60.0
_DETAIL_MAX = 200
_LIBRARIES = (
    "aiohttp.access",
    "aiohttp.internal",
    "aiohttp.server",
    "aiohttp.web",
    "aiohttp.websocket",
    "asyncio",
)


_MALFORMED = (HttpProcessingError, RequestPayloadError, ClientPayloadError, UnicodeError)
"""What a request that is not well formed makes aiohttp raise, in its parser or behind it."""


class LineBudget:
    """A few lines of each kind; the next written line has the number of those left out.

    Args:
        lines: of each kind in each stretch of time.
        per_s: the length of a stretch.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        lines: int = LINES,
        per_s: float = _PER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines = lines
        self._per_s = per_s
        self._clock = clock
        self._kinds: dict[str, _Stretch] = {}

    def take(self, kind: str) -> dict[str, int] | None:
        """Ask for one line.

        Args:
            kind: text of the program, never of a client, since each kind is kept in memory.

        Returns:
            Fields for the line: how many were left out before it, if any. None: leave it out.
        """
        now = self._clock()
        stretch = self._kinds.get(kind)
        if stretch is None or now >= stretch.ends:
            left_out = stretch.left_out if stretch else 0
            stretch = self._kinds[kind] = _Stretch(now + self._per_s, left_out)
        if stretch.written >= self._lines:
            stretch.left_out += 1
            return None
        stretch.written += 1
        left_out, stretch.left_out = stretch.left_out, 0
        return {"left_out": left_out} if left_out else {}

    def say(self, log: Callable[..., object], event: str, kind: str = "", **fields: object) -> None:
        """Write a line, or leave it out.

        Args:
            log: a method of a structlog logger.
            event: the line's name.
            kind: lines of one name and of different kinds do not displace each other.
            fields: of the line.
        """
        allowed = self.take(f"{event} {kind}")
        if allowed is not None:
            log(event, **fields, **allowed)


class _Stretch:
    def __init__(self, ends: float, left_out: int) -> None:
        self.ends = ends
        self.left_out = left_out
        self.written = 0


class LibraryLines(logging.Filter):
    """Turns a library's lines about a malformed request into one line, and limits the rest.

    An error of the program's own keeps its traceback, a few times a minute.
    """

    def __init__(self, budget: LineBudget) -> None:
        super().__init__()
        self._budget = budget

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the library's own line is written."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConnectionError):
            return False  # it has gone, and there is no answer to send
        if isinstance(error, _MALFORMED):
            remote = f"{record.args[0]}" if isinstance(record.args, tuple) else ""
            problem = f"{type(error).__name__}: {_first(error)}"
            self._budget.say(_log.info, "request_malformed", remote=remote, problem=problem)
            return False
        fields = self._budget.take(f"{record.name} {record.lineno} {type(error).__name__}")
        if fields is None:
            return False
        try:
            said = record.getMessage()[:_DETAIL_MAX]  # it may quote a stranger
        except Exception:  # noqa: BLE001 - the handler says what it can of such a line
            return True
        left_out = f" ({fields['left_out']} like it left out)" if fields else ""
        record.msg, record.args = f"{said}{left_out}", ()
        return True


def _first(error: Exception) -> str:
    """A line of what an error says; some quote all that was sent."""
    said = getattr(error, "message", "") or str(error)
    return next(iter(str(said).splitlines()), "")[:_DETAIL_MAX].rstrip(": ")


def limit_libraries() -> None:
    """Put the lines of aiohttp and asyncio under one budget, for the whole process."""
    lines = LibraryLines(LineBudget())
    for name in _LIBRARIES:
        logging.getLogger(name).filters[:] = [lines]
