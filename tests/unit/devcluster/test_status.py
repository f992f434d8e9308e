import pytest

from kraftquorum_devcluster.processnode.status import (
    ContainerState,
    Terminated,
    conditions,
    phase,
    pod_status,
)

ENDED = Terminated(1, "t0", "t1", "process://1", "why")


def container(**fields):
    return ContainerState("main", "image", **fields)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (container(), "Pending"),
        (container(running_since="t"), "Running"),
        (container(last=ENDED, restart_count=1), "Running"),
        (container(terminated=ENDED), "Failed"),
        (container(terminated=Terminated(0, "t0", "t1", "x")), "Succeeded"),
    ],
)
def test_phase(state, expected):
    assert phase([state]) == expected


def test_transition_time_changes_only_with_the_status():
    unready = conditions([container(running_since="t")], [], "t1")
    again = conditions([container(running_since="t")], unready, "t2")
    assert again == unready
    ready = conditions([container(running_since="t", ready=True)], again, "t3")
    changed = {c["type"] for c in ready if c["lastTransitionTime"] == "t3"}
    assert changed == {"Ready", "ContainersReady"}


def test_ended_container_shows_exit_code_and_message():
    body = container(last=Terminated(137, "t0", "t1", "process://1", "why")).as_json()
    ended = body["lastState"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (137, "why")
    assert "signal" not in ended, "the kubelet leaves it to the exit code"
    assert body["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_old_pod_addresses_are_replaced_not_merged():
    status = pod_status(
        [container()], pod_ip="127.77.1.1", host_ip="h", start_time="t", before=[], now="t"
    )
    assert status["podIPs"][0] == {"$patch": "replace"}
