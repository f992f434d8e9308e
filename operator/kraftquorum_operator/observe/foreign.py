"""Objects that have our names and belong to another owner (pure, over dicts).

A quorum's Services and its disruption budget have the quorum's name. An application of the same
name may have created such an object first, and `a-peers` is a name of the quorum `a` and of a
quorum `a-peers`. The operator never overwrites such an object; a person decides which one gets
the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner


def controller_of(body: Body) -> Body | None:
    """The reference to the object that a body belongs to."""
    references = cast("list[Body]", body["metadata"].get("ownerReferences") or [])
    return next((reference for reference in references if reference.get("controller")), None)


def foreign_objects(owner: Owner, bodies: Iterable[Body]) -> tuple[tuple[ObjectRef, str], ...]:
    """The objects that do not belong to this resource, and why."""
    owners = [(ObjectRef.of(body), _other_owner(owner, body)) for body in bodies]
    return tuple(
        (key, f"it exists already and belongs to {other}; delete it or rename the resource")
        for key, other in owners
        if other
    )


def belongs_to(owner: Owner, body: Body) -> bool | None:
    """Whether an object belongs to a resource by its owner reference.

    None: it was made for the resource, by its labels, and has no owner now.
    """
    controller = controller_of(body)
    if controller is not None:
        return controller.get("uid") == owner.uid
    labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
    made = labels.get(names.LABEL_MANAGED_BY), labels.get(names.LABEL_INSTANCE)
    other = labels.get(names.LABEL_OWNER_UID, owner.uid) != owner.uid
    return False if other or made != (names.MANAGER, owner.name) else None


def _other_owner(owner: Owner, body: Body) -> str:
    """The other owner of an object; empty: this resource, or an earlier one of its name."""
    controller = controller_of(body)
    if controller is not None:
        kind, name = str(controller.get("kind")), str(controller.get("name"))
        ours = controller.get("uid") == owner.uid or (kind, name) == (names.KIND, owner.name)
        return "" if ours else f"{kind} {name}"
    labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
    made = labels.get(names.LABEL_MANAGED_BY), labels.get(names.LABEL_INSTANCE)
    return "" if made == (names.MANAGER, owner.name) else "another owner"
