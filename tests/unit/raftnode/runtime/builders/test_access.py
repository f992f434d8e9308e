"""Access control of a node: its audit log of refused connections, and lines that wait."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proofkit.fullpipe import FullPipe
from proofkit.memoryservice import MemoryService
from raftnode.access.audit_log import AuditLog
from raftnode.api.listeners import Listener
from raftnode.core.types import Endpoint
from raftnode.runtime.builders.access import Access
from raftnode.tls.failures import Reason
from raftnode.tls.handshakes import FailureLog

ADDRESS = "10.0.0.7"
OWN_FAILURES = {Reason.REFUSED, Reason.TIMEOUT}


def lines(tmp_path: Path, *failures: tuple[str, Reason]) -> list[dict[str, str]]:
    """The audit log after these failures."""
    path = tmp_path / "audit"
    access = Access(audit=AuditLog(path))
    log = FailureLog(lambda *_: None, access.note_refused_connection)
    for listener, reason in failures:
        log(listener, reason, ADDRESS, "a detail for people")
    access.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("reason", sorted(set(Reason) - OWN_FAILURES))
@pytest.mark.parametrize("listener", ["api", "peer"])
@pytest.mark.without(
    "tls.handshakes:FailureLog.__call__", "self._audit(listener, reason, address)", "pass"
)
def test_a_refused_handshake_leaves_a_line(tmp_path: Path, listener: str, reason: Reason):
    expected = {
        "event": "refused",
        "remote": ADDRESS,
        "listener": listener,
        "outcome": "not_done",
        "reason": reason.value,
    }
    written = lines(tmp_path, (listener, reason))
    assert [line | {"time": ""} for line in written] == [expected | {"time": ""}]


@pytest.mark.parametrize(
    "failure", [("dialled", Reason.UNKNOWN_CA), *(("api", reason) for reason in OWN_FAILURES)]
)
def test_what_this_node_did_not_refuse_leaves_none(tmp_path: Path, failure: tuple[str, Reason]):
    assert lines(tmp_path, failure) == []


def test_a_flood_of_refused_handshakes_leaves_a_few_lines(tmp_path: Path):
    assert len(lines(tmp_path, *[("api", Reason.UNKNOWN_CA)] * 1000)) < 10


@pytest.mark.without(
    "runtime.builders.access:Access.gates",
    "metrics.audit_lines_waiting.set_function(lambda: audit.waiting)",
    "pass",
)
def test_lines_that_wait_for_a_file_that_hangs_are_shown(tmp_path: Path):
    """None of them is lost yet, so nothing else shows that the file takes none."""
    registry = CollectorRegistry()

    def waiting() -> float | None:
        return registry.get_sample_value("raftnode_audit_lines_waiting")

    with FullPipe(tmp_path / "audit") as pipe:
        access = Access(audit=AuditLog(tmp_path / "audit"))
        at = {Listener.API: Endpoint("127.0.0.1", 1)}
        access.gates(MemoryService(), registry, at, tuple)
        assert waiting() == 0
        access.note_refused_connection("api", Reason.UNKNOWN_CA, ADDRESS)
        assert waiting() == 1
        assert registry.get_sample_value("raftnode_audit_lines_lost_total") == 0
        deadline_s = time.monotonic() + 30
        while waiting():
            pipe.read()
            assert time.monotonic() < deadline_s
        access.close()
