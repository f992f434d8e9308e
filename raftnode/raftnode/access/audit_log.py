"""The audit log: a JSON line for each change of the quorum or of a node, and for refusals.

A line has no secret: no token, no hash of one, no key and no value of a record. Refusals are
limited, by reason and subject; a line says how many like it were left out before it. Changes are
never left out.

A thread writes the lines, so a file that hangs delays nothing else. A bounded number of lines
waits. When the queue is full, no change of the quorum begins, and other lines are lost and counted.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from raftnode.access.access_list import How
from raftnode.access.audit_writer import LOST, AuditWriter, Line
from raftnode.core.types import ReplicaKey
from raftnode.errors import ConfigurationError
from raftnode.log_limit import LineBudget

_log = structlog.get_logger(__name__)

STDERR = "stderr"
DISABLED = "disabled"

QUEUE_LINES = 1024
"""How many lines wait for the file at most, with the places of changes that have begun."""

REFUSAL_LINES = QUEUE_LINES // 2
"""With so many lines waiting, lines about refusals are lost: the rest is for changes."""

FLUSH_S = 2.0
"""How long the end of a node waits for the file."""

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
    """Has the lines written, by a thread; its own methods are of one thread and do not block.

    Args:
        path: of the file, to which lines are appended; None: stderr.

    Raises:
        ConfigurationError: the file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._on_lost: Callable[[], None] | None = None
        self._lost_unobserved = 0
        self._losing = threading.Lock()
        self._refusals = LineBudget()
        self._dropped = LineBudget()
        self._failed = LineBudget()
        self._reserved = 0
        self._lost = 0
        try:
            self._writer = AuditWriter(path, self._note_failed)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ConfigurationError(
                f"audit_log: {path} cannot be opened: {reason}; give a file that the node may "
                f"write, or {STDERR} or {DISABLED}"
            ) from None

    def observe(self, on_lost: Callable[[], None]) -> None:
        """Have a function called for each line that is lost or was lost before, on any thread."""
        with self._losing:
            self._on_lost = on_lost
            for _ in range(self._lost_unobserved):
                on_lost()
            self._lost_unobserved = 0

    @property
    def waiting(self) -> int:
        """How many lines its file has not taken yet."""
        return self._writer.waiting

    def reserve(self) -> bool:
        """Keep a place for the line of a change that is about to begin.

        Returns:
            Whether there is one. If so, `reserved_change` takes it. If not, the change must not
            begin: it would leave no line.
        """
        has_room = self._has_room(QUEUE_LINES)
        self._reserved += has_room
        return has_room

    def reserved_change(self, record: AuditRecord) -> None:
        """Write a line about a change that has a place, done or not."""
        self._reserved -= 1
        self._put(record, {})

    def change(self, record: AuditRecord) -> None:
        """Write a line about a change that could not be refused, done or not."""
        if self._has_room(QUEUE_LINES):
            self._put(record, {})
        else:
            self._drop(record, {})

    def refusal(self, record: AuditRecord) -> None:
        """Write a line about a refusal, or leave it out if there were many like it."""
        left_out = self._refusals.take(f"{record.reason} {record.subject}")
        if left_out is None:
            return
        if self._has_room(REFUSAL_LINES):
            self._put(record, left_out)
        else:
            self._drop(record, left_out)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until all lines are written; return whether that came in time. Blocks."""
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Write what waits, and close the file; what is left after the timeout is lost. Blocks."""
        left = self._writer.close(timeout_s)
        if left:
            problem = f"not written within {timeout_s:g} s, and the process ends"
            _log.error("audit_line_lost", problem=problem, lines=left)
        for _ in range(left):
            self._count_lost()

    def _has_room(self, lines: int) -> bool:
        return self.waiting + self._reserved < lines

    def _put(self, record: AuditRecord, more: dict[str, int]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: _short(value) for name, value in asdict(record).items() if value}
        lost = {LOST: self._lost} if self._lost else {}
        self._lost = 0
        self._writer.put({"time": now, **fields, **more, **lost})

    def _drop(self, record: AuditRecord, left_out: dict[str, int]) -> None:
        self._lost += 1 + sum(left_out.values())
        problem = f"{self.waiting} lines wait for the file"
        self._say_lost(self._dropped, {**asdict(record), **left_out}, problem)

    def _note_failed(self, line: Line, error: Exception) -> None:
        """Report a line that could not be written; on the writer's thread."""
        strerror = error.strerror if isinstance(error, OSError) else None
        self._say_lost(self._failed, line, strerror or type(error).__name__)

    def _count_lost(self) -> None:
        with self._losing:
            if self._on_lost is None:
                self._lost_unobserved += 1
            else:
                self._on_lost()

    def _say_lost(self, budget: LineBudget, line: Line, problem: str) -> None:
        self._count_lost()
        # A change has a line of its own here, which refusals do not displace.
        shown = {name: line.get(name) for name in ("operation", "subject", "outcome")}
        budget.say(
            _log.error, "audit_line_lost", line["event"], problem=problem, of=line["event"], **shown
        )


def open_audit_log(setting: str | None, *, by_default: bool) -> AuditLog | None:
    """Open the audit log that a setting asks for.

    Args:
        setting: `stderr`, `disabled` or a path; None: not set.
        by_default: whether there is one on stderr if it is not set.

    Raises:
        ConfigurationError: the file cannot be opened, or stderr was closed at the start.
    """
    if setting == DISABLED or (setting is None and not by_default):
        return None
    if setting in {None, STDERR} and sys.stderr is None:
        raise ConfigurationError(
            f"audit_log: {STDERR} is closed, so no line would be kept; open it, or give a file or "
            f"{DISABLED}"
        )
    return AuditLog(None if setting in {None, STDERR} else Path(str(setting)))


def formatted(replica: ReplicaKey, cluster_id: str | None) -> AuditRecord:
    """The line about a data directory that this process has formatted."""
    return AuditRecord(
        "changed",
        subject=f"uid {os.getuid()}",
        authenticated_by=How.SYSTEM.value,
        operation="format",
        target=json.dumps({"replica": str(replica), "cluster_id": cluster_id}),
    )


def _short(value: str) -> str:
    return value if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]}…"
