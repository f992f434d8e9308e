"""Nodes that are slow but alive are not killed, and readiness does not flap under load."""

from __future__ import annotations

import os
import signal
import time

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

STOPPED_S = 10
"""The liveness probe gives a node half a minute: six failures in a row, five seconds apart."""


def containers(krq) -> dict[str, dict]:
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0] for pod in krq.list("pods")
    }


def ready_since(krq) -> dict[str, tuple[str, str]]:
    return {
        pod["metadata"]["name"]: (c["status"], c["lastTransitionTime"])
        for pod in krq.list("pods")
        for c in pod["status"]["conditions"]
        if c["type"] == "Ready"
    }


def stays_ready(krq) -> bool:
    """Whether readiness stays as it is for a while; a probe may come late on a busy machine."""
    before = ready_since(krq)
    time.sleep(6)
    return ready_since(krq) == before


@pytest.mark.nightly
def test_a_stopped_node_is_not_ready_and_not_restarted_and_load_alone_is_neither(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    voters = krq.voters()
    writing.start()
    krq.until("all ready", lambda: {s for s, _ in ready_since(krq).values()} == {"True"})
    assert any(stays_ready(krq) for _ in range(3)), "readiness flapped under load"

    slow = (krq.leader() + 1) % 3
    pid = krq.cluster.pod_process(krq.namespace, f"demo-{slow}")
    os.kill(pid, signal.SIGSTOP)
    try:
        krq.until("not ready", lambda: ready_since(krq)[f"demo-{slow}"][0] == "False")
        time.sleep(STOPPED_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    # Silent for longer than the grace period, yet its disk and claim are there: it only waits.
    krq.ready(3)
    krq.until("ready", lambda: ready_since(krq)[f"demo-{slow}"][0] == "True")
    assert {status["restartCount"] for status in containers(krq).values()} == {0}
    assert krq.cluster.pod_process(krq.namespace, f"demo-{slow}") == pid
    assert krq.voters() == voters
    assert not [a for a in operators.actions() if a.startswith(("Delete", "RemoveVoter"))]
    writing.finish(bounded=True)
