"""A quorum from apply to delete, with the real node."""

from __future__ import annotations

import os
import signal

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

DESCRIBED_LINES_MAX = 200
"""Of `kubectl describe` for a healthy quorum of three, its events included."""


@pytest.mark.rule("S25")
def test_a_quorum_forms_scales_survives_its_pods_and_goes(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    latches = [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]
    assert len(latches) == 1
    assert latches[0]["immutable"] is True
    assert "ownerReferences" not in latches[0]["metadata"]
    assert latches[0]["data"]["clusterId"] == krq.status()["clusterId"]
    assert krq.counted() == {"demo-0", "demo-1", "demo-2"}
    first = krq.voters()
    described = krq.kubectl("describe", "krq", "demo").splitlines()
    assert len(described) < DESCRIBED_LINES_MAX, described

    krq.kubectl("scale", "krq", "demo", "--replicas=5")
    krq.ready(5)
    assert krq.voters()[:3] == first
    assert krq.get("pdb")["spec"]["minAvailable"] == 3
    five = krq.voters()

    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    krq.ready(3)
    assert krq.voters() == first
    assert krq.get("pdb")["spec"]["minAvailable"] == 2
    assert {p["metadata"]["name"] for p in krq.list("pods")} == {"demo-0", "demo-1", "demo-2"}
    assert len(krq.list("pvc")) == 5, "claims of replicas that were scaled away are kept"

    # A retained disk is reused as an observer's, with its directory id (S25).
    krq.kubectl("scale", "krq", "demo", "--replicas=5")
    krq.ready(5)
    assert krq.voters() == five
    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    krq.ready(3)

    # A pod that is killed or deleted comes back with its disk: no voter changes.
    os.kill(krq.cluster.pod_process(krq.namespace, "demo-1"), signal.SIGKILL)
    krq.kubectl("delete", "pod", "demo-2", "--wait=false")
    krq.until("not ready", lambda: not krq.is_ready(3))
    krq.ready(3)
    assert krq.voters() == first

    krq.delete()
    krq.until("pods gone", lambda: not krq.list("pods"))
    assert len(krq.list("pvc")) == 5
    krq.until("nothing else left", lambda: not krq.list("sts") and not krq.list("pdb"))


def test_an_even_number_of_voters_is_accepted_with_a_warning_event(krq, operators) -> None:
    operators.start()
    krq.apply(voters=2)
    krq.ready(2)
    events = [e for e in krq.list("events") if e["reason"] == "EvenVoters"]
    assert len(events) == 1
    assert events[0]["type"] == "Warning"
    assert "2 voters tolerate no more failures than 1" in events[0]["message"]
    # Room for the longest guard in 100 columns, if the namespace is called `default`.
    header, line = krq.kubectl("get", "krq", "-A").splitlines()[:2]
    assert header.split()[-2:] == ["DOING", "AGE"]
    assert header.index("DOING") - len(krq.namespace) + len("default") + 34 + 6 <= 100, line


def test_deletion_takes_the_claims_if_told_to(krq, operators) -> None:
    operators.start()
    krq.apply(voters=1, deletion={"claims": "Delete"})
    krq.ready(1)
    krq.delete()
    krq.until("claims gone", lambda: not krq.list("pvc") and not krq.list("pods"))
    assert not [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]


def test_pause_reports_but_does_nothing(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3, pause=True)
    krq.until("paused", lambda: krq.status().get("phase") == "Paused")
    assert krq.status()["waitingFor"] == "not_paused"
    assert not krq.list("sts")
