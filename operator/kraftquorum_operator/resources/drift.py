"""Changes of an object by other clients, in the fields that matter (S22, S25).

The digest on an object shows only what the operator wrote last; `kubectl patch` does
not change it. So the operator compares the fields that protect voters and data, those
by which replicas and clients find each other, and the pod template (`template.py`),
whose change would cause a rolling restart. The API server may change all other fields.
"""

from __future__ import annotations

from typing import cast

from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.resources.ownership import earlier_keys
from kraftquorum_operator.resources.template import template_change, template_changed

BUDGET = ("minAvailable", "maxUnavailable", "selector")
NETWORK_POLICY = ("podSelector", "policyTypes", "ingress", "egress")
SERVICE = ("selector", "publishNotReadyAddresses")
CLASHING = ("PodDisruptionBudget", "Service")
"""Kinds for which `change_before_apply` may have a change."""
RETENTION_POLICY = "persistentVolumeClaimRetentionPolicy"
DEFAULTS: Body = {"whenDeleted": "Retain", "whenScaled": "Retain"}
"""What the API server means when it does not show the policy."""


def has_drifted(wanted: Body, live: Body) -> bool:
    """Whether a live object lost what its wanted body has and must have.

    `podManagementPolicy` is not compared: the API server allows no change of it.
    """
    if wanted["kind"] == "Secret":
        # An apply removes no entry of another client, so that would stay a change for ever.
        data = cast("Body", live.get("data") or {})
        return any(data.get(key) != value for key, value in wanted["data"].items())
    want, have = wanted["spec"], cast("Body", live.get("spec") or {})
    match wanted["kind"]:
        case "PodDisruptionBudget":
            return any(want.get(key) != have.get(key) for key in BUDGET)
        case "Certificate":
            return not _has(have, want)
        case "NetworkPolicy":
            return any(want.get(key) != have.get(key) for key in NETWORK_POLICY)
        case "Service":
            # The API server does not show `false`.
            changed = any((want.get(key) or None) != (have.get(key) or None) for key in SERVICE)
            return changed or not _ports(want) <= _ports(have)
        case "StatefulSet":
            strategy = cast("Body", have.get("updateStrategy") or {})
            retained = DEFAULTS | cast("Body", have.get(RETENTION_POLICY) or {})
            first = cast("Body", have.get("ordinals") or {}).get("start", 0)
            return (
                strategy.get("type") != want["updateStrategy"]["type"]
                or retained != want[RETENTION_POLICY]
                or first != 0
                or not _labels(wanted) <= _labels(live)
                or template_changed(wanted, live)
            )
        case _:
            return False


def _has(have: object, want: object) -> bool:
    """Whether wanted fields are there; those of other clients stay, as in an apply."""
    if not isinstance(want, dict) or not isinstance(have, dict):
        return have == want
    fields = cast("Body", have)
    return all(_has(fields.get(key), value) for key, value in cast("Body", want).items())


def _ports(spec: Body) -> set[tuple[object, object]]:
    return {
        (port["port"], port.get("targetPort"))
        for port in cast("list[Body]", spec.get("ports") or [])
    }


def _labels(body: Body) -> set[tuple[str, str]]:
    return set(cast("dict[str, str]", body["metadata"].get("labels") or {}).items())


def statefulset_change(wanted: Body, live: Body) -> Body:
    """A merge patch with all that may change of a StatefulSet, except its replicas.

    It is no apply, which removes only what it owns: of the template this also removes what other
    clients added.

    Args:
        wanted: the body that the operator writes.
        live: the live object.
    """
    spec = wanted["spec"]
    have = cast("Body", cast("Body", live.get("spec") or {}).get("template") or {})
    return {
        "metadata": {
            part: dict.fromkeys(earlier_keys(wanted, live, part)) | wanted["metadata"][part]
            for part in ("annotations", "labels")
        },
        "spec": {
            "template": template_change(spec["template"], have),
            # The settings of another strategy would be refused beside ours.
            "updateStrategy": spec["updateStrategy"] | {"rollingUpdate": None},
            RETENTION_POLICY: spec[RETENTION_POLICY],
            # Ordinals are node ids: counted from another number, a voter would have no pod.
            "ordinals": None,
        },
    }


def change_before_apply(wanted: Body, live: Body) -> Body | None:
    """A merge patch of what the API server would refuse beside an apply; None: there is nothing.

    It also sets what it makes room for: two patches would leave a moment with neither.
    """
    want, have = wanted["spec"], cast("Body", live.get("spec") or {})
    match wanted["kind"]:
        case "PodDisruptionBudget" if have.get("maxUnavailable") is not None:
            return {"spec": {"maxUnavailable": None, "minAvailable": want["minAvailable"]}}
        case "Service" if ports := _ports_without_clash(want["ports"], have.get("ports") or []):
            return {"spec": {"ports": ports}}
        case _:
            return None


def _ports_without_clash(want: list[Body], have: list[Body]) -> list[Body]:
    """The wanted ports and those of other clients, if one has a wanted name and another number.

    An apply knows a port by its number and protocol, and a name may be there once.
    """
    numbers = {port["name"]: _number(port) for port in want}
    if all(numbers.get(port.get("name"), _number(port)) == _number(port) for port in have):
        return []
    foreign = (port for port in have if port.get("name") not in numbers)
    return [*(port for port in foreign if _number(port) not in numbers.values()), *want]


def _number(port: Body) -> tuple[int, str]:
    return port["port"], port.get("protocol", "TCP")
