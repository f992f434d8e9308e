"""Every action on an object is about the one that was observed (S21).

The client and the actions are the real ones; the API server in this process keeps objects and
judges preconditions as a real one does (tests/operator/test_preconditions.py asks that one).
Before each action another object has taken the name, or another client has changed the object.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from aiohttp import web

from kraftquorum_operator.clients.kube import KubeClient, path
from kraftquorum_operator.errors import ConflictError, RefusedError
from kraftquorum_operator.execute import objects
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.observation import Budget, ClaimRecord, Deferral
from kraftquorum_operator.observe.kube import read_statefulset
from kraftquorum_operator.plan import actions
from kraftquorum_operator.resources.disruption import disruption_budget
from kraftquorum_operator.resources.metadata import stamped
from kubeserver import client_of
from proofkit.operatorworld.observations import UID, healthy

OWNER = Owner("test", "demo", UID)
KUBE = "kraftquorum_operator.clients.kube:KubeClient"
OBJECTS = "kraftquorum_operator.execute.objects"
BY_UID = (f"{KUBE}.delete", '{"uid": uid} |', "{} |")
BY_PATCHED_UID = (f"{KUBE}.patch", ' | {"uid": uid}', "")

pytestmark = pytest.mark.rule("S21")


class ApiServer:
    """Objects by path. What a request says of UID and version must be so, else it is a conflict."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.versions = 0
        self.keeps_specs = False
        """An admission webhook puts every spec back."""

    def put(self, kind: str, name: str, uid: str, spec: dict[str, Any] | None = None) -> None:
        """Put an object there, in the place of another one if there is one."""
        self.versions += 1
        meta = {"name": name, "namespace": "test", "uid": uid}
        meta["resourceVersion"] = str(self.versions)
        self.objects[path(kind, "test", name)] = {"metadata": meta, "spec": spec or {}}

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        return self.objects.get(path(kind, "test", name))

    async def answer(self, request: web.Request) -> web.Response:
        where, sent = request.path.removesuffix("/eviction"), await request.json()
        if where not in self.objects:
            return self._refuse(404, "NotFound")
        body = self.objects[where]
        if request.method == "PATCH":
            said = sent.get("metadata") or {}
            if not self._holds(body, said):
                return self._refuse(409, "Conflict")
            if said.get("uid", body["metadata"]["uid"]) != body["metadata"]["uid"]:
                return self._refuse(422, "Invalid", "metadata.uid")
            spec = copy.deepcopy(body["spec"])
            self._merge(body, sent)
            body["spec"] = spec if self.keeps_specs else body["spec"]
            self.versions += 1
            body["metadata"]["resourceVersion"] = str(self.versions)
            return web.json_response(body)
        options = sent if request.method == "DELETE" else sent["deleteOptions"]
        said = options.get("preconditions") or {}
        uid = said.get("uid", body["metadata"]["uid"])
        if uid != body["metadata"]["uid"] or not self._holds(body, said):
            return self._refuse(409, "Conflict")
        del self.objects[where]
        return web.json_response({"status": "Success"})

    @staticmethod
    def _holds(body: dict[str, Any], said: dict[str, Any]) -> bool:
        version = body["metadata"]["resourceVersion"]
        return said.get("resourceVersion", version) == version

    @staticmethod
    def _refuse(status: int, reason: str, *fields: str) -> web.Response:
        causes = [{"reason": "FieldValueInvalid", "field": field} for field in fields]
        answer = {"reason": reason, "message": reason, "details": {"causes": causes}}
        return web.json_response(answer, status=status)

    def _merge(self, into: dict[str, Any], change: dict[str, Any]) -> None:
        for key, value in change.items():
            if isinstance(value, dict):
                self._merge(into.setdefault(key, {}), value)
            elif value is None:
                into.pop(key, None)
            else:
                into[key] = value


@dataclass
class Place:
    """An API server, and what the operator's actions work with."""

    server: ApiServer
    tools: Tools


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    server = ApiServer()
    nodes = cast("Any", None)
    async with client_of(server.answer) as kube:
        yield Place(server, Tools(kube, nodes, OWNER, healthy(), {}, 1, Failpoints()))


