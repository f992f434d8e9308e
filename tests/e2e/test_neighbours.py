"""Pods beside a quorum: what the network lets them reach."""

import time
from pathlib import Path

import pytest

from e2elib.neighbours import Neighbour, Target
from kraftquorum_devcluster import chart

EXAMPLE = Path(__file__).parents[2] / "examples" / "quorum.yaml"
API, PEER = 9080, 9093
METRICS, HEALTH, PAGE = 8080, 8081, 8082
SETTLED_S = 60.0


def addresses(case, namespace: str, prefix: str) -> list[str]:
    return [
        pod["status"]["podIP"]
        for pod in case.e2e_cluster.api.all("pods", namespace)
        if pod["metadata"]["name"].startswith(prefix)
    ]


def uid_of(case, namespace: str, name: str) -> str | None:
    body = case.e2e_cluster.api.one("pods", name, namespace)
    return None if body is None else body["metadata"]["uid"]


def reaches(pod: Neighbour, targets: set[Target], expected: set[Target]) -> bool:
    """Whether a pod reaches exactly these, as soon as the network follows the policies."""
    deadline = time.monotonic() + SETTLED_S
    while pod.reached(targets) != expected:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def require_closed(case, quorum, pod: Neighbour, targets: set[Target]) -> None:
    """Fail if a pod reaches any of these in spite of the quorum's policy.

    Raises:
        NotHereError: It does, and the network of this cluster may ignore policies.
    """
    if reaches(pod, targets, set()):
        return
    policies = quorum.kubectl("get", "networkpolicy", "-o", "name")
    assert "networkpolicy.networking.k8s.io/demo" in policies
    case.e2e_cluster.require_policies()
    pytest.fail(f"{pod.name} reaches the quorum's ports in spite of its policy")


def test_neighbour_pod(case):
    """A neighbour pod reaches no port of the default example, and a listed client the API alone"""
    quorum = case.quorum()
    quorum.kubectl("apply", "-f", str(EXAMPLE))
    quorum.until_ready(3)
    elsewhere = case.quorum().namespace
    neighbour = Neighbour(case.e2e_cluster, quorum.namespace, "neighbour", app="web")
    stranger = Neighbour(case.e2e_cluster, elsewhere, "stranger", app="shop")
    hosts = [*addresses(case, quorum.namespace, "demo-"), f"demo.{quorum.namespace}.svc"]
    api = {(host, API) for host in hosts}
    peer = {(host, PEER) for host in hosts[:-1]}
    everything = api | peer

    # As it was applied: none of it.
    require_closed(case, quorum, neighbour, everything)

    # The question can be answered with yes: without a policy all is open.
    quorum.patch(networkPolicy={"enabled": False})
    assert reaches(neighbour, everything, everything)
    quorum.patch(networkPolicy={"enabled": None})
    require_closed(case, quorum, neighbour, everything)

    # The default: none of it, from no namespace; and the quorum itself is well.
    began = time.monotonic()
    assert reaches(neighbour, everything, set())
    assert reaches(stranger, everything, set())
    old = uid_of(case, quorum.namespace, "demo-0")
    quorum.kubectl("delete", "pod", "demo-0", "--wait=false")
    while uid_of(case, quorum.namespace, "demo-0") in {old, None}:
        assert time.monotonic() < began + 2 * SETTLED_S, "demo-0 was not made again"
        time.sleep(0.2)
    quorum.until_ready(3)
    hosts = [*addresses(case, quorum.namespace, "demo-"), f"demo.{quorum.namespace}.svc"]
    api, peer = {(host, API) for host in hosts}, {(host, PEER) for host in hosts[:-1]}
    assert reaches(neighbour, api | peer, set())

    # A listed client reaches the API, and the peers' port stays closed.
    client = Neighbour(case.e2e_cluster, quorum.namespace, "client", app="shop")
    quorum.patch(networkPolicy={"clientsFrom": [{"podSelector": {"matchLabels": {"app": "shop"}}}]})
    assert reaches(client, api | peer, api)
    assert reaches(neighbour, api | peer, set())
    assert reaches(stranger, api | peer, set())
    case.figures.seconds = round(time.monotonic() - began, 1)

    # Of the operator it reaches the metrics, which ask for a token.
    (operator, *_) = addresses(case, chart.NAMESPACE, chart.RELEASE)
    ports = {(operator, port) for port in (METRICS, HEALTH, PAGE)}
    assert reaches(neighbour, ports, {(operator, METRICS)})
