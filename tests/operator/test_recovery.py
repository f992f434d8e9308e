"""Lost disks and old claims, with the real node."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.mark.rule("P55", "S1", "S4", "S23")
def test_lost_disks_are_replaced_one_after_the_other(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)

    # The disk of a follower, then of the leader (S1), each wiped under the process (S4).
    leader = krq.leader()
    follower = (leader + 1) % 3
    for ordinal in (follower, leader):
        old = dict(krq.voters())[ordinal]
        krq.wipe(ordinal)
        krq.replaced(ordinal, old)

    # A claim that a person deletes under a well voter.
    old = dict(krq.voters())[2]
    uid = krq.get("pvc", "data-demo-2")["metadata"]["uid"]
    krq.kubectl("delete", "pvc", "data-demo-2", "--wait=false")
    krq.replaced(2, old)
    assert krq.get("pvc", "data-demo-2")["metadata"]["uid"] != uid

    # A log that is damaged: the node asks to be replaced, the operator deletes claim, then pod.
    ordinal = 1
    old = dict(krq.voters())[ordinal]
    uid = krq.get("pvc", "data-demo-1")["metadata"]["uid"]
    folder = krq.cluster.volume_dir(krq.namespace, "data-demo-1")
    identity = next(folder.rglob("meta.properties"))
    identity.unlink()
    krq.kubectl("delete", "pod", "demo-1", "--wait=false")
    krq.replaced(ordinal, old)
    assert krq.get("pvc", "data-demo-1")["metadata"]["uid"] != uid
    kinds = [action.split()[0] for action in operators.actions()]
    assert kinds.index("DeleteClaim") < len(kinds)
    assert krq.counted() == {"demo-0", "demo-1", "demo-2"}
    assert len(krq.voters()) == 3


@pytest.mark.rule("S18")
def test_old_claims_are_adopted_never_formed_over(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    cluster_id, voters = krq.status()["clusterId"], krq.voters()
    krq.delete()
    krq.until("pods gone", lambda: not krq.list("pods"))

    krq.apply(voters=3)
    krq.ready(3)
    assert krq.status()["clusterId"] == cluster_id
    assert krq.voters() == voters
    latches = [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]
    assert [latch["data"]["origin"] for latch in latches] == ["adopted"]


def test_old_claims_without_a_quorum_wait_for_a_person(krq, operators) -> None:
    operators.start()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-demo-4",
            "labels": {
                "app.kubernetes.io/name": "kraftquorum",
                "app.kubernetes.io/instance": "demo",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(claim))
    krq.apply(voters=1)
    status = krq.until_status(
        "waiting for a person", lambda now: now.get("waitingFor") == "no_earlier_claims"
    )
    assert "data-demo-4" in status["message"]
    assert krq.condition("FormationBlocked")["status"] == "True"
    assert not [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]


def test_a_claim_that_only_has_a_name_like_ours_makes_no_replica(krq, operators) -> None:
    def claim(name: str) -> str:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        return json.dumps(body | {"spec": spec})

    operators.start()
    krq.kubectl("apply", "-f", "-", stdin=claim("data-demo-57"))
    krq.kubectl("apply", "-f", "-", stdin=claim("data-demo-4"))
    krq.apply(voters=1)
    status = krq.until_status("told", lambda now: now.get("waitingFor") == "claims_are_ours")
    assert "data-demo-4" in status["message"]
    assert not krq.list("pods"), "no pod is put on it"
    krq.kubectl("delete", "pvc", "data-demo-4")
    krq.ready(1)
    assert krq.get("sts")["spec"]["replicas"] == 1


def test_more_wiped_disks_than_a_majority_survives_form_nothing_new(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    cluster_id = krq.status()["clusterId"]
    krq.wipe(0)
    krq.wipe(1)

    def is_told(status) -> bool:
        held = {node["nodeId"]: node for node in status.get("nodes", [])}
        return (
            status.get("waitingFor") == "never_rebootstrap"
            and held[0]["role"] == held[1]["role"] == "blank"
            and held[2].get("logEndOffset", 0) > 0
            and held[2].get("epoch", 0) >= 1
        )

    krq.until("quorum lost", lambda: krq.status().get("phase") == "QuorumLost")
    status = krq.until_status("what is left of it", is_told)
    assert "a person must decide" in status["message"]
    assert status["clusterId"] == cluster_id
    assert krq.condition("QuorumLost")["status"] == "True"
    joined = [a for a in operators.actions() if a.startswith(("JoinNode", "CreateLatch"))]
    assert len(joined) == 1, "nothing but the first latch"
