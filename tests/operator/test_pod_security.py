"""The nodes' pods on a real API server that enforces Pod Security's `restricted`."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ENFORCE = "pod-security.kubernetes.io/enforce=restricted"


@pytest.mark.parametrize("user", ["fixed", "assigned"])
def test_pods_are_admitted_where_only_restricted_ones_are(krq, operators, user: str) -> None:
    krq.cluster.kubectl("label", "namespace", krq.namespace, ENFORCE)
    operators.start(node_user=user, node_image_pull_secrets="registry")
    krq.apply(voters=1)
    krq.ready(1)
    (pod,) = krq.list("pods")
    context = pod["spec"]["securityContext"]
    assert ("runAsUser" in context) == ("fsGroup" in context) == (user == "fixed")
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert not [v for v in pod["spec"]["volumes"] if "projected" in v], "no token is mounted"
