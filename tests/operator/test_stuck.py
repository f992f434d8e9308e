"""Formation under bad luck, and a scale-up that is stuck, with the real node."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def _latch(krq) -> list[dict]:
    return [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]


@pytest.mark.rule("S19")
@pytest.mark.parametrize("latched", [False, True], ids=["before the latch", "after the latch"])
def test_a_disk_lost_during_formation_does_not_hang_it(krq, operators, latched: bool) -> None:
    """S19: a blank node with another UUID never joins the formation that was latched."""
    # ApplyObjects, CreateStatefulSet, CreateLatch, SendLatch: it dies before the third or fourth.
    first = operators.start(exit_before_action=4 if latched else 3)
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.until("the operator died", lambda: first.poll() is not None)
    assert len(_latch(krq)) == (1 if latched else 0)
    krq.wipe(2)
    operators.start()
    krq.ready(3)
    listed = {
        (voter["nodeId"], voter["directoryId"])
        for voter in json.loads(_latch(krq)[0]["data"]["voters"])
    }
    assert len(_latch(krq)) == 1
    now = set(krq.voters())
    assert {voter for voter in now if voter[0] < 2} <= listed
    if latched:
        assert {voter for voter in now if voter[0] == 2}.isdisjoint(listed)


@pytest.mark.rule("S24")
def test_a_scale_up_without_a_volume_does_not_delay_the_replacement_of_a_disk(
    krq, operators
) -> None:
    """S24: the fourth pod cannot start; the lost disk of another is replaced meanwhile."""
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    stuck = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-demo-3",
            "labels": {"kraftquorum.io/owner-uid": krq.get()["metadata"]["uid"]},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "there-is-no-such-class",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(stuck))
    krq.kubectl("scale", "krq", "demo", "--replicas=4")
    krq.until("stuck", lambda: krq.status().get("waitingFor") == "node_answers")
    old = dict(krq.voters())[1]
    krq.wipe(1)
    krq.until("replaced", lambda: dict(krq.voters()).get(1, old) != old)
    krq.until("three voters", lambda: len(krq.voters()) == 3 and krq.status()["readyVoters"] == 3)
    # The scale-up is given up, and nothing of it is left but the claim; not even when the pod,
    # which says nothing, is put into the disruption budget by hand.
    by_name = {
        "key": "statefulset.kubernetes.io/pod-name",
        "operator": "In",
        "values": [f"demo-{ordinal}" for ordinal in range(4)],
    }
    change = {"spec": {"selector": krq.get("pdb")["spec"]["selector"]}}
    change["spec"]["selector"]["matchExpressions"] = [by_name]
    krq.kubectl("patch", "pdb", "demo", "--type=merge", "-p", json.dumps(change))
    krq.until("not counted", lambda: "demo-3" not in krq.counted())
    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    krq.ready(3)
    assert {p["metadata"]["name"] for p in krq.list("pods")} == {"demo-0", "demo-1", "demo-2"}


def test_a_voter_without_a_node_is_told_and_waited_for_with_its_disk(krq, operators) -> None:
    """However long: the claim is there, so the storage is not lost."""
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    voters, done = krq.voters(), len(operators.actions())
    claims = {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pvc")}
    krq.cluster.kubectl("cordon", "devcluster")
    try:
        krq.kubectl("delete", "pod", "demo-1", "--wait=false")
        krq.until("told", lambda: krq.condition("PodsBlocked").get("reason") == "Unschedulable")
        assert "pod demo-1" in krq.condition("PodsBlocked")["message"]
        assert "unschedulable" in krq.condition("PodsBlocked")["message"]
        krq.until_status("it waits", lambda now: now.get("waitingFor") == "node_answers")
        krq.available()
        krq.until("an event", lambda: _warned(krq, "Unschedulable", "demo-1"))
    finally:
        krq.cluster.kubectl("uncordon", "devcluster")
    krq.ready(3)
    assert krq.voters() == voters
    assert claims == {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pvc")}
    kinds = {action.split()[0] for action in operators.actions()[done:]}
    assert kinds <= {"RecountBudget"}, "the budget counts the pod that came back by its name"

    # The wrong order: the pod first, so that its successor holds a claim that is going.
    old, uid = dict(krq.voters())[1], krq.get("pod", "demo-1")["metadata"]["uid"]
    krq.kubectl("delete", "pod", "demo-1", "--wait=false")
    krq.until("its successor", lambda: _runs_again(krq, "demo-1", uid))
    krq.kubectl("delete", "pvc", "data-demo-1", "--wait=false")
    krq.replaced(1, old)
    now = {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pvc")}
    assert now.pop("data-demo-1") != claims.pop("data-demo-1")
    assert now == claims


def _warned(krq, reason: str, word: str) -> bool:
    found = [e for e in krq.list("events") if e["reason"] == reason and e["type"] == "Warning"]
    return any(word in event["message"] for event in found)


def _runs_again(krq, name: str, before: str) -> bool:
    pods = {p["metadata"]["name"]: p["metadata"] for p in krq.list("pods")}
    return name in pods and pods[name]["uid"] != before and "deletionTimestamp" not in pods[name]
