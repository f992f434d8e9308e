"""The operator and the API server go away in the middle of a replacement."""

import time

import pytest


@pytest.fixture
def replacing(case):
    """Wipes a follower's disk and returns when the operator has begun to replace it."""

    def begin(quorum):
        node_id = quorum.follower()
        old, pod = quorum.voters()[node_id], quorum.pod(node_id)
        case.ground.wipe(quorum.namespace, pod, quorum.claim(pod))
        quorum.until("the new replica joins", lambda: quorum.events("JoinNode"))
        assert quorum.voters()[node_id] == old, "not replaced yet"
        return node_id, old

    return begin


def test_operator_killed(case, replacing):
    """The operator killed in the middle of a replacement"""
    quorum = case.formed(3)
    with case.timed(quorum):
        node_id, old = replacing(quorum)
        for pod in case.release.pods():
            case.ground.kill(case.release.NAMESPACE, pod)
        quorum.until_replaced(node_id, old)
    assert len(quorum.voters()) == 3


def test_operator_upgraded(case, replacing):
    """The operator upgraded by Helm in the middle of a replacement"""
    quorum = case.formed(3)
    uids, before = quorum.uids("pods"), set(case.release.pods())
    with case.timed(quorum):
        node_id, old = replacing(quorum)
        case.release.install(case.ground.tags.next)
        quorum.until_replaced(node_id, old)
    assert not before & set(case.release.pods())
    untouched = {pod: uid for pod, uid in uids.items() if pod != quorum.pod(node_id)}
    assert untouched.items() <= quorum.uids("pods").items(), "the nodes keep their image"
    began = time.monotonic()
    case.release.install()
    case.figures.measures["operator_upgrade_s"] = round(time.monotonic() - began, 1)


def test_api_server_restarted(case, replacing):
    """The API server killed in the middle of a replacement"""
    quorum = case.formed(3)
    with case.timed(quorum):
        node_id, old = replacing(quorum)
        case.ground.restart_apiserver()
        quorum.until_replaced(node_id, old)
    assert len(quorum.voters()) == 3
