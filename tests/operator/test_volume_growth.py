"""Volumes that grow under a quorum that serves: no pod restarts, and no write waits for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guidelib.reader import ClusterReader
from kraftquorum_devcluster.processnode.context import PROVISIONER

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


@pytest.fixture
def storage_class(krq) -> Iterator[str]:
    """A class of this test, whose claims may not grow at first."""
    name = f"growing-{krq.namespace}"
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    yield name
    krq.kubectl("delete", "storageclass", name)


def allow(krq, name: str) -> None:
    krq.kubectl("patch", "storageclass", name, "-p", json.dumps({"allowVolumeExpansion": True}))


def sizes(krq) -> list[tuple[str, str]]:
    """What each claim asks for, and what it has."""
    claims = sorted(krq.list("pvc"), key=lambda claim: claim["metadata"]["name"])
    return [
        (
            claim["spec"]["resources"]["requests"]["storage"],
            claim["status"].get("capacity", {}).get("storage", ""),
        )
        for claim in claims
    ]


def identities(krq, kind: str) -> dict[str, tuple[str, Any]]:
    """Name, UID, and restarts of a pod."""
    return {
        body["metadata"]["name"]: (
            body["metadata"]["uid"],
            [c["restartCount"] for c in body["status"].get("containerStatuses", [])],
        )
        for body in krq.list(kind)
    }


def test_volumes_grow_once_the_class_allows_it_and_no_pod_restarts(
    krq, operators, writing, storage_class: str
) -> None:
    operator = operators.start()
    krq.apply(voters=3, storage={"className": storage_class})
    krq.ready(3)
    writing.start()
    voters, pods = krq.voters(), identities(krq, "pods")
    claims = {name: uid for name, (uid, _) in identities(krq, "pvc").items()}
    [template] = [body["spec"] for body in krq.list("sts")]

    # The class forbids it: the operator says so, and what else is to be done goes on.
    krq.apply(voters=3, storage={"size": "2Gi", "className": storage_class})
    krq.until(
        "told that the class forbids it",
        lambda: krq.condition("Ready").get("reason") == "ClaimGrowthAccepted",
    )
    why = krq.condition("Ready")["message"]
    assert storage_class in why
    assert "allowVolumeExpansion" in why
    assert sizes(krq) == [("1Gi", "1Gi")] * 3
    krq.until("reported", lambda: krq.condition("VolumesGrowing").get("reason") == "Refused")
    assert krq.condition("Available")["status"] == "True"
    krq.apply(voters=4, storage={"size": "2Gi", "className": storage_class})
    krq.until("a fourth voter", lambda: len(krq.reported()) == 4)
    krq.apply(voters=3, storage={"size": "2Gi", "className": storage_class})
    krq.until("three voters", lambda: len(krq.reported()) == 3)
    krq.until("its pod is gone", lambda: len(krq.list("pods")) == 3)

    # Allowed now, and the operator ends in the middle of it.
    allow(krq, storage_class)
    krq.until("one has grown", lambda: ("2Gi", "2Gi") in sizes(krq)[:3])
    operator.kill()
    operator.wait()
    operators.start()
    krq.ready(3)
    assert sizes(krq) == [("2Gi", "2Gi")] * 3 + [("1Gi", "1Gi")], "a kept claim is left alone"
    krq.until("reported", lambda: krq.condition("VolumesGrowing")["status"] == "False")

    assert identities(krq, "pods") == pods
    now = {name: uid for name, (uid, _) in identities(krq, "pvc").items()}
    assert {name: now.get(name) for name in claims} == claims
    assert krq.voters() == voters
    [kept] = [body["spec"] for body in krq.list("sts")]
    assert kept == template
    changes = [entry["message"] for entry in krq.status()["timeline"]]
    assert [c for c in changes if "GrowClaim" in c or "Volumes grow" in c], changes
    assert not [a for a in operators.actions() if "DeleteClaim" in a or "EvictPod" in a]

    # A replica that is new has a claim of the first size, which grows like the others.
    krq.apply(voters=4, storage={"size": "3Gi", "className": storage_class})
    krq.ready(4)
    assert sizes(krq) == [("3Gi", "3Gi")] * 4
    assert {name: krq_pod for name, krq_pod in identities(krq, "pods").items() if name in pods} == (
        pods
    )
    writing.finish(bounded=True)


def test_storage_grows_as_the_page_says(krq, operators, storage_class: str, tmp_path: Path) -> None:
    operators.start()
    krq.apply(voters=1, storage={"className": storage_class})
    krq.ready(1)
    allow(krq, storage_class)
    reader = ClusterReader("howto/grow-storage.md", tmp_path, krq.cluster, krq.namespace)
    reader.run("class")
    reader.run("grow")
    reader.until_shows("check")
    krq.ready(1)
    reader.run("retention")
    krq.until(
        "the log may be larger",
        lambda: krq.status().get("config", {}).get("log_retention_bytes") == str(256 << 20),
    )
    krq.ready(1)
