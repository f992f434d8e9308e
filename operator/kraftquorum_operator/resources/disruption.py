"""The disruption budget: it counts voters, not pods (S22).

It selects them by their names, which a pod keeps when Kubernetes recreates it. So a voter whose pod
restarts while no operator runs is counted as soon as it is ready.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import majority
from kraftquorum_operator.resources.metadata import metadata, selector, stamped


def disruption_budget(owner: Owner, voters: int, target: int, pods: Collection[str] = ()) -> Body:
    """Keep a majority of the larger of today's and tomorrow's voter set.

    A single voter is never evicted: move it by hand, or scale up first.

    Args:
        owner: the resource.
        voters: how many voters are in force now.
        target: how many the resource wants.
        pods: names of the pods that it counts.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, owner.name),
        "spec": {
            "minAvailable": majority(max(voters, target)),
            "selector": {
                "matchLabels": selector(owner),
                "matchExpressions": [_by_name(owner.name, pods)],
            },
        },
    }


def _by_name(quorum: str, pods: Collection[str]) -> Body:
    """Select pods by their names; each pod of a StatefulSet has the label, so `()` selects none."""
    if not pods:
        return {"key": names.LABEL_POD, "operator": "DoesNotExist"}
    ordered = sorted(pods, key=lambda name: names.ordinal_of(name, quorum) or 0)
    return {"key": names.LABEL_POD, "operator": "In", "values": ordered}


def with_pods(budget: Body, pods: Collection[str]) -> Body:
    """A stamped budget of `build` that counts other pods."""
    meta = cast("Body", budget["metadata"])
    annotations = {k: v for k, v in meta["annotations"].items() if k != names.ANNOTATION_HASH}
    bare = {key: value for key, value in meta.items() if key != "annotations"}
    spec, quorum = cast("Body", budget["spec"]), str(meta["name"])
    chosen = spec["selector"] | {"matchExpressions": [_by_name(quorum, pods)]}
    changed = budget | {
        "metadata": bare | ({"annotations": annotations} if annotations else {}),
        "spec": spec | {"selector": chosen},
    }
    return stamped(changed)
