"""The NetworkPolicy of a quorum: who is admitted, by default and by the resource."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from kraftquorum_operator import names
from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.execute.objects import apply_objects
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.network_policy import Peer
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.actions import ApplyObjects
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.drift import has_drifted
from kraftquorum_operator.resources.node_config import node_config
from kraftquorum_operator.settings import load_settings
from proofkit.operatorworld.observations import UID, healthy

OWNER = Owner("test", "demo", UID)
REF = ObjectRef("NetworkPolicy", "demo")
NODES = {"podSelector": {"matchLabels": {names.LABEL_APP: names.APP, names.LABEL_INSTANCE: "demo"}}}
CLIENT = {"podSelector": {"matchLabels": {"app": "shop"}}}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {names.LABEL_NAMESPACE: "monitoring"}}}
OUTSIDE = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}


def policy(
    defaults: str | None = names.DEFAULTS,
    installation: Installation | None = None,
    listener: str = "Shared",
    **given: Any,
) -> Body | None:
    spec = QuorumSpec.model_validate(
        {"metricsListener": listener} | ({"networkPolicy": given} if given else {})
    )
    config = node_config(spec, defaults)
    return build(OWNER, spec, 3, config, None, installation or Installation()).get(REF)


def made(**given: Any) -> Body:
    body = policy(**given)
    assert body is not None
    return body


def admitted(body: Body, port: int) -> list[Body]:
    """All peers that reach a port; an entry without `from` fails the test: it admits all."""
    return [
        peer
        for entry in body["spec"]["ingress"]
        for peer in entry["from"]
        if port in [one["port"] for one in entry["ports"]]
    ]


@pytest.mark.without(
    "kraftquorum_operator.resources.network_policy:network_policy", "if admitted:", "if True:"
)
def test_a_new_quorum_admits_its_own_nodes_alone() -> None:
    body = made()
    spec = body["spec"]
    assert spec["podSelector"] == NODES["podSelector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert admitted(body, names.PEER_PORT) == [NODES]
    assert admitted(body, names.API_PORT) == [NODES]
    assert all(entry.get("from") for entry in spec["ingress"])
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID


def test_nodes_reach_dns_and_each_other_and_nothing_else() -> None:
    dns, nodes = made()["spec"]["egress"]
    assert "to" not in dns
    assert {one["port"] for one in dns["ports"]} == {53, 5353}
    assert nodes["to"] == [NODES]
    assert [one["port"] for one in nodes["ports"]] == [names.PEER_PORT, names.API_PORT]


def test_the_operator_s_own_pods_reach_the_api_and_no_other_pod_of_its_namespace() -> None:
    body = made(installation=Installation(namespace="kraftquorum-system"))
    operator = {
        "namespaceSelector": {"matchLabels": {names.LABEL_NAMESPACE: "kraftquorum-system"}},
        "podSelector": {"matchLabels": {names.LABEL_APP: names.OPERATOR_APP}},
    }
    assert admitted(body, names.API_PORT) == [NODES, operator]
    assert admitted(body, names.PEER_PORT) == [NODES]


def test_listed_clients_and_readers_of_metrics_reach_the_api_alone() -> None:
    installation = Installation(metrics_from=(Peer.model_validate(PROMETHEUS),))
    body = made(
        installation=installation, clientsFrom=[CLIENT, OUTSIDE], metricsFrom=[PROMETHEUS, CLIENT]
    )
    assert admitted(body, names.API_PORT) == [NODES, CLIENT, OUTSIDE, PROMETHEUS]
    assert admitted(body, names.PEER_PORT) == [NODES]
    assert json.loads(json.dumps(body)) == body


@pytest.mark.without(
    "kraftquorum_operator.resources.network_policy:network_policy",
    "_peers(clients if separate else (*clients, *readers))",
    "_peers((*clients, *readers))",
)
def test_readers_of_metrics_reach_their_own_port_alone() -> None:
    installation = Installation("kraftquorum-system", (Peer.model_validate(PROMETHEUS),))
    body = made(
        installation=installation,
        listener="Separate",
        clientsFrom=[CLIENT],
        metricsFrom=[PROMETHEUS, OUTSIDE],
    )
    operator = admitted(body, names.API_PORT)[1]
    assert operator["podSelector"]["matchLabels"] == {names.LABEL_APP: names.OPERATOR_APP}
    assert admitted(body, names.API_PORT) == [NODES, operator, CLIENT]
    assert admitted(body, names.METRICS_PORT) == [PROMETHEUS, OUTSIDE]
    assert admitted(body, names.PEER_PORT) == [NODES]
    # Without readers there is no entry: one without `from` would admit all.
    body = made(listener="Separate", clientsFrom=[CLIENT])
    assert admitted(body, names.METRICS_PORT) == []
    # No entry for a port where nothing listens.
    assert admitted(made(metricsFrom=[PROMETHEUS]), names.METRICS_PORT) == []


@pytest.mark.parametrize(
    ("defaults", "given", "has"),
    [
        ("2", {}, True),
        ("1", {}, False),
        (None, {}, False),
        ("1", {"enabled": True}, True),
        (None, {"clientsFrom": [CLIENT]}, True),
        ("1", {"metricsFrom": [PROMETHEUS]}, True),
        ("2", {"enabled": False}, False),
        ("2", {"enabled": False, "clientsFrom": [CLIENT]}, False),
    ],
)
def test_the_resource_or_else_the_age_of_the_quorum_decides_on_the_policy(
    defaults: str | None, given: Body, has: bool
) -> None:
    assert (policy(defaults=defaults, **given) is not None) == has
    assert names.DEFAULTS in names.DEFAULTS_WITH_POLICY


@pytest.mark.without(
    "kraftquorum_operator.resources.network_policy:has_network_policy",
    "defaults in names.DEFAULTS_WITH_POLICY",
    "True",
)
def test_an_upgrade_of_the_operator_cuts_off_no_client_of_an_older_quorum() -> None:
    assert policy(defaults="1") is None
    assert policy(defaults=None) is None


@pytest.mark.parametrize(
    "peer",
    [{}, {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}, {"ipBlock": {"cidr": "ten"}}],
)
def test_a_peer_that_kubernetes_would_refuse_is_refused_at_the_start(
    peer: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValidationError):
        Peer.model_validate(peer)
    monkeypatch.setenv("KRAFTQUORUM_NODE_METRICS_FROM", json.dumps([peer]))
    with pytest.raises(SettingsError, match="KRAFTQUORUM_NODE_METRICS_FROM"):
        load_settings()


def test_peers_come_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFTQUORUM_NODE_METRICS_FROM", json.dumps([PROMETHEUS, OUTSIDE]))
    monkeypatch.setenv("KRAFTQUORUM_POD_NAMESPACE", "kraftquorum-system")
    body = made(installation=load_settings().installation)
    assert admitted(body, names.API_PORT)[2:] == [PROMETHEUS, OUTSIDE]
    monkeypatch.setenv("KRAFTQUORUM_NODE_METRICS_FROM", "[{")
    with pytest.raises(SettingsError, match="NODE_METRICS_FROM must be a JSON list"):
        load_settings()


def test_a_change_by_hand_is_noticed() -> None:
    wanted = made()
    assert not has_drifted(wanted, wanted)
    for change in (
        {"ingress": [{}]},
        {"egress": []},
        {"policyTypes": ["Ingress"]},
        {"podSelector": {"matchLabels": {"app": "none"}}},
    ):
        assert has_drifted(wanted, wanted | {"spec": wanted["spec"] | change})


class Kube:
    """Has one policy, and notes what is deleted."""

    def __init__(self, live: Body) -> None:
        self.live: Body | None = live
        self.deleted: list[tuple[str, str, str]] = []

    async def get(self, kind: str, _: str, name: str) -> Body | None:
        assert (kind, name) == ("NetworkPolicy", "demo")
        return self.live

    async def delete(self, kind: str, _: str, name: str, *, uid: str, version: None) -> None:
        self.deleted.append((kind, name, uid))


def unwanted(live: Body) -> tuple[Observation, dict[ObjectRef, Body]]:
    spec = QuorumSpec.model_validate({"networkPolicy": {"enabled": False}})
    desired = compare(OWNER, spec, healthy(3), [live])
    return desired.mark(healthy(3)), dict(desired.bodies)


async def remove(live: Body) -> Kube:
    observation, bodies = unwanted(live)
    kube = Kube(live)
    tools = Tools(
        kube,  # pyright: ignore[reportArgumentType]
        None,  # pyright: ignore[reportArgumentType]
        OWNER,
        observation,
        bodies,
        1,
        Failpoints(),
    )
    await apply_objects(ApplyObjects((REF,)), tools)
    return kube


async def test_a_policy_that_is_switched_off_is_deleted_by_its_uid() -> None:
    live = made()
    live["metadata"] |= {"uid": "policy-1"}
    observation, _ = unwanted(live)
    assert REF in observation.outdated
    assert (await remove(live)).deleted == [("NetworkPolicy", "demo", "policy-1")]


async def test_another_owner_s_policy_is_never_deleted() -> None:
    """Also if it took the name after the operator observed its own."""
    live = made()
    live["metadata"] |= {"uid": "policy-1", "ownerReferences": [], "labels": {}}
    assert (await remove(live)).deleted == []


def test_the_policy_alone_differs_by_the_installation() -> None:
    """Another place of the operator restarts no node."""
    spec = QuorumSpec()
    config = node_config(spec, names.DEFAULTS)
    here = build(OWNER, spec, 3, config)
    there = build(OWNER, spec, 3, config, None, replace(Installation(), namespace="there"))
    assert [ref for ref in here if here[ref] != there[ref]] == [REF]
