"""Access control of a node: its audit log of refused connections, and lines that wait."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proofkit.fullpipe import FullPipe
from proofkit.memoryservice import MemoryService
from raftnode.access.audit_log import AuditLog
from raftnode.api.listeners import Listener
from raftnode.core.types import Endpoint, NodeId, ReplicaKey
from raftnode.runtime.builders.access import AUDITED_FACTS, Access, read_access
from raftnode.settings import NodeSettings
from raftnode.storage.directory.directory import DataDirectory
from raftnode.tls.failures import Reason
from raftnode.tls.handshakes import FailureLog
from raftnode.transport.hello import RefusalReason

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


@pytest.mark.parametrize("name", sorted(AUDITED_FACTS))
@pytest.mark.without(
    "runtime.builders.access:Access.note_fact", "and name in AUDITED_FACTS", "and not name"
)
def test_what_the_quorum_decides_about_access_leaves_a_line(tmp_path: Path, name: str):
    path = tmp_path / "audit"
    access = Access(audit=AuditLog(path))
    access.note_fact(name, {"epoch": 3})
    access.close()
    written = path.read_text()
    assert written.count("\n") == 1
    fields = json.loads(written)
    assert fields["event"] == name
    assert fields["authenticated_by"] == "quorum"
    assert json.loads(fields["target"]) == {"epoch": 3}


@pytest.mark.without(
    "runtime.builders.access:Access.note_opened", "directory.formatted is not None", "False"
)
def test_an_opening_that_formats_leaves_a_line_and_no_other_does(tmp_path: Path):
    path = tmp_path / "audit"
    (tmp_path / "data").mkdir()
    keys: list[ReplicaKey] = []
    for _ in range(2):
        access = Access(audit=AuditLog(path))
        directory = DataDirectory.open(tmp_path / "data", NodeId(7))
        access.note_opened(directory)
        keys.append(directory.key)
        directory.close()
        access.close()
    written = path.read_text()
    assert written.count("\n") == 1
    line = json.loads(written)
    assert json.loads(line["target"]) == {"replica": str(keys[0]), "cluster_id": None}
    assert (line["event"], line["operation"]) == ("changed", "format")


def test_other_facts_leave_no_line(tmp_path: Path):
    path = tmp_path / "audit"
    access = Access(audit=AuditLog(path))
    access.note_fact("role_changed", {"epoch": 3})
    access.close()
    assert path.read_text() == ""


def settings_of(directory: Path, **more: object) -> NodeSettings:
    return NodeSettings.model_validate({"node_id": 1, "log_dir": directory, **more})


def with_tls(listener: str, mode: str) -> dict[str, object]:
    files = ("certificate", "key", "ca")
    return {f"{listener}_tls": mode} | {f"{listener}_tls_{file}_file": "x" for file in files}


@pytest.mark.parametrize("mode", ["permissive", "required"])
@pytest.mark.parametrize("listener", ["peer", "api"])
@pytest.mark.without(
    "runtime.builders.access:_is_secured", 'or modes != {"disabled"}', "or modes == {None}"
)
def test_a_node_with_tls_has_an_audit_log_unless_it_is_off(
    tmp_path: Path, listener: str, mode: str
):
    secured = with_tls(listener, mode)
    access = read_access(settings_of(tmp_path, **secured))
    assert access.audit is not None
    access.close()
    assert read_access(settings_of(tmp_path, **secured, audit_log="disabled")).audit is None
    moved = tmp_path / "moved"
    access = read_access(settings_of(tmp_path, **secured, audit_log=str(moved)))
    access.note_refused_connection(listener, Reason.UNKNOWN_CA, ADDRESS)
    access.close()
    assert json.loads(moved.read_text())["reason"] == "unknown_ca"


def test_a_plain_node_without_an_access_file_has_no_audit_log(tmp_path: Path):
    assert read_access(settings_of(tmp_path)).audit is None


@pytest.mark.without(
    "runtime.builders.access:read_access", "settings.api_tls_ca_file is not None", "False"
)
def test_client_certificates_that_limit_nothing_are_reported(tmp_path: Path):
    with capture_logs() as events:
        read_access(settings_of(tmp_path, **with_tls("api", "required"))).close()
    assert [event["event"] for event in events] == ["client_certificates_ignored"]
    with capture_logs() as events:
        read_access(settings_of(tmp_path, **with_tls("peer", "required"))).close()
    assert not events


@pytest.mark.parametrize("reason", sorted(set(RefusalReason) - {RefusalReason.WRONG_CERTIFICATE}))
def test_a_refused_hello_leaves_a_line_and_many_leave_a_few(tmp_path: Path, reason: RefusalReason):
    path, key = tmp_path / "audit", ReplicaKey(NodeId(7), uuid.UUID(int=1))
    access = Access(audit=AuditLog(path))
    for _ in range(1000):
        access.note_refused_hello(reason, key, ADDRESS)
    access.note_refused_hello(RefusalReason.WRONG_CERTIFICATE, key, ADDRESS)
    access.close()
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert written[0] | {"time": ""} == {
        "time": "",
        "event": "refused",
        "remote": ADDRESS,
        "listener": "peer",
        "target": str(key),
        "outcome": "not_done",
        "reason": reason.value,
    }
    assert {line["reason"] for line in written} == {reason.value}
    assert len(written) < 10


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
