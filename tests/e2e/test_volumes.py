"""Volumes that fail in the kernel's own way: read-only after an error, full, or hung."""

import json
import time

import pytest

SIZE = "256Mi"
STALL_MAX_S = 10
"""How long clients may wait where the device of one node stops answering."""
HUNG_S = 20
"""How long it does: twice that, so that a longer stall would be seen."""


def formed(case):
    if case.e2e_cluster.small_disks is None:
        pytest.skip("needs volumes that can be broken: our own nodes have them")
    return case.formed(3, storage={"size": SIZE, "className": case.e2e_cluster.small_disks})


def last_words(quorum, pod, code):
    """Message of the pod's container when it ended last, if that was with this exit code."""
    body = quorum.e2e_cluster.api.one("pods", pod, quorum.namespace)
    for status in (body or {}).get("status", {}).get("containerStatuses", []):
        for state in (status["state"], status.get("lastState", {})):
            if "terminated" in state:
                end = state["terminated"]
                return end.get("message", "") if end["exitCode"] == code else ""
    return ""


def ended(quorum, pod, code, reason):
    """Wait until the pod's node ended so, and the resource tells it."""
    said = json.loads(quorum.found("the node ends", lambda: last_words(quorum, pod, code)))
    assert said["reason"] == reason, said
    quorum.until("told", lambda: tells(quorum, pod, reason))
    quorum.until_true("Degraded")
    quorum.until_true("Available")


def tells(quorum, *words):
    """Whether the status names all the words."""
    message = quorum.status().get("message", "")
    return all(word in message for word in words)


@pytest.mark.nightly
def test_volume_read_only(case):
    """A volume that refuses writes after an error of its file system, of the leader"""
    quorum = formed(case)
    voters, node_id = quorum.voters(), quorum.leader()
    pod = quorum.pod(node_id)
    with case.timed(quorum) as seconds:
        case.e2e_cluster.break_volume(quorum.namespace, quorum.claim(pod), "read-only")
        ended(quorum, pod, 10, "STORAGE_FAILED")
        case.figures.measures["told_s"] = round(seconds(), 1)
        quorum.until("an event", lambda: quorum.events("CrashLoopBackOff"))
        quorum.until_replaced(node_id, voters[node_id])
    case.figures.until = "full redundancy, on another volume"


def test_volume_full(case):
    """A volume that is full, of the leader; then space is freed"""
    quorum = formed(case)
    voters, node_id = quorum.voters(), quorum.leader()
    pod = quorum.pod(node_id)
    claims = quorum.uids("persistentvolumeclaims")
    with case.timed(quorum) as seconds:
        case.e2e_cluster.break_volume(quorum.namespace, quorum.claim(pod), "full")
        ended(quorum, pod, 16, "STORAGE_FULL")
        case.figures.measures["told_s"] = round(seconds(), 1)
        quorum.until("an event", lambda: quorum.events("CrashLoopBackOff"))
        case.e2e_cluster.fix_volume(quorum.namespace, quorum.claim(pod))
        quorum.until_ready(3)
    assert quorum.voters() == voters, "a full disk is not replaced by one of the same size"
    assert quorum.uids("persistentvolumeclaims") == claims


@pytest.mark.parametrize("role", [pytest.param("follower", marks=pytest.mark.nightly), "leader"])
def test_volume_hangs(case, role):
    """A volume whose device stops answering, and then answers again"""
    quorum = formed(case)
    voters, node_id = quorum.voters(), quorum.one(role)
    claim = quorum.claim(quorum.pod(node_id))
    with case.timed(quorum) as seconds:
        case.e2e_cluster.break_volume(quorum.namespace, claim, "hung")
        try:
            quorum.until("another leader", lambda: quorum.leader() != node_id)
            quorum.until_true("Degraded")
            case.figures.measures[f"hang_told_{role}_s"] = round(seconds(), 1)
            time.sleep(max(0.0, HUNG_S - seconds()))
        finally:
            case.e2e_cluster.fix_volume(quorum.namespace, claim)
        quorum.until_ready(3)
    assert case.figures.stall_s < STALL_MAX_S
    assert quorum.voters() == voters, "a disk that answers again within the grace period is kept"