@pytest.mark.without(*BY_UID)
@pytest.mark.parametrize(
    ("kind", "name", "do", "action"),
    [
        (
            "PersistentVolumeClaim",
            "data-demo-2",
            objects.delete_claim,
            actions.DeleteClaim("data-demo-2", "old", "lost"),
        ),
        ("Pod", "demo-2", objects.delete_pod, actions.DeletePod("demo-2", "old", "outdated")),
        ("StatefulSet", "demo", objects.delete_statefulset, actions.DeleteStatefulSet("old")),
    ],
)
async def test_a_delete_that_comes_late_spares_what_has_the_name_now(
    place: Place, kind: str, name: str, do: Callable[[Any, Tools], Awaitable[str]], action: Any
):
    place.server.put(kind, name, "new")
    assert "recreated meanwhile and is kept" in await do(action, place.tools)
    assert place.server.get(kind, name) is not None
    place.server.put(kind, name, "old")
    await do(action, place.tools)
    assert place.server.get(kind, name) is None
    await do(action, place.tools)  # it is gone already


@pytest.mark.without(
    f"{KUBE}.evict", '"deleteOptions": {"preconditions": {"uid": uid}}', '"deleteOptions": {}'
)
async def test_an_eviction_that_comes_late_spares_the_new_pod(place: Place):
    action = actions.EvictPod("demo-2", "old", "outdated")
    place.server.put("Pod", "demo-2", "new")
    assert "recreated meanwhile" in await objects.evict_pod(action, place.tools)
    assert place.server.get("Pod", "demo-2") is not None
    place.server.put("Pod", "demo-2", "old")
    await objects.evict_pod(action, place.tools)
    assert place.server.get("Pod", "demo-2") is None


@pytest.mark.without(f"{KUBE}.delete", '({"resourceVersion": version} if version else {})', "{}")
@pytest.mark.without(f"{OBJECTS}:delete_pod", ", version=action.version", "")
@pytest.mark.without(f"{OBJECTS}:_delete", "version=version", "version=None")
async def test_a_pod_that_has_started_since_it_was_seen_stuck_is_kept(place: Place):
    place.server.put("Pod", "demo-2", "same")
    seen = place.server.get("Pod", "demo-2")
    assert seen is not None
    version = copy.deepcopy(seen)["metadata"]["resourceVersion"]
    action = actions.DeletePod("demo-2", "same", "stuck", version)
    place.server.put("Pod", "demo-2", "same")
    assert "has changed meanwhile and is kept" in await objects.delete_pod(action, place.tools)
    assert place.server.get("Pod", "demo-2") is not None


@pytest.mark.without(f"{OBJECTS}:set_replicas", '"resourceVersion": action.resource_version,', "")
async def test_replicas_change_only_from_the_version_that_was_observed(place: Place):
    """Another operator has scaled it meanwhile: the number decided on is of another situation."""
    place.server.put("StatefulSet", "demo", "uid", {"replicas": 3})
    place.server.put("StatefulSet", "demo", "uid", {"replicas": 5})
    scaled = place.server.get("StatefulSet", "demo")
    assert scaled is not None
    with suppress(ConflictError):
        await objects.set_replicas(actions.SetReplicas("uid", "1", 2), place.tools)
    assert scaled["spec"] == {"replicas": 5}
    await objects.set_replicas(actions.SetReplicas("uid", "2", 4), place.tools)
    assert scaled["spec"] == {"replicas": 4}


@pytest.mark.without(f"{OBJECTS}:grow_claim", '"resourceVersion": action.version', "")
async def test_a_claim_grows_only_from_the_version_that_was_observed(place: Place):
    """A late request must not lower what a later one has asked for."""
    name = "data-demo-2"
    place.server.put("PersistentVolumeClaim", name, "uid", size("1Gi"))
    await objects.grow_claim(actions.GrowClaim(name, "uid", "4Gi", "1"), place.tools)
    claim = place.server.get("PersistentVolumeClaim", name)
    assert claim is not None
    assert claim["spec"] == size("4Gi")
    for late in (
        actions.GrowClaim(name, "uid", "2Gi", "1"),
        actions.GrowClaim(name, "old", "2Gi", claim["metadata"]["resourceVersion"]),
    ):
        with suppress(ConflictError):
            await objects.grow_claim(late, place.tools)
        assert claim["spec"] == size("4Gi")


@pytest.mark.without(f"{OBJECTS}:grow_claim", "if size_bytes(str(kept", "if False and (str(kept")
async def test_a_request_that_a_webhook_takes_back_is_refused_and_not_repeated_at_once(
    place: Place,
):
    name, place.server.keeps_specs = "data-demo-2", True
    place.server.put("PersistentVolumeClaim", name, "uid", size("1Gi"))
    with pytest.raises(RefusedError, match=f"PersistentVolumeClaim/{name} differs") as caught:
        await objects.grow_claim(actions.GrowClaim(name, "uid", "4Gi", "1"), place.tools)
    assert caught.value.reason == "NotKept"


