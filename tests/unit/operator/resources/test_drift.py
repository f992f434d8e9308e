"""Objects that another client changed, or that cannot be written: detected, restored, reported."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import RefusedError
from kraftquorum_operator.execute.objects import apply_objects
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.tls import QuorumTls
from kraftquorum_operator.observe.kube import read_statefulset
from kraftquorum_operator.plan.actions import ApplyObjects
from kraftquorum_operator.plan.compare import outdated_objects
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.cert_manager import certificate
from kraftquorum_operator.resources.drift import has_drifted
from kraftquorum_operator.resources.node_config import node_config
from proofkit.operatorworld.observations import UID, healthy, spec
from proofkit.operatorworld.patches import merged

OWNER = Owner("test", "demo", UID)
BUDGET, SET = ObjectRef("PodDisruptionBudget", "demo"), ObjectRef("StatefulSet", "demo")
CLIENTS, PEERS = ObjectRef("Service", "demo"), ObjectRef("Service", "demo-peers")


def bodies() -> dict[str, Any]:
    wanted = spec(voters=3)
    return build(OWNER, wanted, 3, node_config(wanted, names.DEFAULTS))


def applied_ports(live: Any, body: Any) -> list[Any]:
    """The ports after an apply, which knows them by their numbers."""
    parts = (live.get("spec", {}), body["spec"])
    ports: dict[int, Any] = {}
    for port in (port for part in parts for port in part.get("ports", [])):
        ports[port["port"]] = ports.get(port["port"], {}) | port
    return list(ports.values())


class FakeKube:
    """Live objects by `Kind/name`, with the validation that matters here."""

    def __init__(self, refused: str = "") -> None:
        self.live = {
            key: merged(copy.deepcopy(body), {"metadata": {"uid": f"uid-{key}"}})
            for key, body in bodies().items()
        }
        self.live[SET]["metadata"]["uid"] = "sts-1"
        self.refused = refused

    def _write(self, key: str, body: Any) -> Any:
        spec_ = body["spec"]
        strategy = spec_.get("updateStrategy", {})
        both = {"minAvailable", "maxUnavailable"} <= set(spec_)
        ports = [port["name"] for port in spec_.get("ports", [])]
        mixed = strategy.get("type") == "OnDelete" and "rollingUpdate" in strategy
        if both or mixed or len(set(ports)) < len(ports) or key == self.refused:
            raise RefusedError(422, "Invalid", f"{key}: 422 spec is invalid")
        self.live[key] = body
        return body

    async def get(self, kind: str, namespace: str, name: str) -> Any:
        assert namespace == "test"
        return self.live.get(ObjectRef(kind, name))

    async def apply(self, body: Any, subresource: str = "") -> Any:
        """As if other clients owned all that the body lacks: it stays."""
        key = ObjectRef.of(body)
        if subresource:
            return body
        live = self.live.get(key, {})
        applied = merged(live, body)
        if key.kind == "Service":
            applied["spec"]["ports"] = applied_ports(live, body)
        return self._write(key, applied)

    async def patch(self, kind: str, namespace: str, name: str, *, uid: str, change: Any) -> Any:
        key = ObjectRef(kind, name)
        assert (namespace, uid) == ("test", self.live[key]["metadata"]["uid"])
        return self._write(key, merged(self.live[key], change))

    def another_client_patches(self, key: ObjectRef, change: Any) -> None:
        self.live[key] = merged(self.live[key], change)

    @property
    def outdated(self) -> tuple[ObjectRef, ...]:
        return outdated_objects(bodies(), list(self.live.values()))


def tools(kube: FakeKube) -> Tools:
    return Tools(cast("Any", kube), cast("Any", None), OWNER, healthy(), bodies(), 1, Failpoints())


@pytest.mark.parametrize(
    ("key", "change"),
    [
        (BUDGET, {"maxUnavailable": 3, "minAvailable": None}),
        (BUDGET, {"minAvailable": 0}),
        (BUDGET, {"selector": {"matchLabels": {"app.kubernetes.io/instance": "other"}}}),
        (
            SET,
            {
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
            },
        ),
        (SET, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}),
        (SET, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
        (SET, {"ordinals": {"start": 1}}),
        (PEERS, {"publishNotReadyAddresses": None}),
        (CLIENTS, {"selector": {"app.kubernetes.io/instance": "other"}}),
        (CLIENTS, {"ports": [{"name": "api", "port": 80, "targetPort": "api"}]}),
    ],
)
async def test_a_protection_that_another_client_took_away_is_put_back(
    key: ObjectRef, change: Any
) -> None:
    kube = FakeKube()
    assert kube.outdated == ()
    wanted = copy.deepcopy(kube.live[key]["spec"])
    kube.another_client_patches(key, {"spec": change})
    assert kube.outdated == (key,)
    await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert kube.outdated == ()
    assert kube.live[key]["spec"] == wanted


def test_what_the_api_server_fills_in_is_no_change() -> None:
    kube = FakeKube()
    kube.another_client_patches(SET, {"spec": {"revisionHistoryLimit": 10, "replicas": 3}})
    kube.another_client_patches(SET, {"spec": {"persistentVolumeClaimRetentionPolicy": None}})
    kube.another_client_patches(
        ObjectRef("Service", "demo-peers"), {"spec": {"clusterIPs": ["None"]}}
    )
    assert kube.outdated == ()


@pytest.mark.without(
    "kraftquorum_operator.resources.drift:has_drifted",
    "(want.get(key) or None) != (have.get(key) or None)",
    "want.get(key) != have.get(key)",
)
def test_a_default_that_the_api_server_does_not_show_is_no_change() -> None:
    kube = FakeKube()
    kube.another_client_patches(CLIENTS, {"spec": {"publishNotReadyAddresses": None}})
    assert kube.outdated == ()


@pytest.mark.without(
    "kraftquorum_operator.resources.drift:has_drifted",
    "not _has(have, want)",
    "any(value != have.get(key) for key, value in want.items())",
)
def test_what_another_client_adds_to_a_certificate_is_left_so() -> None:
    """The operator compared it, and an apply removes no field of another client."""
    tls = QuorumTls.model_validate({"mode": "CertManager", "issuerRef": {"name": "ca"}})
    wanted = certificate(OWNER, tls, "demo-0", ["spiffe://node/0"], ["demo-0"])
    live = copy.deepcopy(wanted)
    live["spec"]["secretTemplate"]["annotations"] = {"example.com/team": "blue"}
    live["spec"]["secretTemplate"]["labels"]["example.com/team"] = "blue"
    assert not has_drifted(wanted, live)
    del live["spec"]["secretTemplate"]["labels"][names.LABEL_OWNER_UID]
    assert has_drifted(wanted, live)
    assert has_drifted(wanted, wanted | {"spec": wanted["spec"] | {"uris": []}})


@pytest.mark.without(
    "kraftquorum_operator.resources.services:client_service",
    '"publishNotReadyAddresses": False,',
    "",
)
async def test_clients_are_never_led_to_nodes_that_are_not_ready() -> None:
    """The body did not have the field, so that the apply left it and was repeated for ever."""
    kube = FakeKube()
    kube.another_client_patches(CLIENTS, {"spec": {"publishNotReadyAddresses": True}})
    assert kube.outdated == (CLIENTS,)
    with suppress(RefusedError):
        await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert kube.live[CLIENTS]["spec"]["publishNotReadyAddresses"] is False
    assert kube.outdated == ()


@pytest.mark.without(
    "kraftquorum_operator.resources.drift:change_before_apply", "ports := _ports", "not _ports"
)
async def test_a_port_of_another_client_stays_beside_one_that_is_put_back() -> None:
    kube = FakeKube()
    web = {"name": "web", "port": 8443, "targetPort": "api"}
    taken = {"name": "api", "port": 80, "targetPort": "api"}
    kube.another_client_patches(CLIENTS, {"spec": {"ports": [web, taken]}})
    with suppress(RefusedError):
        await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert {port["name"]: port["port"] for port in kube.live[CLIENTS]["spec"]["ports"]} == {
        "web": 8443,
        "api": names.API_PORT,
    }
    assert kube.outdated == ()


@pytest.mark.without(
    "kraftquorum_operator.execute.objects:_apply", "if has_drifted(body, written):", "if False:"
)
async def test_a_write_that_leaves_an_object_as_it_was_is_refused_and_not_repeated_for_ever() -> (
    None
):
    kube = FakeKube()
    kube.another_client_patches(CLIENTS, {"spec": {"selector": {"app": "other"}}})
    assert kube.outdated == (CLIENTS,)
    with pytest.raises(RefusedError, match=r"Service/demo differs from what .* just written"):
        await apply_objects(ApplyObjects(kube.outdated), tools(kube))


def manages(manager: str, part: str, *keys: str) -> dict[str, Any]:
    """An entry of `managedFields`, as the API server writes it."""
    fields = {"f:metadata": {f"f:{part}": {".": {}} | {f"f:{key}": {} for key in keys}}}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields}


OWNERSHIP = "kraftquorum_operator.resources.ownership:earlier_keys"


@pytest.mark.without(OWNERSHIP, "ours - others - set", "ours - set")
@pytest.mark.without(OWNERSHIP, "or not key.startswith(notes)", "or True")
@pytest.mark.without(OWNERSHIP, "if manager == names.MANAGER else others", "if manager else others")
@pytest.mark.without(
    "kraftquorum_operator.resources.drift:statefulset_change",
    "dict.fromkeys(earlier_keys(wanted, live, part)) |",
    "",
)
async def test_keys_of_an_earlier_version_go_from_the_statefulset_and_all_others_stay() -> None:
    kube = FakeKube()
    meta = copy.deepcopy(kube.live[SET]["metadata"])
    earlier = {"example.com/earlier": "1", "example.com/shared": "1"}
    notes = {
        f"{names.ANNOTATION_RECORDED}0": "directory claim",
        f"{names.ANNOTATION_GIVEN_UP}0": "2026-01-01T00:00:00Z/used/claim",
        f"{names.GROUP}/of-a-newer-version": "1",
    }
    theirs = {"example.com/team": "blue"}
    managed: list[Any] = []
    for part, own in (("labels", {}), ("annotations", notes)):
        written = meta[part] | earlier | own
        managed.append(manages(names.MANAGER, part, *written))
        managed.append(manages("argocd", part, *theirs, "example.com/shared"))
        managed.append(manages("kubectl", part, *theirs))
        kube.another_client_patches(SET, {"metadata": {part: written | theirs}})
    kube.another_client_patches(SET, {"metadata": {"managedFields": managed}})
    kube.another_client_patches(SET, {"metadata": {"annotations": {names.ANNOTATION_HASH: "old"}}})
    assert kube.outdated == (SET,)
    await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert kube.outdated == ()
    stay = theirs | {"example.com/shared": "1"}
    assert kube.live[SET]["metadata"]["labels"] == meta["labels"] | stay
    assert kube.live[SET]["metadata"]["annotations"] == meta["annotations"] | stay | notes


async def test_no_key_goes_if_no_manager_is_recorded() -> None:
    """A backup has dropped who wrote what."""
    kube = FakeKube()
    kube.another_client_patches(SET, {"metadata": {"labels": {"example.com/earlier": "1"}}})
    kube.another_client_patches(SET, {"metadata": {"annotations": {names.ANNOTATION_HASH: "old"}}})
    await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert kube.live[SET]["metadata"]["labels"]["example.com/earlier"] == "1"


async def test_the_label_that_says_whose_the_statefulset_is_is_put_back() -> None:
    kube = FakeKube()
    labels = copy.deepcopy(kube.live[SET]["metadata"]["labels"])
    kube.another_client_patches(SET, {"metadata": {"labels": {names.LABEL_OWNER_UID: None}}})
    assert kube.outdated == (SET,)
    await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert kube.live[SET]["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("change", "owner_uid"),
    [
        ({}, UID),
        ({"labels": {names.LABEL_OWNER_UID: None}}, UID),
        ({"ownerReferences": None}, UID),
        ({"ownerReferences": None, "labels": None}, None),
    ],
)
def test_a_statefulset_says_by_its_label_or_its_owner_whose_it_is(
    change: Any, owner_uid: str | None
) -> None:
    kube = FakeKube()
    kube.another_client_patches(SET, {"metadata": change | {"resourceVersion": "1"}})
    found = read_statefulset(kube.live[SET])
    assert found is not None
    assert found.owner_uid == owner_uid


def test_a_service_that_was_given_another_type_is_left_so() -> None:
    kube = FakeKube()
    ports = [*kube.live[CLIENTS]["spec"]["ports"], {"name": "web", "port": 80}]
    ports[0] = ports[0] | {"protocol": "TCP", "nodePort": 30_000}
    kube.another_client_patches(CLIENTS, {"spec": {"type": "LoadBalancer", "ports": ports}})
    assert kube.outdated == ()


async def test_an_object_that_is_refused_keeps_no_other_back() -> None:
    kube = FakeKube(refused=ObjectRef("Service", "demo-peers"))
    kube.another_client_patches(BUDGET, {"spec": {"minAvailable": 0}})
    with pytest.raises(RefusedError, match="422"):
        await apply_objects(ApplyObjects((ObjectRef("Service", "demo-peers"), BUDGET)), tools(kube))
    assert kube.outdated == ()
