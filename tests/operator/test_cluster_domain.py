"""A cluster whose domain is not `cluster.local`: new quorums use it, and a living one keeps its own."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


def _advertised(krq) -> set[str]:
    """What the pods' addresses end with."""
    names = {
        entry["value"].partition(".svc.")[2]
        for pod in krq.list("pods")
        for entry in pod["spec"]["containers"][0]["env"]
        if entry["name"] == "RAFTNODE_PEER_ADVERTISED"
    }
    return {name.partition(":")[0] for name in names}


def test_a_changed_setting_rolls_no_living_quorum_and_loses_none_of_its_replicas(
    krq, operators
) -> None:
    operator = operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}
    operators.stop(operator)
    operators.start(cluster_domain="corp.example")
    krq.kubectl("scale", "krq", "demo", "--replicas=4")
    krq.ready(4)
    now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}
    assert pods.items() <= now.items()
    assert _advertised(krq) == {"cluster.local"}


def test_a_new_quorum_has_the_domain_of_the_setting(krq, operators) -> None:
    operators.start(cluster_domain="corp.example")
    krq.apply(voters=1)
    krq.until("a pod", lambda: krq.list("pods"))
    assert _advertised(krq) == {"corp.example"}
