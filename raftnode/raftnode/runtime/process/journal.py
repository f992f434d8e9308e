"""The node's journal: a line on stdout for each event, as the settings say.

The node does not depend on its lines. It drops lines that it cannot write, because the disk
behind stdout is full or the reader of the pipe has gone. If a line's fields cannot be formatted,
the line has only the name of the event.

A pipe whose reader stands still is an exception: once the pipe is full, a line waits, and the whole
node with it, until the reader goes on or exits.
"""

from __future__ import annotations

import json
import logging
import os
from typing import cast

import structlog

from raftnode.log_limit import limit_libraries

STDOUT = 1


class _Lines(logging.Handler):
    """Writes each line whole and at once: a buffered line could make the exit fail."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._cut_short = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or drop it; the caller does not learn which."""
        try:
            text = self._made(record)
            self._write(f"{text}\n".encode(errors="backslashreplace"))
        except Exception:  # noqa: BLE001 - no line is worth the node
            return

    def _made(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # noqa: BLE001 - the value's own, or of a library's line
            said: object = record.msg  # any value, whatever the type says
            if isinstance(said, dict):
                said = cast("dict[str, object]", said).get("event")
            event = said if isinstance(said, str) else type(said).__name__
            text = f"{event} (its fields cannot be written: {type(error).__name__})"
            plain = logging.LogRecord(
                record.name, record.levelno, record.pathname, record.lineno, text, None, None
            )
            return self.format(plain)

    def _write(self, line: bytes) -> None:
        left = memoryview(b"\n" + line if self._cut_short else line)
        while left:
            written = os.write(self._descriptor, left)
            self._cut_short = left[written - 1] != ord("\n")
            left = left[written:]


def keep_journal(log_format: str, log_level: str, descriptor: int = STDOUT) -> None:
    """Send all log lines of this process to the journal from now on.

    Args:
        log_format: `json`, or `console` for people.
        log_level: the least severe level that is written.
        descriptor: of the open file for the lines.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(json.dumps, default=str, separators=(",", ":"))
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=os.isatty(descriptor))
    )
    handler = _Lines(descriptor)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    limit_libraries()
