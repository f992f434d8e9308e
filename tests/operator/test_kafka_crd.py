"""The CRD of KafkaQuorums on a real API server: what is refused, and with which path."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.errors import CommandError

pytestmark = pytest.mark.cluster

PODS = {"matchLabels": {"app": "kafka"}}


def apply(cluster: DevCluster, namespace: str, spec: dict[str, Any]) -> None:
    body = {
        "apiVersion": "kraftquorum.io/v1alpha1",
        "kind": "KafkaQuorum",
        "metadata": {"name": "orders"},
        "spec": spec,
    }
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(body))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "set addresses, pods or controllers"),
        ({"addresses": ["a"]}, r"spec\.addresses\[0\].*should match"),
        ({"pods": {"matchLabels": {}}}, r"spec\.pods\.matchLabels.*at least 1"),
        ({"pods": {"matchLabels": {"a": "b,c=d"}}}, r"spec\.pods\.matchLabels\.a.*should match"),
        ({"controllers": [{"id": 1}]}, "either an address or a pod"),
        (
            {"controllers": [{"id": 1, "address": "a:1", "pod": "a"}], "pods": PODS},
            "either an address or a pod",
        ),
        ({"controllers": [{"id": 1, "pod": "a"}]}, "a controller with a pod needs pods"),
        (
            {"controllers": [{"id": 1, "address": "a:1"}, {"id": 1, "address": "b:1"}]},
            r"spec\.controllers\[1\].*Duplicate value",
        ),
        (
            {"controllers": [{"id": 1, "address": "a:1", "directoryId": "short"}]},
            "directoryId.*should match",
        ),
        ({"address": ["a:1"]}, r'unknown field "spec\.address"'),
        ({"addresses": ["a:1"], "graceSeconds": -1}, r"spec\.graceSeconds.*greater than or equal"),
    ],
)
def test_a_wrong_resource_is_refused(
    devcluster: DevCluster, kafka_crd: None, namespace: str, spec: dict[str, Any], says: str
) -> None:
    with pytest.raises(CommandError) as caught:
        apply(devcluster, namespace, spec)
    assert re.search(says, str(caught.value)), str(caught.value)


def test_the_example_of_the_guide_is_accepted(
    devcluster: DevCluster, kafka_crd: None, namespace: str
) -> None:
    controllers = [{"id": n, "pod": f"kafka-controller-{n}"} for n in range(3)]
    pods = {"matchLabels": {"app.kubernetes.io/name": "kafka"}, "port": 9093}
    apply(
        devcluster,
        namespace,
        {"pods": pods, "controllers": controllers, "credentialsSecret": "kafka-advisor"},
    )
    apply(devcluster, namespace, {"addresses": ["[::1]:9093", "a.example:9093"]})