def size(storage: str) -> dict[str, Any]:
    """Of the spec of a claim."""
    return {"resources": {"requests": {"storage": storage}}}


@pytest.mark.without(
    f"{OBJECTS}:set_replicas", "if deferral is not None else None", "if 0 else None"
)
async def test_a_scale_up_that_is_deferred_is_recorded_until_it_goes_on(place: Place):
    place.server.put("StatefulSet", "demo", "uid", {"replicas": 4})
    note = Deferral("r2", "pod demo-3: Unschedulable: no machine")
    await objects.set_replicas(actions.SetReplicas("uid", "1", 3, note), place.tools)
    scaled = place.server.get("StatefulSet", "demo")
    assert scaled is not None
    seen = read_statefulset(scaled)
    assert seen is not None
    assert (seen.replicas, seen.deferral) == (3, note)
    version = scaled["metadata"]["resourceVersion"]
    await objects.set_replicas(actions.SetReplicas("uid", version, 4), place.tools)
    seen = read_statefulset(place.server.get("StatefulSet", "demo"))
    assert seen is not None
    assert (seen.replicas, seen.deferral) == (4, None)


RECORD = ClaimRecord("directory", "old")


@pytest.mark.without(*BY_PATCHED_UID)
@pytest.mark.parametrize(
    ("kind", "name", "do", "action"),
    [
        ("StatefulSet", "demo", objects.set_replicas, actions.SetReplicas("old", "1", 4)),
        (
            "PodDisruptionBudget",
            "demo",
            objects.recount_budget,
            actions.RecountBudget("old", "demo-2"),
        ),
        (
            "PersistentVolumeClaim",
            "data-demo-2",
            objects.set_claim_owner,
            actions.SetClaimOwner("data-demo-2", "old"),
        ),
        (
            "PersistentVolumeClaim",
            "data-demo-2",
            objects.record_claims,
            actions.RecordClaims("sts", (("data-demo-2", 2, RECORD),)),
        ),
    ],
)
async def test_a_change_that_comes_late_leaves_what_has_the_name_now_as_it_is(
    place: Place, kind: str, name: str, do: Callable[[Any, Tools], Awaitable[str]], action: Any
):
    place.server.put("StatefulSet", "demo", "sts")
    place.server.put(kind, name, "new")
    place.server.objects[path(kind, "test", name)]["metadata"]["resourceVersion"] = "1"
    before = copy.deepcopy(place.server.get(kind, name))
    with suppress(ConflictError):
        await do(action, place.tools)
    assert place.server.get(kind, name) == before


@pytest.mark.without(f"{OBJECTS}:count_pod", '"resourceVersion": action.version, ', "")
async def test_the_budget_counts_other_pods_only_from_the_version_that_was_observed(place: Place):
    """An operator that was stopped would put a replica into the budget that is no voter now."""
    body = stamped(disruption_budget(OWNER, 3, 3, ["demo-0"]))
    observation = replace(healthy(), budget=Budget("uid", pods=("demo-0", "demo-1"), version="1"))
    tools = replace(
        place.tools,
        observation=observation,
        bodies={ObjectRef("PodDisruptionBudget", "demo"): body},
    )
    place.server.put("PodDisruptionBudget", "demo", "uid", {"kept": True})
    place.server.put("PodDisruptionBudget", "demo", "uid", {"kept": True})
    with suppress(ConflictError):
        await objects.count_pod(actions.CountPod("demo-2", voter=True, version="1"), tools)
    budget = place.server.get("PodDisruptionBudget", "demo")
    assert budget is not None
    assert budget["spec"] == {"kept": True}
    await objects.count_pod(actions.CountPod("demo-2", voter=True, version="2"), tools)
    chosen = budget["spec"]["selector"]["matchExpressions"]
    assert chosen[0]["values"] == ["demo-0", "demo-1", "demo-2"]


@pytest.mark.parametrize("verb", [KubeClient.delete, KubeClient.patch, KubeClient.evict])
def test_no_verb_that_changes_an_object_can_be_used_without_a_uid(verb: Callable[..., Any]):
    uid = inspect.signature(verb).parameters["uid"]
    assert (uid.kind, uid.default) == (uid.KEYWORD_ONLY, uid.empty)
