"""How long the status is wrong after the leader's process stops or ends, on real processes.

The operator runs with its default pauses and timeouts, but for the pause of a quorum at rest: it
is so long that only the loss of contact can bring the next look in time. The figures are printed, and are in docs/evidence/failures.md.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import threading
import time
import urllib.request
from contextlib import suppress

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(1800)]

ROUNDS = int(os.environ.get("STATUS_LATENCY_ROUNDS", "1"))
SETTINGS = {"reconcile_busy_s": 1.0, "reconcile_idle_s": 600.0, "node_timeout_s": 1.5}
LATE_S = 60.0
"""A round that takes longer has failed; how long one may take is no matter of this test."""


class Truth(threading.Thread):
    """Asks the other replicas which one leads, until one says that it does."""

    def __init__(self, addresses: dict[int, str], since_s: float) -> None:
        super().__init__(daemon=True)
        self.addresses, self.since_s = addresses, since_s
        self.leader: int | None = None
        self.elected_s = 0.0

    def run(self) -> None:
        while self.leader is None and time.monotonic() - self.since_s < LATE_S:
            for ordinal, address in self.addresses.items():
                with suppress(OSError, ValueError):
                    url = f"http://{address}:9080/v1/node"
                    with urllib.request.urlopen(url, timeout=2) as answer:
                        if json.loads(answer.read())["role"] == "leader":
                            self.leader = ordinal
                            self.elected_s = time.monotonic() - self.since_s
                            return
            time.sleep(0.02)


def measured(krq, number: signal.Signals) -> dict[str, float]:
    """One round: seconds from the fault until each part of the status is right."""
    krq.ready(3)
    old = krq.leader()
    pods = {int(p["metadata"]["name"][-1]): p["status"]["podIP"] for p in krq.list("pods")}
    pid = krq.cluster.pod_process(krq.namespace, f"demo-{old}")
    # Not right after something else, when the operator looks often anyway.
    time.sleep(12)
    krq.ready(3)
    assert krq.leader() == old
    started_s = time.monotonic()
    os.kill(pid, number)
    truth = Truth({n: at for n, at in pods.items() if n != old}, started_s)
    truth.start()
    found: dict[str, float] = {}
    try:
        while len(found) < 4:
            status = krq.status()
            at_s = time.monotonic() - started_s
            assert at_s < LATE_S, (found, status)
            states = {c["type"]: c["status"] for c in status["conditions"]}
            leader = status.get("leader", {}).get("nodeId")
            if states["Ready"] != "True":
                found.setdefault("Ready is not True", at_s)
            if states["Available"] != "True" or leader != old:
                found.setdefault("Available is not True by the old leader", at_s)
            if leader not in {None, old}:
                found.setdefault("the new leader is named", at_s)
                if states["Available"] == "True":
                    found.setdefault("Available is True by the new leader", at_s)
            time.sleep(0.02)
    finally:
        if number == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
    truth.join()
    assert truth.leader is not None
    found["a replica says that it leads"] = truth.elected_s
    return found


def test_clients_that_write_cause_no_write_of_the_status(krq, operators, writing) -> None:
    """Offsets and ages in it were written every few seconds, for each quorum."""
    operators.start(reconcile_idle_s=1, status_interval_s=1)
    calm = {"fetch_timeout_ms": 9000}
    krq.apply(voters=3, config=calm, replacement={"gracePeriodSeconds": 9})
    krq.ready(3)
    writing.start()

    def is_at_rest() -> bool:
        version, before = krq.get()["metadata"]["resourceVersion"], writing.acknowledged
        time.sleep(10)
        return (
            krq.get()["metadata"]["resourceVersion"] == version
            and writing.acknowledged > before + 5
        )

    krq.until("ten seconds of writes without a status", is_at_rest)
    status = krq.status()
    assert "highWatermark" not in status
    assert not {"lag", "lastFetchAgeMs"} & set(status["voters"][0])
    assert all("logEndOffset" not in node for node in status["nodes"])
    writing.finish()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_status_follows_the_leader_s_loss_without_waiting_for_the_next_look(
    krq, operators, number: signal.Signals
) -> None:
    operators.start(**SETTINGS)
    krq.apply(voters=3)
    krq.ready(3)
    rounds = [measured(krq, number) for _ in range(ROUNDS)]
    for name in sorted(rounds[0], key=lambda n: rounds[0][n]):
        values = [one[name] for one in rounds]
        shown = ", ".join(f"{value:.1f}" for value in values)
        median = statistics.median(values)
        sys.stdout.write(f"{number.name}: {name}: median {median:.1f} s of {shown}\n")
    krq.ready(3)
