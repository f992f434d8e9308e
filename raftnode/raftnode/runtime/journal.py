"""The node's journal: a line on stdout for each event, as the settings say.

Its lines are for whoever wonders later; the node lives without them. Where they cannot be
written, because the disk behind stdout is full or its reader has gone, they are left out.
"""

from __future__ import annotations

import json
import logging
import os

import structlog

STDOUT = 1


class _Lines(logging.Handler):
    """Writes each line whole and at once: what a buffer holds back could fail the exit, too."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or nothing."""
        line = memoryview(f"{self.format(record)}\n".encode(errors="backslashreplace"))
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            return


def keep_journal(log_format: str, log_level: str, descriptor: int = STDOUT) -> None:
    """Send what this process says from now on to the journal; for the whole process.

    Args:
        log_format: `json`, or `console` for people.
        log_level: the least severe level that is written.
        descriptor: of the open file that it goes to.
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
