"""The audit log: a JSON line for each change of the quorum or of a node, and for refusals.

A line has no secret: no token, no hash of one, no key and no value of a record. Refusals are
limited, by reason and subject; a line says how many like it were left out before it. Changes are
never left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from raftnode.errors import ConfigurationError
from raftnode.log_limit import LineBudget

_log = structlog.get_logger(__name__)

STDERR = "stderr"
OFF = "off"

_STDERR_DESCRIPTOR = 2
_TEXT_MAX = 500


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """What happened; docs/reference/audit-log.md has the fields.

    Attributes:
        event: `changed`, `refused`, or a fact of the quorum.
        subject: who asked; None: it is not known, or the quorum did it.
        authenticated_by: how the subject is known.
        remote: the address that the request came from.
        listener: on which it came.
        verb: what it does, as roles have it.
        operation: of the API.
        target: what it is about.
        outcome: `done`, `not_done` or `unknown`.
        error: the API's error; None: none.
        reason: of a refusal, as its metric has it.
    """

    event: str
    subject: str | None = None
    authenticated_by: str | None = None
    remote: str | None = None
    listener: str | None = None
    verb: str | None = None
    operation: str | None = None
    target: str | None = None
    outcome: str = "done"
    error: str | None = None
    reason: str | None = None


class AuditLog:
    """Writes the lines.

    Args:
        path: of the file, to which lines are appended; None: stderr.
        on_lost: is called for each line that could not be written.

    Raises:
        ConfigurationError: the file cannot be opened.
    """

    def __init__(self, path: Path | None, on_lost: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self.on_lost = on_lost
        self._refusals = LineBudget()
        self._lost = LineBudget()
        self._descriptor = _STDERR_DESCRIPTOR
        if path is not None:
            try:
                self._descriptor = _open(path)
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise ConfigurationError(
                    f"audit_log: {path} cannot be opened: {reason}; give a file that the node may "
                    f"write, or {STDERR} or {OFF}"
                ) from None

    def change(self, record: AuditRecord) -> None:
        """Write a line about a change, done or not."""
        self._write(record, {})

    def refusal(self, record: AuditRecord) -> None:
        """Write a line about a refusal, or leave it out if there were many like it."""
        left_out = self._refusals.take(f"{record.reason} {record.subject}")
        if left_out is not None:
            self._write(record, left_out)

    def close(self) -> None:
        """Close the file."""
        if self._path is not None:
            os.close(self._descriptor)

    def _write(self, record: AuditRecord, more: dict[str, int]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: _short(value) for name, value in asdict(record).items() if value}
        line = json.dumps({"time": now, **fields, **more}).encode() + b"\n"
        try:
            self._follow_rotation()
            os.write(self._descriptor, line)
        except OSError as error:
            self.on_lost()
            problem = error.strerror or type(error).__name__
            self._lost.say(_log.error, "audit_line_lost", problem=problem)

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
        self._descriptor = opened


def open_audit_log(setting: str | None, *, by_default: bool) -> AuditLog | None:
    """Open the audit log that a setting asks for.

    Args:
        setting: `stderr`, `off` or a path; None: not set.
        by_default: whether there is one on stderr if it is not set.

    Raises:
        ConfigurationError: the file cannot be opened.
    """
    if setting == OFF or (setting is None and not by_default):
        return None
    return AuditLog(None if setting in {None, STDERR} else Path(str(setting)))


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _short(value: str) -> str:
    return value if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]}…"
