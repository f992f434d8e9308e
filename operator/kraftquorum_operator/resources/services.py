"""The headless Service for names of pods, and the Service for clients."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.resources.metadata import metadata, selector

PORTS = [
    {"name": "peer", "port": names.PEER_PORT, "targetPort": "peer"},
    {"name": "api", "port": names.API_PORT, "targetPort": "api"},
]

IP_FAMILY_POLICY = "PreferDualStack"
"""Addresses of both families where the cluster has both: clients of either reach the nodes."""


def headless_service(owner: Owner) -> Body:
    """Give every pod a DNS name, ready or not: replicas find each other before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, names.headless_service(owner.name)),
        "spec": {
            "clusterIP": "None",
            "ipFamilyPolicy": IP_FAMILY_POLICY,
            "publishNotReadyAddresses": True,
            "selector": selector(owner),
            "ports": PORTS,
        },
    }


def client_service(owner: Owner) -> Body:
    """Reach any ready replica; the client follows it to the leader."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, names.client_service(owner.name)),
        "spec": {
            "ipFamilyPolicy": IP_FAMILY_POLICY,
            # The default, stated: an apply takes back only fields that it has.
            "publishNotReadyAddresses": False,
            "selector": selector(owner),
            "ports": [PORTS[1]],
        },
    }
