"""The NetworkPolicy of a quorum: what reaches its nodes, and what its nodes reach.

Kubernetes adds up the policies that select a pod. So a person admits further clients by a policy of
their own, and this one never takes away what another policy allows.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftquorum_operator import names
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.network_policy import Peer, QuorumNetworkPolicy
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.metadata import metadata, selector
from kraftquorum_operator.resources.metrics_listener import is_separate

DNS_PORTS = (53, 5353)
"""OpenShift's DNS pods listen on the second. The network checks the port of the pod, not that of
the Service."""


def has_network_policy(policy: QuorumNetworkPolicy, defaults: str | None) -> bool:
    """Whether the operator makes the policy.

    Args:
        policy: as the resource has it.
        defaults: the mark of the operator's defaults that hold for the quorum. A quorum of an
            earlier operator keeps its clients: it has no policy unless the resource names one.
    """
    if policy.enabled is not None:
        return policy.enabled
    listed = bool(policy.clients_from or policy.metrics_from)
    return listed or defaults in names.DEFAULTS_WITH_POLICY


def network_policy(owner: Owner, spec: QuorumSpec, installation: Installation) -> Body:
    """Admit the nodes to each other, the operator, the clients and the readers of metrics.

    Args:
        owner: the resource.
        spec: the wanted state.
        installation: where the operator runs, and what may read the metrics of all nodes.
    """
    nodes: Body = {"podSelector": {"matchLabels": selector(owner)}}
    peer_and_api = [_tcp(names.PEER_PORT), _tcp(names.API_PORT)]
    clients = spec.network_policy.clients_from
    readers = (*spec.network_policy.metrics_from, *installation.metrics_from)
    separate = is_separate(spec)
    admitted = [*_operator(installation), *_peers(clients if separate else (*clients, *readers))]
    ingress: list[Body] = [{"from": [nodes], "ports": peer_and_api}]
    if admitted:
        # An entry without `from` would admit all.
        ingress.append({"from": admitted, "ports": [_tcp(names.API_PORT)]})
    if separate and readers:
        ingress.append({"from": _peers(readers), "ports": [_tcp(names.METRICS_PORT)]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, owner.name),
        "spec": {
            "podSelector": {"matchLabels": selector(owner)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": [
                {
                    "ports": [
                        {"port": port, "protocol": protocol}
                        for port in DNS_PORTS
                        for protocol in ("UDP", "TCP")
                    ]
                },
                {"to": [nodes], "ports": peer_and_api},
            ],
        },
    }


def _tcp(port: int) -> Body:
    return {"port": port, "protocol": "TCP"}


def _operator(installation: Installation) -> list[Body]:
    if installation.namespace is None:
        return []
    return [
        {
            "namespaceSelector": {"matchLabels": {names.LABEL_NAMESPACE: installation.namespace}},
            "podSelector": {"matchLabels": {names.LABEL_APP: names.OPERATOR_APP}},
        }
    ]


def _peers(peers: Iterable[Peer]) -> list[Body]:
    """Each peer once, in order, as Kubernetes writes it."""
    bodies: list[Body] = []
    for peer in peers:
        body: Body = peer.model_dump(by_alias=True, exclude_none=True, mode="json")
        if body not in bodies:
            bodies.append(body)
    return bodies
