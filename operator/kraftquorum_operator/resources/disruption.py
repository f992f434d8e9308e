"""The disruption budget: it counts voters, not pods (S22)."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import majority
from kraftquorum_operator.resources.metadata import metadata, selector


def disruption_budget(owner: Owner, voters: int, target: int) -> Body:
    """Keep a majority of the larger of today's and tomorrow's voter set.

    A single voter is never evicted: move it by hand, or scale up first.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, owner.name),
        "spec": {
            "minAvailable": majority(max(voters, target)),
            "selector": {"matchLabels": selector(owner) | {names.LABEL_VOTER: "true"}},
        },
    }
