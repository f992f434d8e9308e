"""What somebody else changed of an object, where it matters for safety (S22, S25).

The digest on an object tells only what the operator wrote last; `kubectl patch`
leaves it as it is. So the fields that protect voters and data are compared
themselves, and only those: everything else the API server may fill in or change.
"""

from __future__ import annotations

from typing import cast

from kraftquorum_operator.resources.metadata import Body

BUDGET = ("minAvailable", "maxUnavailable", "selector")
RETAIN = "persistentVolumeClaimRetentionPolicy"
DEFAULTS: Body = {"whenDeleted": "Retain", "whenScaled": "Retain"}
"""What the API server means when it does not show the policy."""


def has_drifted(wanted: Body, found: Body) -> bool:
    """Whether a live object lost a protection that its wanted body has.

    `podManagementPolicy` is not compared: the API server lets nobody change it.
    """
    want, have = wanted["spec"], cast("Body", found.get("spec") or {})
    match wanted["kind"]:
        case "PodDisruptionBudget":
            return any(want.get(key) != have.get(key) for key in BUDGET)
        case "StatefulSet":
            strategy = cast("Body", have.get("updateStrategy") or {})
            retained = DEFAULTS | cast("Body", have.get(RETAIN) or {})
            return (
                strategy.get("type") != want["updateStrategy"]["type"] or retained != want[RETAIN]
            )
        case _:
            return False


def statefulset_change(wanted: Body) -> Body:
    """A merge patch with all that may change of a StatefulSet, except its replicas."""
    spec = wanted["spec"]
    return {
        "metadata": {"annotations": wanted["metadata"]["annotations"]},
        "spec": {
            "template": spec["template"],
            # The settings of another strategy would be refused beside ours.
            "updateStrategy": spec["updateStrategy"] | {"rollingUpdate": None},
            RETAIN: spec[RETAIN],
        },
    }


def budget_change(wanted: Body, found: Body | None) -> Body | None:
    """A merge patch that takes a foreign `maxUnavailable` off a budget; None if it has none.

    Both at once are refused, and one without the other would leave a moment with neither.
    """
    if found is None or found["spec"].get("maxUnavailable") is None:
        return None
    return {"spec": {"maxUnavailable": None, "minAvailable": wanted["spec"]["minAvailable"]}}
