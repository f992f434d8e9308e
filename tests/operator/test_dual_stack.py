"""The Services ask for both address families, and get the one that a cluster has."""

from __future__ import annotations

import json

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.resources.services import client_service, headless_service

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


def _apply(cluster: DevCluster, body: Body) -> dict:
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    return json.loads(cluster.kubectl("-n", namespace, "get", "svc", name, "-o", "json"))["spec"]


@pytest.mark.parametrize("made", [client_service, headless_service])
def test_a_service_for_one_family_becomes_one_for_both(
    devcluster: DevCluster, namespace: str, made
) -> None:
    """The development cluster has IPv4 alone: it grants that, and keeps what was asked for."""
    body = made(Owner(namespace, "demo", "uid-1"))
    del body["metadata"]["ownerReferences"]
    older = body | {"spec": {k: v for k, v in body["spec"].items() if k != "ipFamilyPolicy"}}
    before = _apply(devcluster, older)
    assert before["ipFamilyPolicy"] == "SingleStack"
    after = _apply(devcluster, body)
    assert after["ipFamilyPolicy"] == "PreferDualStack"
    assert after["ipFamilies"] == ["IPv4"]
    assert after["clusterIP"] == before["clusterIP"], "clients keep their address"
