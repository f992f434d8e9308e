"""The operator killed or stopped between any two steps."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

STANDBYS = 2


@pytest.mark.rule("S23")
def test_killed_before_every_action_from_formation_to_a_replacement(krq, operators) -> None:
    """SIGKILL before each action in turn; its successor derives the step again."""
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    killed = 0

    running: list[subprocess.Popen[bytes]] = []

    def keep_some_running() -> bool:
        """One that holds the Lease, and others that stand by, since a start takes seconds."""
        nonlocal killed
        killed += sum(process.poll() is not None for process in running)
        running[:] = [process for process in running if process.poll() is None]
        while len(running) < STANDBYS + 1:
            # The second action: the first is the one that its predecessor died before.
            running.append(operators.start(exit_before_action=2, lease_duration_s=1))
        return krq.list("krq") != [] and krq.is_ready(3)

    krq.until("formed", keep_some_running, 240)
    formed_after = killed
    old = dict(krq.voters())[2]
    krq.wipe(2)

    def is_replaced() -> bool:
        keep_some_running()
        return dict(krq.reported()).get(2, old) != old and krq.is_ready(3)

    krq.until("replaced", is_replaced, 240)
    assert formed_after >= 4
    assert killed - formed_after >= 3
    done = operators.actions()
    assert sum(a.startswith("CreateLatch") for a in done) == 1
    assert sum(a.startswith("AddVoter") and a.endswith(" done") for a in done) == 1
    assert not [a for a in done if a.startswith("RemoveVoter")]  # the leader's own (S23)
    assert len(krq.voters()) == 3


@pytest.mark.rule("S21", "S26")
def test_an_operator_that_was_stopped_before_a_delete_spares_the_new_disk(krq, operators) -> None:
    """S21: its late DELETE meets a namesake with another UID."""
    first = operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    operators.stop(first)

    for delete in (1, 2, 3):
        stopped = operators.start(stop_before_delete=delete, lease_duration_s=1)
        krq.until("active", lambda stopped=stopped: operators.holds_lease(stopped))
        second = operators.start(lease_duration_s=1)  # stands by
        old = dict(krq.voters())[1]
        folder = krq.cluster.volume_dir(krq.namespace, "data-demo-1")
        next(folder.rglob("meta.properties")).unlink()
        krq.kubectl("delete", "pod", "demo-1", "--wait=false")
        krq.until("stopped", lambda stopped=stopped: _state(stopped.pid) == "T")
        krq.replaced(1, old)
        claim = krq.get("pvc", "data-demo-1")["metadata"]["uid"]
        pod = krq.get("pod", "demo-1")["metadata"]["uid"]
        voters = krq.voters()

        stopped.send_signal(signal.SIGCONT)

        def was_late(delete: int = delete) -> bool:
            # A pod that is not ready is deleted by its version, too, and that has changed as well.
            late = "and is kept"
            return sum(late in action for action in operators.actions()) >= delete

        krq.until("its late DELETE answered", was_late)
        assert krq.get("pvc", "data-demo-1")["metadata"]["uid"] == claim
        assert "deletionTimestamp" not in krq.get("pvc", "data-demo-1")["metadata"]
        assert krq.get("pod", "demo-1")["metadata"]["uid"] == pod
        assert krq.voters() == voters
        for process in (stopped, second):
            process.kill()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
