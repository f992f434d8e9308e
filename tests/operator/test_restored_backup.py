"""The API server restored from an older backup, under a living quorum (S25)."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

GRACE = {"gracePeriodSeconds": 2}


def uids(krq, kind: str) -> dict[str, str]:
    return {body["metadata"]["name"]: body["metadata"]["uid"] for body in krq.list(kind)}


def destroyed(operators, since: int) -> list[str]:
    """What the operators destroyed after an action."""
    kinds = ("DeleteClaim", "DeletePod", "EvictPod", "RemoveVoter", "SetReplicas")
    return [action for action in operators.actions()[since:] if action.startswith(kinds)]


def test_a_backup_from_before_a_scale_up_takes_no_voter_its_pod_or_claim(
    krq, operators, writing
) -> None:
    """The StatefulSet, its claims and the status are those of three replicas, the voters five.

    Claims 3 and 4 exist in the backup: they were kept when the quorum shrank before.
    """
    operators.start()
    krq.apply(voters=5, replacement=GRACE)
    krq.ready(5)
    five = krq.voters()
    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    krq.ready(3)
    backup = operators.logs / "etcd"
    krq.cluster.back_up_etcd(backup)
    krq.ready(3)
    krq.kubectl("scale", "krq", "demo", "--replicas=5")
    krq.ready(5)
    assert krq.voters() == five
    claims = uids(krq, "pvc")
    writing.start(3)
    done = len(operators.actions())

    krq.cluster.restore_etcd(backup)
    assert krq.get("sts")["spec"]["replicas"] in {3, 5}
    krq.until("wanted again as it was", lambda: krq.get()["spec"]["voters"] == 3)
    # The resource says three, so the quorum shrinks: but each voter leaves before its pod does.
    # Its status is the backup's until the operator has looked.
    krq.until("a voter removed", lambda: "RemoveVoter" in " ".join(operators.actions()[done:]))
    krq.ready(3)
    acted = destroyed(operators, done)
    heights = [int(a.split()[2]) for a in acted if a.startswith("SetReplicas to ")]
    assert heights[0] == 5, "every voter gets its pod back first"
    lowered = acted.index(next(a for a in acted if a.startswith("SetReplicas") and " 4 " in a))
    assert any(a.startswith("RemoveVoter 4-") for a in acted[:lowered])
    assert not [a for a in acted if a.startswith("DeleteClaim")]
    assert krq.voters() == five[:3]
    assert uids(krq, "pvc") == claims
    account = writing.finish()
    assert account.unknown < account.acknowledged


@pytest.mark.nightly
def test_a_backup_from_before_a_replacement_costs_no_other_disk(krq, operators, writing) -> None:
    """The restored claim is the one whose volume was given up; the disk in use has no claim."""
    operators.start()
    krq.apply(voters=3, replacement=GRACE)
    krq.ready(3)
    cluster_id, first = krq.status()["clusterId"], dict(krq.voters())
    backup = operators.logs / "etcd"
    krq.cluster.back_up_etcd(backup)
    krq.ready(3)
    claims = uids(krq, "pvc")
    # A damaged volume: claim and pod are deleted, the new claim has another UID and volume.
    krq.kubectl("delete", "pvc", "data-demo-1", "--wait=false")
    krq.replaced(1, first[1])
    second, gone = dict(krq.voters()), krq.cluster.volume_dir(krq.namespace, "data-demo-1").parent
    gone /= f"pvc-{claims['data-demo-1']}"
    krq.until("its first volume is gone", lambda: not gone.exists())
    assert uids(krq, "pvc")["data-demo-1"] != claims["data-demo-1"]
    writing.start()

    krq.cluster.restore_etcd(backup)
    krq.until(
        "the old claim is back",
        lambda: uids(krq, "pvc").get("data-demo-1") == claims["data-demo-1"],
    )
    # Replica 1's process was that of another pod, so it ended, and its old volume is gone. That
    # may be a mount that hangs, so nothing is deleted until a person gives the claim up.
    krq.until(
        "told", lambda: "does not exist" in krq.condition("PodsBlocked").get("message", ""), 60
    )
    assert krq.condition("PodsBlocked")["reason"] == "FailedMount"
    krq.available()
    assert uids(krq, "pvc") == claims
    krq.kubectl("delete", "pvc", "data-demo-1", "--wait=false")
    krq.replaced(1, second[1])
    now = dict(krq.voters())
    assert (now[0], now[2]) == (first[0], first[2])
    assert {name: uid for name, uid in uids(krq, "pvc").items() if name != "data-demo-1"} == {
        name: uid for name, uid in claims.items() if name != "data-demo-1"
    }
    assert krq.status()["clusterId"] == cluster_id
    latches = [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]
    assert len(latches) == 1
    writing.finish()
