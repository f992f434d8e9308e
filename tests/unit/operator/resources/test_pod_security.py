"""How a node's pod runs: within `restricted`, and within OpenShift's `restricted-v2`."""

from __future__ import annotations

from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import node_config
from kraftquorum_operator.settings import load_settings

OWNER = Owner("test", "demo", "uid")
ASSIGNED = Installation(user_id=None)


def pod(installation: Installation | None = None, **given: Any) -> Body:
    spec = QuorumSpec.model_validate(given)
    bodies = build(
        OWNER, spec, 3, node_config(spec, names.DEFAULTS), None, installation or Installation()
    )
    return bodies[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"]


def values_of(body: object, key: str) -> list[object]:
    """All values of a key, at any depth."""
    if isinstance(body, dict):
        return [
            entry
            for name, part in body.items()
            for entry in ([part] if name == key else values_of(part, key))
        ]
    return [x for part in body for x in values_of(part, key)] if isinstance(body, list) else []


@pytest.mark.parametrize("installation", [Installation(), ASSIGNED])
def test_a_pod_is_restricted_and_has_no_token(installation: Installation) -> None:
    body = pod(installation)
    assert body["automountServiceAccountToken"] is False
    assert body["securityContext"]["runAsNonRoot"] is True
    assert body["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = body["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(body)
    assert not values_of(body, "hostPath")
    assert not values_of(body, "hostPort")


def test_a_pod_runs_as_the_image_s_user_whose_group_owns_the_volume() -> None:
    context = pod()["securityContext"]
    assert {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {10_001}


def test_a_pod_names_no_user_and_no_group_where_the_cluster_assigns_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OpenShift's `restricted-v2` refuses a pod with any user outside of the namespace's range."""
    monkeypatch.setenv("KRAFTQUORUM_NODE_USER", "assigned")
    body = pod(load_settings().installation)
    for key in ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"):
        assert values_of(body, key) == []


@pytest.mark.parametrize(
    ("operator", "given", "secrets"),
    [
        ("", {}, []),
        ("first, second,first", {}, ["first", "second"]),
        ("first", {"imagePullSecrets": [{"name": "own"}]}, ["own"]),
        ("first", {"imagePullSecrets": []}, []),
    ],
)
def test_pull_secrets_come_from_the_resource_or_else_from_the_operator(
    operator: str, given: Body, secrets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFTQUORUM_NODE_IMAGE_PULL_SECRETS", operator)
    body = pod(load_settings().installation, **given)
    assert body.get("imagePullSecrets", []) == [{"name": name} for name in secrets]


def test_a_name_that_no_secret_can_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFTQUORUM_NODE_IMAGE_PULL_SECRETS", "good,Not_Good")
    with pytest.raises(SettingsError, match=r"NODE_IMAGE_PULL_SECRETS.*'Not_Good' is not the name"):
        load_settings()
