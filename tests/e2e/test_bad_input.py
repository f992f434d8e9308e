"""Specs that cannot be fulfilled: reported by name, nothing half done, fixed by the next spec."""

import json
import time


def blocked(quorum, *words):
    """Whether the condition and an event name all the words."""
    found = quorum.condition("PodsBlocked")
    if found.get("status") != "True":
        return False
    text = f"{found['reason']} {found['message']}"
    warned = any(
        event["type"] == "Warning" and words[0] in event["message"]
        for event in quorum.events(found["reason"])
    )
    return warned and all(word in text for word in words)


def test_image_that_is_nowhere(case):
    """An image that cannot be pulled, then the right one again"""
    quorum = case.formed(3)
    voters, uids = quorum.voters(), quorum.uids("pods")
    with case.timed(quorum):
        quorum.patch(image="registry.invalid/kraftquorum/node:nowhere")
        quorum.until("told", lambda: blocked(quorum, "registry.invalid", "Image"))
        quorum.until_true("Available")
        now = quorum.uids("pods")
        assert len(now.items() & uids.items()) == 2, "it stops at the first pod"
        quorum.patch(image=case.e2e_cluster.tags.image("node", case.e2e_cluster.tags.now))
        quorum.until_ready(3)
    assert quorum.voters() == voters


def test_quota(case):
    """A quota that forbids the fourth pod, then a larger one"""
    quorum = case.formed(3)
    voters = quorum.voters()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "three"},
        "spec": {"hard": {"pods": "3"}},
    }
    quorum.kubectl("apply", "-f", "-", stdin=json.dumps(quota))
    with case.timed(quorum):
        quorum.kubectl("scale", "krq", quorum.name, "--replicas=5")
        quorum.until("told", lambda: blocked(quorum, "demo-3", "exceeded quota: three"))
        assert quorum.voters() == voters
        quorum.until_true("Available")
        quorum.kubectl("delete", "resourcequota", "three")
        quorum.until_ready(5)
    case.figures.until = "five voters"


def test_storage_class_that_is_nowhere(case):
    """A storage class that does not exist; then the resource is created again"""
    quorum = case.quorum()
    quorum.apply(voters=3, storage={"className": "nowhere"})
    quorum.until("told", lambda: blocked(quorum, "data-demo-0", "nowhere"))
    assert quorum.status()["phase"] == "Forming"
    assert "clusterId" not in quorum.status()
    began = time.monotonic()
    quorum.remove()
    quorum.kubectl("delete", "pvc", "--all", "--timeout=60s")
    quorum.apply(voters=3)
    quorum.until_ready(3)
    case.figures.seconds = round(time.monotonic() - began, 1)
    case.figures.until = "three voters, caught up"
    writing = case.writing(quorum)
    writing.finish()
