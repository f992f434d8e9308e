"""The operator and the API server go away in the middle of a replacement."""

import time

import pytest

GRACE_S = 30
"""The middle lasts that long: the default may be over before a slow node has started again."""


def formed(case):
    """A quorum, and in the table what makes its cases take longer than others."""
    case.figures.until = f"full redundancy, grace period {GRACE_S} s"
    return case.formed(3, replacement={"gracePeriodSeconds": GRACE_S})


@pytest.fixture
def replacing(case):
    """Wipes a follower's disk and returns when the operator has begun to replace it."""

    def begin(quorum):
        node_id = quorum.follower()
        old, pod = quorum.voters()[node_id], quorum.pod(node_id)
        case.e2e_cluster.wipe(quorum.namespace, pod, quorum.claim(pod))
        quorum.until("the new replica joins", lambda: quorum.events("JoinNode"))
        assert quorum.voters()[node_id] == old, "not replaced yet"
        return node_id, old

    return begin


def test_operator_killed(case, replacing):
    """The operator killed in the middle of a replacement"""
    quorum = formed(case)
    with case.timed(quorum):
        node_id, old = replacing(quorum)
        for pod in case.release.pods():
            case.e2e_cluster.kill(case.release.NAMESPACE, pod)
        quorum.until_replaced(node_id, old)
    assert len(quorum.voters()) == 3


def test_operator_upgraded(case, replacing):
    """The operator upgraded by Helm in the middle of a replacement"""
    quorum = formed(case)
    uids, before = quorum.uids("pods"), set(case.release.pods())
    with case.timed(quorum):
        node_id, old = replacing(quorum)
        case.release.install(case.e2e_cluster.tags.next)
        quorum.until_replaced(node_id, old)
    quorum.until("the old operator gone", lambda: not before & set(case.release.pods()))
    untouched = {pod: uid for pod, uid in uids.items() if pod != quorum.pod(node_id)}
    assert untouched.items() <= quorum.uids("pods").items(), "the nodes keep their image"
    began = time.monotonic()
    case.release.install()
    case.figures.measures["operator_upgrade_s"] = round(time.monotonic() - began, 1)


def test_api_server_restarted(case, replacing):
    """The API server killed in the middle of a replacement"""
    quorum = formed(case)
    with case.timed(quorum):
        node_id, old = replacing(quorum)
        case.e2e_cluster.restart_apiserver()
        quorum.until_replaced(node_id, old)
    assert len(quorum.voters()) == 3
