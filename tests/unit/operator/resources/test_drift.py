"""Objects that another client changed, or that cannot be written: detected, restored, reported."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import RefusedError
from kraftquorum_operator.execute.objects import apply_objects
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.observe.kube import read_statefulset
from kraftquorum_operator.plan.actions import ApplyObjects
from kraftquorum_operator.plan.compare import outdated_objects
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import node_config
from proofkit.operatorworld.observations import UID, healthy, spec
from proofkit.operatorworld.patches import merged

OWNER = Owner("test", "demo", UID)
BUDGET, SET = ObjectRef("PodDisruptionBudget", "demo"), ObjectRef("StatefulSet", "demo")
CLIENTS, PEERS = ObjectRef("Service", "demo"), ObjectRef("Service", "demo-peers")


def bodies() -> dict[str, Any]:
    wanted = spec(voters=3)
    return build(OWNER, wanted, 3, node_config(wanted, names.DEFAULTS))


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
        mixed = strategy.get("type") == "OnDelete" and "rollingUpdate" in strategy
        if both or mixed or key == self.refused:
            raise RefusedError(422, "Invalid", f"{key}: 422 spec is invalid")
        self.live[key] = body
        return body

    async def get(self, kind: str, namespace: str, name: str) -> Any:
        assert namespace == "test"
        return self.live.get(ObjectRef(kind, name))

    async def apply(self, body: Any, subresource: str = "") -> Any:
        key = ObjectRef.of(body)
        return self._write(key, merged(self.live.get(key, {}), body)) if not subresource else body

    async def patch(self, kind: str, namespace: str, name: str, *, uid: str, change: Any) -> Any:
        key = ObjectRef(kind, name)
        assert (namespace, uid) == ("test", self.live[key]["metadata"]["uid"])
        return self._write(key, merged(self.live[key], change))

    def somebody_patches(self, key: ObjectRef, change: Any) -> None:
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
async def test_a_protection_that_somebody_took_away_is_put_back(
    key: ObjectRef, change: Any
) -> None:
    kube = FakeKube()
    assert kube.outdated == ()
    wanted = copy.deepcopy(kube.live[key]["spec"])
    kube.somebody_patches(key, {"spec": change})
    assert kube.outdated == (key,)
    await apply_objects(ApplyObjects(kube.outdated), tools(kube))
    assert kube.outdated == ()
    assert kube.live[key]["spec"] == wanted


def test_what_the_api_server_fills_in_is_no_change() -> None:
    kube = FakeKube()
    kube.somebody_patches(SET, {"spec": {"revisionHistoryLimit": 10, "replicas": 3}})
    kube.somebody_patches(SET, {"spec": {"persistentVolumeClaimRetentionPolicy": None}})
    kube.somebody_patches(ObjectRef("Service", "demo-peers"), {"spec": {"clusterIPs": ["None"]}})
    assert kube.outdated == ()


async def test_the_label_that_says_whose_the_statefulset_is_is_put_back() -> None:
    kube = FakeKube()
    labels = copy.deepcopy(kube.live[SET]["metadata"]["labels"])
    kube.somebody_patches(SET, {"metadata": {"labels": {names.LABEL_OWNER_UID: None}}})
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
    kube.somebody_patches(SET, {"metadata": change | {"resourceVersion": "1"}})
    found = read_statefulset(kube.live[SET])
    assert found is not None
    assert found.owner_uid == owner_uid


def test_a_service_that_was_given_another_type_is_left_so() -> None:
    kube = FakeKube()
    ports = [*kube.live[CLIENTS]["spec"]["ports"], {"name": "web", "port": 80}]
    ports[0] = ports[0] | {"protocol": "TCP", "nodePort": 30_000}
    kube.somebody_patches(CLIENTS, {"spec": {"type": "LoadBalancer", "ports": ports}})
    assert kube.outdated == ()


async def test_an_object_that_is_refused_keeps_no_other_back() -> None:
    kube = FakeKube(refused=ObjectRef("Service", "demo-peers"))
    kube.somebody_patches(BUDGET, {"spec": {"minAvailable": 0}})
    with pytest.raises(RefusedError, match="422"):
        await apply_objects(ApplyObjects((ObjectRef("Service", "demo-peers"), BUDGET)), tools(kube))
    assert kube.outdated == ()
