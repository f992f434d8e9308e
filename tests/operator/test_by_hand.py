"""What people do by hand to the objects of a quorum: put right, and no voter and no write lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

FINALIZER = "kraftquorum.io/quorum"
WAKES_AFTER_S = 30.0


def _waking(krq, holds: Callable[[], bool]) -> Callable[[], bool]:
    """The same question; now and then the StatefulSet is touched, as the documentation advises.

    Kubernetes' controller of a new StatefulSet fails at each pod of the old one that has not ended,
    waits longer after each failure, up to minutes, and is not told of the end of such a pod. Any
    change of the StatefulSet lets it try again.
    """
    touched = time.monotonic()

    def asked() -> bool:
        nonlocal touched
        if holds():
            return True
        if time.monotonic() - touched > WAKES_AFTER_S and "demo" in _uids(krq, "sts"):
            touched = time.monotonic()
            krq.kubectl("annotate", "statefulset", "demo", f"touched={touched:.0f}", "--overwrite")
        return False

    return asked


def _uids(krq, kind: str) -> dict[str, str]:
    return {o["metadata"]["name"]: o["metadata"]["uid"] for o in krq.list(kind)}


def _services(krq) -> dict[str, Any]:
    found = json.loads(krq.kubectl("get", "services", "-o", "json"))["items"]
    return {service["metadata"]["name"]: service for service in found}


def _patch(krq, kind: str, name: str, change: dict[str, Any]) -> None:
    krq.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(change))


def _three_others(krq, before: dict[str, str]) -> bool:
    """Whether there are three pods, all ready, and none of those before."""
    found = krq.list("pods")
    recreated = not {p["metadata"]["uid"] for p in found} & set(before.values())
    return recreated and len(found) == 3 and all(_is_ready(p) for p in found)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _settled(krq, what: str, holds: Callable[[], bool]) -> None:
    krq.until(what, holds)
    krq.ready(3)


@pytest.mark.rule("S18", "S22", "S25")
@pytest.mark.nightly
def test_what_is_deleted_or_changed_by_hand_comes_back_and_costs_no_voter(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, deletion={"claims": "Delete"})
    krq.ready(3)
    writing.start()
    voters, pods, claims = krq.voters(), _uids(krq, "pods"), _uids(krq, "pvc")
    cluster_id = krq.status()["clusterId"]

    # The StatefulSet without its pods, the latch, Services, the budget, a label, the finalizer.
    sets, latch = _uids(krq, "sts"), krq.latches()[0]["metadata"]
    krq.kubectl("delete", "statefulset", "demo", "--cascade=orphan")
    krq.kubectl("delete", "configmap", latch["name"])
    krq.kubectl("delete", "service", "demo", "demo-peers")
    krq.kubectl("delete", "pdb", "demo")
    krq.kubectl("label", "pvc", "--all", "kraftquorum.io/owner-uid-")
    _patch(krq, "krq", "demo", {"metadata": {"finalizers": []}})
    _settled(
        krq,
        "everything there again",
        lambda: (
            _uids(krq, "sts").get("demo", sets["demo"]) != sets["demo"]
            and [c["metadata"]["uid"] for c in krq.latches()] not in ([], [latch["uid"]])
            and set(_services(krq)) == {"demo", "demo-peers"}
            and "demo" in _uids(krq, "pdb")
            and krq.counted() == set(pods)
            and all("owner-uid" in str(c["metadata"].get("labels")) for c in krq.list("pvc"))
            and krq.get()["metadata"].get("finalizers") == [FINALIZER]
        ),
    )
    assert (_uids(krq, "pods"), _uids(krq, "pvc"), krq.voters()) == (pods, claims, voters)
    assert krq.latches()[0]["data"]["origin"] == "adopted"
    assert krq.latches()[0]["data"]["clusterId"] == cluster_id

    # What holds the pods, changed beneath the operator.
    _patch(krq, "sts", "demo", {"metadata": {"labels": {"kraftquorum.io/owner-uid": None}}})
    _patch(krq, "service", "demo-peers", {"spec": {"publishNotReadyAddresses": False}})
    _patch(krq, "service", "demo", {"spec": {"selector": {"app": "other"}}})
    _settled(
        krq,
        "put back",
        lambda: (
            "kraftquorum.io/owner-uid" in krq.get("sts")["metadata"]["labels"]
            and _services(krq)["demo-peers"]["spec"].get("publishNotReadyAddresses") is True
            and "app" not in _services(krq)["demo"]["spec"]["selector"]
        ),
    )
    assert (_uids(krq, "pods"), krq.voters()) == (pods, voters)
    _patch(krq, "sts", "demo", {"spec": {"ordinals": {"start": 1}}})
    _settled(krq, "ordinals from 0", lambda: "ordinals" not in krq.get("sts")["spec"])
    krq.kubectl("scale", "sts", "demo", "--replicas=1")
    _settled(krq, "three replicas", lambda: krq.get("sts")["spec"]["replicas"] == 3)

    # All pods at once: by force, then with their StatefulSet.
    krq.until("three pods that are ready", lambda: _three_others(krq, {}))
    before = _uids(krq, "pods")
    krq.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    _settled(krq, "other pods", lambda: _three_others(krq, before))
    before = _uids(krq, "pods")
    krq.kubectl("delete", "statefulset", "demo", "--wait=false")
    krq.until("other pods again", _waking(krq, lambda: _three_others(krq, before)))
    krq.ready(3)
    assert krq.voters() == voters
    assert _uids(krq, "pvc").items() >= claims.items(), "and one that ordinal 3 left behind"

    # The claim of a pod that runs, twice in a row.
    for _ in range(2):
        old = dict(krq.voters())[1]
        krq.kubectl("delete", "pvc", "data-demo-1", "--wait=false")
        krq.replaced(1, old)
    assert [one for one in krq.voters() if one[0] != 1] == [one for one in voters if one[0] != 1]
    writing.finish()


@pytest.mark.nightly
def test_deleting_the_statefulset_and_the_latch_is_never_reported_as_a_lost_quorum(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    writing.start()
    voters, before = krq.voters(), _uids(krq, "pods")
    mine = "--selector=app.kubernetes.io/instance=demo"
    for _ in range(3):
        reported: set[tuple[str, str]] = set()
        krq.kubectl("delete", "statefulsets,configmaps", mine, "--wait=false")

        def is_restored(
            before: dict[str, str] = before, reported: set[tuple[str, str]] = reported
        ) -> bool:
            status = krq.status()
            lost = next((c for c in status["conditions"] if c["type"] == "QuorumLost"), {})
            reported.add((status["phase"], lost.get("status", "False")))
            return _three_others(krq, before) and bool(krq.latches()) and krq.is_ready(3)

        krq.until("StatefulSet, latch and pods again", _waking(krq, is_restored))
        before = _uids(krq, "pods")
        assert {lost for _, lost in reported} == {"False"}, reported
        assert "QuorumLost" not in {phase for phase, _ in reported}
    assert krq.voters() == voters
    writing.finish()


def test_a_service_of_another_owner_under_our_name_is_left_alone_and_reported(
    krq, operators
) -> None:
    web = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    krq.kubectl("create", "-f", "-", stdin=json.dumps(web))
    before = _services(krq)["demo"]
    operators.start()
    krq.apply(voters=3)
    krq.until("formed", lambda: len(krq.voters()) == 3)
    status = krq.until_status("told", lambda now: now.get("waitingFor") == "objects_written")
    assert "Service/demo: it exists already" in status["message"]
    assert krq.condition("Ready")["status"] == "False"
    krq.available()
    krq.until("warned", lambda: "ObjectsWritten" in {e["reason"] for e in krq.list("events")})
    assert _services(krq)["demo"] == before
    krq.kubectl("delete", "service", "demo")
    krq.ready(3)
    assert _services(krq)["demo"]["spec"]["selector"]["app.kubernetes.io/instance"] == "demo"


@pytest.mark.rule("S22")
def test_a_template_that_is_edited_by_hand_is_put_back_and_rolls_no_pod(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3, resources={"limits": {"cpu": "0.5", "memory": "1024Mi"}})
    krq.ready(3)
    pods, template = _uids(krq, "pods"), krq.get("sts")["spec"]["template"]
    node = {"name": "raftnode", "livenessProbe": None, "env": [{"name": "X", "value": "1"}]}
    for change in (
        {"spec": {"containers": [node | {"image": "other:1"}]}},
        {"spec": {"nodeSelector": {"disk": "ssd"}}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        edited = json.dumps({"spec": {"template": change}})
        krq.kubectl("patch", "sts", "demo", "--type=strategic", "-p", edited)
        krq.until("put back", lambda: krq.get("sts")["spec"]["template"] == template)
    krq.ready(3)
    assert _uids(krq, "pods") == pods
    done = [action for action in operators.actions() if action.startswith("ApplyObjects")]
    assert len([action for action in done if "StatefulSet/demo" in action]) == 4, done
    # A restart that a person asks for is rolled, as it is meant.
    krq.kubectl("rollout", "restart", "sts", "demo")
    krq.until("rolled", lambda: not set(_uids(krq, "pods").values()) & set(pods.values()))
    krq.ready(3)
