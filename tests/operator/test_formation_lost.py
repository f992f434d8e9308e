"""A majority of the disks lost during formation (S19): a person decides, seen through a pause."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


def _says_lost(krq) -> bool:
    status = krq.status()
    lost = {c["type"]: c["status"] for c in status.get("conditions", [])}.get("QuorumLost")
    return status.get("phase") == "QuorumLost" and lost == "True"


@pytest.mark.rule("S19")
def test_a_majority_lost_during_formation_forms_nothing_new(krq, operators) -> None:
    # ApplyObjects, CreateStatefulSet, CreateLatch, SendLatch: it dies before the second SendLatch.
    first = operators.start(exit_before_action=5)
    krq.apply(voters=3, deletion={"claims": "Delete"})
    krq.until("the operator died", lambda: first.poll() is not None)
    latched = krq.latched()
    (latch,) = krq.latches()
    reached = next(a.split()[1] for a in operators.actions() if a.startswith("SendLatch"))
    lost = [ordinal for ordinal, uuid in sorted(latched) if f"{ordinal}-{uuid}" != reached]
    for ordinal in lost:
        krq.wipe(ordinal)

    operators.start()
    krq.until("lost", lambda: _says_lost(krq))
    status = krq.until_status("told", lambda now: now.get("waitingFor") == "never_rebootstrap")
    assert "storage of 2 of 3 voters is gone" in status["message"]
    assert "a person must decide" in status["message"]
    assert reached in status["message"]
    roles = {n["nodeId"]: n["role"] for n in status["nodes"]}
    assert {roles[ordinal] for ordinal in lost} == {"blank"}
    assert "leader" not in status

    # While a person works on it behind a pause, it stays lost in every word.
    krq.kubectl("patch", "krq", "demo", "--type=merge", "-p", '{"spec":{"pause":true}}')
    krq.until("paused", lambda: krq.condition("Paused")["status"] == "True")
    time.sleep(2)
    krq.until("lost still", lambda: _says_lost(krq))
    status = krq.until_status("paused still", lambda now: now.get("waitingFor") == "not_paused")
    assert status["doing"] == "not_paused"
    assert "a person must decide" in status["message"]
    assert krq.condition("Ready")["status"] == krq.condition("Available")["status"] == "False"
    assert krq.latches() == [latch]
    sent = [a for a in operators.actions() if a.startswith(("CreateLatch", "SendLatch", "Join"))]
    assert len(sent) == 2, sent

    # What failure-modes.md says to do: begin again, under another cluster id.
    krq.delete()
    krq.until("claims gone", lambda: not krq.list("pvc") and not krq.list("pods"))
    krq.apply(voters=3)
    krq.ready(3)
    assert krq.status()["clusterId"] != latch["data"]["clusterId"]
    assert krq.condition("Paused")["status"] == "False"
