"""All objects of a quorum that are kept as they should be."""

from __future__ import annotations

from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.disruption import disruption_budget
from kraftquorum_operator.resources.metadata import Body, Owner, stamped
from kraftquorum_operator.resources.services import client_service, headless_service
from kraftquorum_operator.resources.statefulset import statefulset


def object_key(body: Body) -> str:
    """How an object is named in a snapshot and an action: `Kind/name`."""
    return f"{body['kind']}/{body['metadata']['name']}"


def build(owner: Owner, spec: QuorumSpec, voters: int) -> dict[str, Body]:
    """Every object that goes with the resource, by `Kind/name`.

    Args:
        owner: the resource.
        spec: what is wanted.
        voters: how many voters are in force now; the disruption budget needs it.
    """
    bodies = (
        headless_service(owner),
        client_service(owner),
        disruption_budget(owner, voters, spec.voters),
        statefulset(owner, spec),
    )
    return {object_key(body): stamped(body) for body in bodies}
