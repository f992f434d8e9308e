"""The NetworkPolicy of a quorum on a real API server: made, put right, removed, adopted by none."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CLIENT = {"podSelector": {"matchLabels": {"app": "shop"}}}
READER = {
    "namespaceSelector": {
        "matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]
    }
}
OUTSIDE = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
MARK = "kraftquorum.io/defaults"


def policy(krq) -> dict[str, Any] | None:
    policies = krq.list("networkpolicy")
    return policies[0] if policies else None


def patch(krq, change: dict[str, Any], kind: str = "krq") -> None:
    krq.kubectl("patch", kind, "demo", "--type=merge", "-p", json.dumps(change))


def admitted(krq, port: int) -> list[dict[str, Any]]:
    live = policy(krq)
    assert live is not None
    return [
        peer
        for entry in live["spec"]["ingress"]
        for peer in entry["from"]
        if port in [one["port"] for one in entry["ports"]]
    ]


def test_a_new_quorum_has_a_policy_that_follows_the_resource_and_is_put_right(
    krq, operators
) -> None:
    operators.start(pod_namespace="kraftquorum-system", node_metrics_from=json.dumps([READER]))
    krq.apply(voters=1)
    krq.ready(1)
    live = policy(krq)
    assert live is not None
    assert live["metadata"]["ownerReferences"][0]["kind"] == "KRaftQuorum"
    nodes, operator, reader = admitted(krq, 9080)
    assert admitted(krq, 9093) == [nodes]
    assert operator["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "kraftquorum-system"
    }
    assert reader == READER
    pods = krq.list("pods")[0]["metadata"]
    assert nodes["podSelector"]["matchLabels"].items() <= pods["labels"].items()

    krq.apply(voters=1, networkPolicy={"clientsFrom": [CLIENT, OUTSIDE]})
    wanted = [nodes, operator, CLIENT, OUTSIDE, READER]
    krq.until("clients admitted", lambda: admitted(krq, 9080) == wanted)
    # What the API server stores is what the operator wants: it writes the policy once for each spec.
    krq.until("idle", lambda: krq.status().get("doing") is None)
    krq.kubectl("annotate", "sts", "demo", "touched=1")
    krq.until("reconciled", lambda: operators.actions() is not None and krq.is_ready(1))
    writes = [line for line in operators.actions() if "NetworkPolicy/demo" in line]
    assert len(writes) == 2

    # A change by hand, and a deletion.
    patch(krq, {"spec": {"ingress": [{}]}}, "networkpolicy")
    krq.until("put right", lambda: len(admitted_or_none(krq)) == 5)
    krq.kubectl("delete", "networkpolicy", "demo")
    krq.until("made again", lambda: policy(krq) is not None)

    # Off, and on again; no pod restarts for any of it.
    patch(krq, {"spec": {"networkPolicy": {"enabled": False}}})
    krq.until("removed", lambda: policy(krq) is None)
    patch(krq, {"spec": {"networkPolicy": {"enabled": None}}})
    krq.until("made again", lambda: policy(krq) is not None)
    assert krq.list("pods")[0]["metadata"]["uid"] == pods["uid"]


def test_readers_of_metrics_are_admitted_to_the_port_of_metrics_alone(krq, operators) -> None:
    operators.start(pod_namespace="kraftquorum-system", node_metrics_from=json.dumps([READER]))
    krq.apply(
        voters=1,
        metricsListener="Separate",
        networkPolicy={"clientsFrom": [CLIENT], "metricsFrom": [OUTSIDE]},
    )
    krq.ready(1)  # by its probes on the port of metrics
    nodes, operator, client = admitted(krq, 9080)
    assert client == CLIENT
    assert "namespaceSelector" in operator
    assert admitted(krq, 9081) == [OUTSIDE, READER]
    assert admitted(krq, 9093) == [nodes]
    address = krq.get("pods", "demo-0")["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:9081/metrics", timeout=30) as answer:
        assert b"raftnode_current_leader" in answer.read()
    for port, path in ((9080, "/metrics"), (9081, "/v1/node")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=30)
        assert refused.value.code == 403
        assert b"WRONG_LISTENER" in refused.value.read()


def admitted_or_none(krq) -> list[dict[str, Any]]:
    """Peers of the API's port; none if an entry admits all."""
    live = policy(krq)
    entries = live["spec"]["ingress"] if live is not None else []
    if any("from" not in entry for entry in entries):
        return []
    return admitted(krq, 9080)


def test_a_quorum_from_before_the_policies_gets_none_until_its_resource_asks_for_one(
    krq, operators
) -> None:
    operator = operators.start()
    krq.apply(voters=1)
    krq.ready(1)
    operators.stop(operator)
    # As an operator from before made it: another mark, and no policy.
    krq.kubectl("label", "pvc", "--all", f"{MARK}=1", "--overwrite")
    krq.kubectl("delete", "sts", "demo", "--cascade=orphan")
    krq.kubectl("delete", "networkpolicy", "demo")
    operators.start()
    krq.until("StatefulSet made again", lambda: bool(krq.list("sts")))
    krq.ready(1)
    assert policy(krq) is None
    patch(krq, {"spec": {"networkPolicy": {"clientsFrom": [CLIENT]}}})
    krq.until("a policy", lambda: policy(krq) is not None)


def test_a_policy_of_another_owner_is_reported_and_never_written_or_deleted(krq, operators) -> None:
    other = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "demo"},
        "spec": {"podSelector": {"matchLabels": {"app": "other"}}},
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(other))
    operators.start()
    krq.apply(voters=1, networkPolicy={"enabled": True})
    krq.until_status("held", lambda now: now.get("waitingFor") == "network_policy_written")
    assert not krq.list("sts"), "no node starts that the whole cluster could reach"
    patch(krq, {"spec": {"networkPolicy": {"enabled": False}}})
    krq.ready(1)
    krq.until_status("nothing in the way", lambda now: now.get("waitingFor") is None)
    patch(krq, {"spec": {"networkPolicy": {"enabled": True}}})
    krq.until_status(
        "reported", lambda now: "NetworkPolicy/demo: it exists already" in now.get("message", "")
    )
    live = policy(krq)
    assert live is not None
    assert live["spec"]["podSelector"] == other["spec"]["podSelector"]
    assert "ownerReferences" not in live["metadata"]
