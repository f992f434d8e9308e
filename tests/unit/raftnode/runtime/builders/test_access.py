"""Access control of a node: what its audit log has of connections that did not come about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raftnode.access.audit_log import AuditLog
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
