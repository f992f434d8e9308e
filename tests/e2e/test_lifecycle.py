"""A quorum comes, grows and shrinks, alone or beside another."""

import json
import ssl
import time
import urllib.request

from kraftquorum_operator import names


def test_formation(case):
    """Formation, from `kubectl apply`, with clients that write already"""
    quorum = case.quorum()
    quorum.apply(voters=3)
    began = time.monotonic()
    writing = case.writing(quorum)
    case.figures.measures["first_write_s"] = round(time.monotonic() - began, 1)
    quorum.until_ready(3)
    case.figures.seconds = round(time.monotonic() - began, 1)
    case.figures.until = "three voters, caught up"
    assert sorted(quorum.voters()) == [0, 1, 2]
    writing.finish()


def test_port_forward(case):
    """`kubectl port-forward` to each node, as a person at a laptop uses it"""
    quorum = case.formed(3)
    trusted = ssl.create_default_context(cafile=case.follow(quorum))
    with case.timed(quorum) as seconds:
        for pod in sorted(quorum.uids("pods")):
            forward = case.e2e_cluster.forward(quorum.namespace, pod, names.API_PORT)
            try:
                url = f"https://localhost:{forward.port()}/v1/node"
                with urllib.request.urlopen(url, timeout=30, context=trusted) as answer:
                    node = json.loads(answer.read())
            finally:
                forward.stop()
            assert f"{quorum.name}-{node['node_id']}" == pod
        case.figures.measures["three_nodes_s"] = round(seconds(), 1)
    case.figures.until = "each of the three nodes has answered"


def test_scale(case):
    """Scaled from 3 voters to 5 and back to 3"""
    quorum = case.formed(3)
    before = quorum.voters()
    with case.timed(quorum) as seconds:
        quorum.kubectl("scale", "krq", quorum.name, "--replicas=5")
        quorum.until_ready(5)
        case.figures.measures["scale_up_s"] = round(seconds(), 1)
        assert sorted(quorum.voters()) == [0, 1, 2, 3, 4]
        quorum.kubectl("scale", "krq", quorum.name, "--replicas=3")
        quorum.until_ready(3)
    case.figures.until = "three voters again"
    assert quorum.voters() == before
    assert sorted(quorum.uids("pods")) == ["demo-0", "demo-1", "demo-2"]
    assert len(quorum.uids("persistentvolumeclaims")) == 5, "claims are kept"


def test_two_quorums(case):
    """Two quorums of one name in two namespaces; each loses a disk at the same moment"""
    quorums = [case.quorum(), case.quorum()]
    quorums[0].apply(voters=3)
    quorums[1].apply(voters=3, tls={"mode": "Disabled"})
    for quorum in quorums:
        quorum.until_ready(3)
    ids = {quorum.status()["clusterId"] for quorum in quorums}
    assert len(ids) == 2
    writings = [case.writing(quorum) for quorum in quorums]
    before = [quorum.voters() for quorum in quorums]
    broken = [quorum.follower() for quorum in quorums]
    began = time.monotonic()
    for quorum, node_id in zip(quorums, broken, strict=True):
        pod = quorum.pod(node_id)
        case.e2e_cluster.wipe(quorum.namespace, pod, quorum.claim(pod))
    for quorum, node_id, voters in zip(quorums, broken, before, strict=True):
        quorum.until_replaced(node_id, voters[node_id])
    case.figures.seconds = round(time.monotonic() - began, 1)
    case.figures.until = "full redundancy of both"
    for writing in writings:
        writing.finish()
    assert {quorum.status()["clusterId"] for quorum in quorums} == ids
    uuids = [set(quorum.voters().values()) for quorum in quorums]
    assert not uuids[0] & uuids[1]
