"""The audit log as a file: its lines, its limits, rotation, and a disk that is full."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proofkit.fullpipe import FullPipe
from raftnode.access import audit_writer as module
from raftnode.access.audit_log import (
    QUEUE_LINES,
    REFUSAL_LINES,
    AuditLog,
    AuditRecord,
    open_audit_log,
)
from raftnode.errors import ConfigurationError

REFUSED = AuditRecord("refused", subject="app", reason="role_missing", outcome="not_done")
CHANGED = AuditRecord("changed", subject="app", operation="addVoter", target="x" * 1000)
PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "audit-log.md"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_time_and_what_is_known(tmp_path: Path):
    audit = AuditLog(tmp_path / "audit")
    audit.change(CHANGED)
    audit.close()
    [line] = lines(tmp_path / "audit")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line.pop("target") == "x" * 500 + "…"
    assert line == {
        "event": "changed",
        "subject": "app",
        "operation": "addVoter",
        "outcome": "done",
    }
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o600


def test_a_text_of_a_client_cannot_make_a_line(tmp_path: Path):
    audit = AuditLog(tmp_path / "audit")
    audit.change(AuditRecord("changed", target='a\n{"event": "changed"}\u2028'))
    audit.close()
    assert len(lines(tmp_path / "audit")) == 1


def test_refusals_are_limited_by_reason_and_subject_and_changes_are_not(tmp_path: Path):
    audit = AuditLog(tmp_path / "audit")
    for _ in range(100):
        audit.refusal(REFUSED)
        audit.change(CHANGED)
    audit.refusal(AuditRecord("refused", subject="other", reason="role_missing"))
    audit.close()
    written = lines(tmp_path / "audit")
    assert len([line for line in written if line["event"] == "changed"]) == 100
    assert len([line for line in written if line["subject"] == "app"]) == 105
    assert written[-1]["subject"] == "other"


def test_a_rotated_file_is_replaced(tmp_path: Path):
    path = tmp_path / "audit"
    audit = AuditLog(path)
    audit.change(CHANGED)
    assert audit.flush()
    path.rename(tmp_path / "audit.1")
    audit.change(CHANGED)
    assert audit.flush()
    path.unlink()
    audit.change(CHANGED)
    audit.close()
    assert len(lines(tmp_path / "audit.1")) == 1
    assert len(lines(path)) == 1


def lose_two_changes(audit: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two lines while the disk is full."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "write", fail)
        audit.change(CHANGED)
        audit.change(CHANGED)
        assert audit.flush()


def test_a_line_that_cannot_be_written_is_counted_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lost: list[int] = []
    audit = AuditLog(tmp_path / "audit")
    audit.observe(lambda: lost.append(1))
    lose_two_changes(audit, monkeypatch)
    audit.change(CHANGED)
    audit.change(CHANGED)
    audit.close()
    assert len(lost) == 2
    assert [line.get("lost") for line in lines(tmp_path / "audit")] == [2, None]


@pytest.mark.without(
    "access.audit_log:AuditLog.observe", "range(self._lost_unobserved)", "range(0)"
)
def test_a_line_that_is_lost_before_the_metrics_exist_is_counted_once_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    audit = AuditLog(tmp_path / "audit")
    lose_two_changes(audit, monkeypatch)
    lost: list[int] = []
    audit.observe(lambda: lost.append(1))
    audit.close()
    assert len(lost) == 2


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path):
    """A real limit of the file's size ends the write in the middle of a line, as a full disk."""
    code = """
import resource, signal, sys
from pathlib import Path
from raftnode.access.audit_log import AuditLog, AuditRecord

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
audit = AuditLog(Path(sys.argv[1]))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for number, limit in enumerate((hard, 150, hard, hard)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    audit.change(AuditRecord("changed", subject="app", target=str(number) * 40))
    assert audit.flush(30)
audit.close()
"""
    path = tmp_path / "audit"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=120)
    first, cut, *later = path.read_text().splitlines()
    assert json.loads(first)["target"] == "0" * 40
    assert len(first) + 1 + len(cut) == 150
    assert [(line["target"], line.get("lost")) for line in map(json.loads, later)] == [
        ("2" * 40, 1),
        ("3" * 40, None),
    ]


@pytest.mark.without("access.audit_writer:_is_cut_short", 'file.read(1) != b"\\n"', "False")
def test_a_line_that_an_earlier_process_left_half_spoils_no_other(tmp_path: Path):
    path = tmp_path / "audit"
    for before in (b"", b'{"event": "cha'):
        path.write_bytes(before)
        audit = AuditLog(path)
        audit.change(CHANGED)
        audit.close()
        audit = AuditLog(path)
        audit.change(CHANGED)
        audit.close()
        start, content = before + b"\n" if before else b"", path.read_bytes()
        assert content.startswith(start)
        written = content.removeprefix(start)
        assert [json.loads(line)["event"] for line in written.splitlines()] == ["changed"] * 2


