"""Pods and containers that end."""

import pytest

ROLES = pytest.mark.parametrize(
    "role", [pytest.param("follower", marks=pytest.mark.nightly), "leader"]
)


@ROLES
def test_pod_deleted(case, role):
    """A pod deleted"""
    quorum = case.formed(3)
    voters, pod = quorum.voters(), quorum.pod(quorum.one(role))
    before = quorum.uids("pods")[pod]
    with case.timed(quorum):
        quorum.kubectl("delete", "pod", pod, "--wait=false")
        quorum.until_recreated(pod, before)
    assert quorum.voters() == voters, "a pod comes back with its disk"
    if role == "leader":
        case.figures.measures["switchover_s"] = case.figures.stall_s


@ROLES
def test_container_killed(case, role):
    """A container killed by SIGKILL"""
    quorum = case.formed(3)
    voters, pod = quorum.voters(), quorum.pod(quorum.one(role))
    epoch, uids, restarts = quorum.epoch(), quorum.uids("pods"), quorum.restarts(pod)
    with case.timed(quorum):
        case.e2e_cluster.kill(quorum.namespace, pod)
        quorum.until_restarted(pod, restarts)
    assert quorum.voters() == voters
    assert quorum.uids("pods") == uids, "the kubelet started it again"
    if role == "leader":
        quorum.until("another epoch told", lambda: quorum.epoch() > epoch)
        case.figures.measures["failover_s"] = case.figures.stall_s
