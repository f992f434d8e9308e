"""The operator restores a pod template that a person changed, except for allowed additions."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import RefusedError
from kraftquorum_operator.execute.objects import apply_objects
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.plan.actions import ApplyObjects
from kraftquorum_operator.plan.compare import outdated_objects
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import node_config
from proofkit.operatorworld.observations import UID, healthy, spec

OWNER = Owner("test", "demo", UID)
SET = ObjectRef("StatefulSet", "demo")
RESTARTED = "kubectl.kubernetes.io/restartedAt"
NODE = 'k:{"name":"raftnode"}'


def wanted() -> dict[str, Any]:
    limits = {"cpu": "0.5", "memory": "1024Mi"}
    given = spec(voters=3, resources={"limits": limits})
    return build(OWNER, given, 3, node_config(given, names.DEFAULTS))


def fields(manager: str, template: Any, **more: Any) -> dict[str, Any]:
    """An entry of `managedFields`, as the API server writes it."""
    owned = {"f:spec": {"f:template": template}}
    return {"manager": manager, "operation": "Update", "fieldsV1": owned, **more}


class Live:
    """One StatefulSet as an API server shows it, with the defaults and who wrote what."""

    def __init__(self) -> None:
        self.body = copy.deepcopy(wanted()[SET])
        meta = self.body["metadata"]
        meta |= {"uid": "sts-1", "resourceVersion": "1"}
        meta["managedFields"] = [
            fields(names.MANAGER, {"f:spec": {"f:containers": {NODE: {"f:image": {}}}}}),
            {"manager": "kube-controller-manager", "subresource": "status", "fieldsV1": {}},
        ]
        pods = self.template["spec"]
        pods |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always"}
        self.container["terminationMessagePath"] = "/dev/termination-log"
        self.container["resources"]["limits"] = {"cpu": "500m", "memory": "1Gi"}
        for port in self.container["ports"]:
            port["protocol"] = "TCP"
        self.rewrites = False

    @property
    def template(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.body["spec"]["template"])

    @property
    def container(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.template["spec"]["containers"][0])

    def written_by(self, manager: str, template: Any, **more: Any) -> None:
        self.body["metadata"]["managedFields"].append(fields(manager, template, **more))

    async def get(self, *_: str) -> Any:
        return copy.deepcopy(self.body)

    async def patch(self, *_: str, uid: str, change: Any) -> Any:
        assert uid == "sts-1"

        def merge(target: Any, patch: Any) -> Any:
            if not isinstance(patch, dict):
                return copy.deepcopy(patch)
            result = dict(target) if isinstance(target, dict) else {}
            for key, value in patch.items():
                result = {k: v for k, v in result.items() if k != key} | (
                    {} if value is None else {key: merge(result.get(key), value)}
                )
            return result

        if not self.rewrites:
            self.body = merge(self.body, change)
            # What it sets back is the operator's again.
            managed = self.body["metadata"].get("managedFields", [])
            kept = [e for e in managed if e["manager"] == names.MANAGER]
            self.body["metadata"]["managedFields"] = kept
        return self.body

    @property
    def outdated(self) -> tuple[ObjectRef, ...]:
        return outdated_objects({SET: wanted()[SET]}, [self.body])

    async def heal(self) -> None:
        tools = Tools(
            cast("Any", self), cast("Any", None), OWNER, healthy(), wanted(), 1, Failpoints()
        )
        await apply_objects(ApplyObjects(self.outdated), tools)


def edit_image(live: Live) -> None:
    live.container["image"] = "evil:1"
    live.written_by("kubectl-set", {"f:spec": {"f:containers": {NODE: {"f:image": {}}}}})


def edit_env(live: Live) -> None:
    live.container["env"].append({"name": "X", "value": "1"})
    env = {'k:{"name":"X"}': {".": {}, "f:name": {}, "f:value": {}}}
    live.written_by("kubectl-set", {"f:spec": {"f:containers": {NODE: {"f:env": env}}}})


def edit_selector(live: Live) -> None:
    live.template["spec"]["nodeSelector"] = {"disk": "ssd"}
    live.written_by("kubectl-patch", {"f:spec": {"f:nodeSelector": {}}})


def edit_label(live: Live) -> None:
    live.template["metadata"] |= {"annotations": {"a": "b", RESTARTED: "x"}}
    owned = {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}}
    live.written_by("kubectl-edit", owned)


def remove_probe(live: Live) -> None:
    """A field that is gone belongs to no manager."""
    del live.container["livenessProbe"]


def remove_env(live: Live) -> None:
    del live.container["env"][3]


def edit_unseen(live: Live) -> None:
    """A backup has dropped who wrote what."""
    live.body["metadata"].pop("managedFields")
    live.container["image"] = "evil:1"


EDITS = (
    edit_image,
    edit_env,
    edit_selector,
    edit_label,
    remove_probe,
    remove_env,
    edit_unseen,
)


@pytest.mark.parametrize("edit", EDITS)
async def test_a_hand_edit_of_the_template_is_put_back(edit: Any) -> None:
    """It was rolled out pod by pod, and stayed until the operator next wrote the template."""
    live = Live()
    assert live.outdated == ()
    before = copy.deepcopy(wanted()[SET]["spec"]["template"])
    edit(live)
    assert live.outdated == (SET,)
    await live.heal()
    assert live.outdated == ()
    known = live.body["metadata"].get("managedFields")
    assert live.template["spec"]["containers"] == before["spec"]["containers"], known
    assert "nodeSelector" not in live.template["spec"]
    assert live.template["metadata"].get("annotations") in (None, {RESTARTED: "x"})


def test_what_the_api_server_and_webhooks_fill_in_is_left() -> None:
    live = Live()
    # An admission webhook changes what the operator itself writes.
    live.container["image"] = "mirror.example/raftnode:1"
    live.template["spec"]["containers"].append({"name": "injected", "image": "sidecar:1"})
    assert live.outdated == ()
    # Others write what it is anyway, and the status.
    live.written_by("helm", {"f:spec": {"f:dnsPolicy": {}, "f:securityContext": {".": {}}}})
    quantity = {"f:resources": {"f:limits": {"f:cpu": {}, "f:memory": {}}}}
    port = {"f:ports": {'k:{"containerPort":9093,"protocol":"TCP"}': {".": {}, "f:protocol": {}}}}
    live.written_by("helm", {"f:spec": {"f:containers": {NODE: quantity | port}}})
    assert live.outdated == ()


def test_a_restart_that_a_person_asks_for_is_no_change() -> None:
    """`kubectl rollout restart` is rolled pod by pod, as it is meant."""
    live = Live()
    live.template["metadata"]["annotations"] = {RESTARTED: "2026-01-01T00:00:00Z"}
    live.written_by("kubectl-rollout", {"f:metadata": {"f:annotations": {f"f:{RESTARTED}": {}}}})
    assert live.outdated == ()


async def test_what_is_changed_again_at_once_is_refused_and_not_written_for_ever() -> None:
    live = Live()
    remove_probe(live)
    live.rewrites = True
    with pytest.raises(RefusedError, match="webhook"):
        await live.heal()


def test_the_fields_are_those_of_the_api_server() -> None:
    assert json.loads(NODE[2:]) == {"name": names.CONTAINER}