def read_all(pipe: FullPipe, audit: AuditLog) -> list[Any]:
    """Read until the audit log has written everything."""
    data, deadline_s = b"", time.monotonic() + 30
    while not audit.flush(0.01) or not data.endswith(b"\n"):
        data += pipe.read()
        assert time.monotonic() < deadline_s
    return [json.loads(line) for line in (data + pipe.read()).splitlines()]


def test_a_file_that_hangs_delays_only_lines_about_what_happened(tmp_path: Path):
    with FullPipe(tmp_path / "audit") as pipe:
        audit = AuditLog(tmp_path / "audit")
        audit.refusal(REFUSED)
        assert audit.reserve()
        audit.reserved_change(CHANGED)
        assert not audit.flush(0.05)
        assert [line["event"] for line in read_all(pipe, audit)] == ["refused", "changed"]
        audit.close()


def refused(number: int) -> AuditRecord:
    return replace(REFUSED, subject=f"app-{number}")


@pytest.mark.without("access.audit_log:AuditLog.reserve", "self._reserved += has_room", "pass")
@pytest.mark.without("access.audit_log:AuditLog.refusal", "REFUSAL_LINES", "QUEUE_LINES")
def test_with_a_full_queue_no_change_begins_and_lost_lines_are_counted(tmp_path: Path):
    lost: list[int] = []
    with FullPipe(tmp_path / "audit") as pipe:
        audit = AuditLog(tmp_path / "audit")
        audit.observe(lambda: lost.append(1))
        with capture_logs() as logged:
            for number in range(REFUSAL_LINES + 100):
                audit.refusal(refused(number))
            assert len(lost) == 100, "the other half of the queue is for changes"
            for _ in range(QUEUE_LINES - REFUSAL_LINES):
                assert audit.reserve()
            assert not audit.reserve()
            audit.change(AuditRecord("voters_changed"))
            assert len(lost) == 101
            for _ in range(QUEUE_LINES - REFUSAL_LINES):
                audit.reserved_change(CHANGED)
            assert not audit.reserve()
        events = [(line["event"], line["of"]) for line in logged]
        assert events == [("audit_line_lost", "refused")] * 5 + [
            ("audit_line_lost", "voters_changed")
        ]
        written = read_all(pipe, audit)
        assert len(written) == QUEUE_LINES
        assert [line["lost"] for line in written if "lost" in line] == [101]
        assert written[REFUSAL_LINES]["lost"] == 101
        assert audit.reserve()
        audit.close()
    assert len(lost) == 101


def audit_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == module.THREAD_NAME}


def test_the_end_waits_for_a_file_that_hangs_within_a_bound(tmp_path: Path):
    lost: list[int] = []
    others = audit_threads()
    with FullPipe(tmp_path / "audit"), capture_logs() as logged:
        audit = AuditLog(tmp_path / "audit")
        audit.observe(lambda: lost.append(1))
        for _ in range(3):
            audit.change(CHANGED)
        started_s = time.monotonic()
        audit.close(0.2)
        assert 0.2 <= time.monotonic() - started_s < 20
        assert len(lost) == 3
    # The pipe has no reader now: the write that hung fails, and its line is counted already.
    for writer in audit_threads() - others:
        writer.join(20)
        assert not writer.is_alive()
    assert len(lost) == 3
    # The writer of an earlier test may log the end of its own pipe meanwhile.
    [line] = [line for line in logged if "lines" in line]
    assert (line["event"], line["lines"]) == ("audit_line_lost", 3)


def test_the_end_writes_what_waits(tmp_path: Path):
    audit = AuditLog(tmp_path / "audit")
    for _ in range(QUEUE_LINES):
        audit.change(CHANGED)
    audit.close(60)
    assert len(lines(tmp_path / "audit")) == QUEUE_LINES


@pytest.mark.timeout(60)
def test_a_fifo_without_a_reader_is_refused_at_the_start(tmp_path: Path):
    os.mkfifo(tmp_path / "audit")
    with pytest.raises(ConfigurationError, match="cannot be opened: No such device or address"):
        AuditLog(tmp_path / "audit")


def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path):
    with pytest.raises(
        ConfigurationError, match=r"^audit_log: .* cannot be opened: Is a directory"
    ):
        AuditLog(tmp_path)


def test_the_setting_says_where_the_lines_go(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert open_audit_log(None, by_default=False) is None
    assert open_audit_log("disabled", by_default=True) is None
    for setting in (None, "stderr"):
        audit = open_audit_log(setting, by_default=True)
        assert audit is not None
        audit.change(CHANGED)
        audit.close()
    assert len(capfd.readouterr().err.splitlines()) == 2
    audit = open_audit_log(str(tmp_path / "audit"), by_default=False)
    assert audit is not None
    audit.close()


@pytest.mark.without("access.audit_log:open_audit_log", "sys.stderr is None", "False")
def test_stderr_that_was_closed_at_the_start_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", None)
    for setting in (None, "stderr"):
        with pytest.raises(ConfigurationError, match="stderr is closed"):
            open_audit_log(setting, by_default=True)
    assert open_audit_log("disabled", by_default=True) is None


def test_the_page_names_every_field():
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    fields = set(AuditRecord.__dataclass_fields__) - {"event"} | {"time", "left_out", "lost"}
    assert fields <= named
