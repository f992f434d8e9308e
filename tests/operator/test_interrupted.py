"""What goes wrong in the middle of something: more lost disks, a dead leader."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.mark.rule("S3")
def test_a_volume_put_back_from_a_copy_is_replaced_again(krq, operators) -> None:
    """S3: its claim was recreated, so what answers under the old UUID is a copy."""
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    ordinal = (krq.leader() + 1) % 3
    claim = f"data-demo-{ordinal}"
    recorded = {p["metadata"]["name"]: p["metadata"] for p in krq.list("pvc")}
    for name, meta in recorded.items():
        assert meta["annotations"]["kraftquorum.io/claim-uid"] == meta["uid"], name
    old = dict(krq.voters())[ordinal]
    folder = krq.cluster.volume_dir(krq.namespace, claim)
    copy = operators.logs / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.tmp"))

    # The claim goes while no operator looks, and its successor gets the old content.
    operators.stop(operators.processes[-1])
    krq.kubectl("delete", "pvc", claim, "--wait=false")
    krq.kubectl("delete", "pod", f"demo-{ordinal}", "--wait=false")

    def is_recreated() -> bool:
        found = {p["metadata"]["name"]: p["metadata"] for p in krq.list("pvc")}
        uid = found.get(claim, {}).get("uid")
        return uid not in {None, recorded[claim]["uid"]}

    krq.until("claim recreated", is_recreated)
    fresh = krq.get("pvc", claim)["metadata"]["uid"]
    krq.until("its new node has begun", lambda: krq.is_formatted(ordinal))
    krq.wipe(ordinal)
    krq.fill(ordinal, copy)
    krq.kubectl("delete", "pod", f"demo-{ordinal}", "--wait=false")
    operators.start()
    krq.replaced(ordinal, old)
    assert krq.get("pvc", claim)["metadata"]["uid"] not in {fresh, recorded[claim]["uid"]}
    assert [a for a in operators.actions() if "restored from a copy" in a]


def test_a_replacement_that_loses_its_own_disk_is_replaced_in_turn(krq, operators) -> None:
    """A third UUID: the second is lost before it is added, then one after it was added."""
    # ApplyObjects … : it ends before AddVoter, when the new replica has caught up.
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    operators.stop(operators.processes[-1])
    ordinal = (krq.leader() + 1) % 3
    first = dict(krq.voters())[ordinal]

    # JoinNode, EvictPod (probe), RecordClaims, AddVoter: it dies before the last.
    dying = operators.start(exit_before_action=5, lease_duration_s=1)
    krq.wipe(ordinal)
    krq.until("about to add", lambda: dying.poll() is not None)
    second = krq.directory_id(ordinal)
    assert second not in {None, first}
    krq.wipe(ordinal)
    operators.start(lease_duration_s=1)
    krq.replaced(ordinal, first)
    third = dict(krq.voters())[ordinal]
    assert third != second
    assert not [a for a in operators.actions() if a.startswith("AddVoter") and f"{second} in" in a]

    # (id, UUID) was added; its disk goes as soon as it is a voter.
    krq.wipe(ordinal)
    krq.replaced(ordinal, third)
    assert len(krq.voters()) == 3
    others = {voter for voter in krq.voters() if voter[0] != ordinal}
    assert len(others) == 2


@pytest.mark.rule("S7")
def test_a_leader_killed_in_the_middle_of_a_scale_down_delays_it_only(krq, operators) -> None:
    """S7, with the real node: from five voters to three."""
    operators.start()
    krq.apply(voters=5, replacement={"gracePeriodSeconds": 2})
    krq.ready(5)
    before = set(krq.voters())
    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    krq.until("the first is removed", lambda: len(krq.voters()) < 5)
    leader = krq.leader()
    os.kill(krq.cluster.pod_process(krq.namespace, f"demo-{leader}"), signal.SIGKILL)
    krq.ready(3)
    assert set(krq.voters()) == {voter for voter in before if voter[0] < 3}
    assert {p["metadata"]["name"] for p in krq.list("pods")} == {"demo-0", "demo-1", "demo-2"}
    removed = [a for a in operators.actions() if a.startswith("RemoveVoter") and "done" in a]
    assert len({a.split()[1] for a in removed}) == len(removed), "none is removed twice"
