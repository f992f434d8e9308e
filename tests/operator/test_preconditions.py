"""What a real API server makes of the UIDs and versions that the operator's client sends (S21)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import ConflictError

pytestmark = [pytest.mark.cluster, pytest.mark.rule("S21")]

KUBE = "kraftquorum_operator.clients.kube:KubeClient"
CLAIM, POD = "PersistentVolumeClaim", "Pod"
SPECS: dict[str, dict[str, Any]] = {
    CLAIM: {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
    POD: {
        # No node has it, so that nothing but the test changes the pod.
        "nodeName": "nowhere",
        "containers": [{"name": "main", "image": "none"}],
    },
}


@pytest.fixture
async def kube(devcluster: DevCluster) -> AsyncIterator[KubeClient]:
    client = await KubeClient.connect(str(devcluster.kubeconfig), 60)
    yield client
    await client.close()


def recreated(cluster: DevCluster, namespace: str, kind: str) -> tuple[str, str]:
    """Make an object, then another one of its name; returns their UIDs."""
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "it"}, "spec": SPECS[kind]}
    uids: list[str] = []
    for _ in range(2):
        cluster.kubectl("-n", namespace, "delete", kind, "it", "--ignore-not-found", "--force")
        made = cluster.kubectl(
            "-n", namespace, "create", "-f", "-", "-o", "json", stdin=json.dumps(body)
        )
        uids.append(json.loads(made)["metadata"]["uid"])
    return uids[0], uids[1]


@pytest.mark.without(f"{KUBE}.delete", '{"uid": uid} |', "{} |")
@pytest.mark.without(f"{KUBE}.patch", ' | {"uid": uid}', "")
@pytest.mark.without(
    f"{KUBE}.evict", '"deleteOptions": {"preconditions": {"uid": uid}}', '"deleteOptions": {}'
)
async def test_what_is_about_an_object_that_is_gone_does_nothing_to_its_successor(
    devcluster: DevCluster, namespace: str, kube: KubeClient
) -> None:
    gone, there = recreated(devcluster, namespace, CLAIM)
    with pytest.raises(ConflictError):
        await kube.delete(CLAIM, namespace, "it", uid=gone)
    change = {"metadata": {"labels": {"changed": "yes"}}}
    with pytest.raises(ConflictError):
        await kube.patch(CLAIM, namespace, "it", uid=gone, change=change)
    found = await kube.get(CLAIM, namespace, "it")
    assert found is not None
    assert (found["metadata"]["uid"], "labels" in found["metadata"]) == (there, False)
    gone, there = recreated(devcluster, namespace, POD)
    with pytest.raises(ConflictError):
        await kube.evict(namespace, "it", uid=gone)
    found = await kube.get(POD, namespace, "it")
    assert found is not None
    assert found["metadata"]["uid"] == there
    assert "deletionTimestamp" not in found["metadata"]


async def test_what_is_about_a_version_that_has_passed_changes_nothing(
    devcluster: DevCluster, namespace: str, kube: KubeClient
) -> None:
    _, uid = recreated(devcluster, namespace, CLAIM)
    first = await kube.get(CLAIM, namespace, "it")
    assert first is not None
    passed = first["metadata"]["resourceVersion"]
    change = {"metadata": {"labels": {"by": "another"}}}
    await kube.patch(CLAIM, namespace, "it", uid=uid, change=change)
    late = {"metadata": {"resourceVersion": passed, "labels": {"by": "us"}}}
    with pytest.raises(ConflictError):
        await kube.patch(CLAIM, namespace, "it", uid=uid, change=late)
    with pytest.raises(ConflictError):
        await kube.delete(CLAIM, namespace, "it", uid=uid, version=passed)
    found = await kube.get(CLAIM, namespace, "it")
    assert found is not None
    assert found["metadata"]["labels"] == {"by": "another"}
