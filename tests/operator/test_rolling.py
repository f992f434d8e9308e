"""New templates under a writing client: there and back, stuck half-way, with a lost disk."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

GRACE = {"gracePeriodSeconds": 2}
CALM = {"fetchTimeoutMs": 9000}
"""No election but by a leadership transfer, however slow the machine: the steps are compared."""
CALM_GRACE = {"gracePeriodSeconds": 9}
"""No replica counts as silent before that timeout is over."""


def pods(krq) -> dict[str, str]:
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pods")}


def is_rolled(krq, before: dict[str, str]) -> bool:
    now = pods(krq)
    recreated = not set(now.values()) & set(before.values())
    return len(now) == len(before) and recreated and krq.is_ready(len(before))


def rolled_pods(operators) -> list[str]:
    """The pods that were ended for their template, and MoveLeadership, in order."""
    return [
        action.split()[1].rstrip(":") if action.startswith("EvictPod") else "MoveLeadership"
        for action in operators.actions()
        if "its template is outdated" in action or action.startswith("MoveLeadership")
    ]


@pytest.mark.nightly
def test_a_new_image_and_a_new_setting_roll_there_and_back_under_a_writing_client(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, image="kraftquorum/raftnode:1", nodeSettings=CALM, replacement=CALM_GRACE)
    krq.ready(3)
    voters = krq.voters()
    writing.start()
    for change in (
        {"image": "kraftquorum/raftnode:2", "nodeSettings": CALM},
        {"image": "kraftquorum/raftnode:2", "nodeSettings": {"fetchTimeoutMs": 8000}},
        {"image": "kraftquorum/raftnode:1", "nodeSettings": CALM},
    ):
        before, leader = pods(krq), krq.leader()
        done = len(rolled_pods(operators))
        krq.apply(voters=3, replacement=CALM_GRACE, **change)
        seconds = krq.until("rolled", lambda before=before: is_rolled(krq, before))
        steps = rolled_pods(operators)[done:]
        sys.stdout.write(f"rolled to {change} in {seconds:.1f} s: {steps}\n")
        assert sorted(steps) == ["MoveLeadership", *sorted(before)]
        assert steps[-2:] == ["MoveLeadership", f"demo-{leader}"], "the leader last, moved before"
        containers = [p["spec"]["containers"][0] for p in krq.list("pods")]
        assert {c["image"] for c in containers} == {change["image"]}
    assert krq.voters() == voters, "a restart changes no voter"
    writing.finish(bounded=True)


def test_a_bad_image_stops_the_roll_at_one_pod_and_a_fixed_one_goes_on_past_a_lost_disk(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, image="kraftquorum/raftnode:1", replacement=GRACE)
    krq.ready(3)
    writing.start()
    before = pods(krq)
    bad = "registry.invalid/raftnode:2"
    krq.apply(voters=3, image=bad, replacement=GRACE)
    krq.until("stuck", lambda: krq.condition("PodsBlocked").get("status") == "True")
    stuck = [name for name, uid in pods(krq).items() if before.get(name) != uid]
    assert len(stuck) == 1
    condition = krq.condition("PodsBlocked")
    assert condition["reason"] == "ImagePullBackOff"
    assert stuck[0] in condition["message"]
    assert bad in condition["message"]
    krq.available()

    def is_told() -> bool:
        ours = [e for e in krq.list("events") if e["involvedObject"]["kind"] == "KRaftQuorum"]
        return any(
            e["type"] == "Warning" and stuck[0] in e["message"] and bad in e["message"]
            for e in ours
        )

    krq.until("a warning event names pod and image", is_told)

    # Fixed. Where the roll is at its second pod, the disk of the first one goes.
    krq.apply(voters=3, image="kraftquorum/raftnode:3", replacement=GRACE)
    krq.until("two pods rolled", lambda: _rolled_to(krq, "kraftquorum/raftnode:3") == 2)
    lost = int(stuck[0].rpartition("-")[2])
    old = dict(krq.voters())[lost]
    krq.wipe(lost)
    krq.replaced(lost, old)
    krq.until("rolled", lambda: is_rolled(krq, before))
    assert krq.condition("PodsBlocked")["status"] == "False"
    assert _rolled_to(krq, "kraftquorum/raftnode:3") == 3
    writing.finish()  # two of three were away for a moment: the rolled one and the wiped one


def _rolled_to(krq, image: str) -> int:
    return sum(p["spec"]["containers"][0]["image"] == image for p in krq.list("pods"))
