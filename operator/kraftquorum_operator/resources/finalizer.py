"""The finalizer, which delays a deletion until the operator has deleted the quorum's data."""

from __future__ import annotations

from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body


def finalizer_change(resource: Body, *, held: bool) -> Body | None:
    """A merge patch that adds or removes the finalizer; None: it is there or not, as wanted.

    The patch replaces all finalizers, so it has the resourceVersion that they were read with.

    Args:
        resource: as it was read.
        held: whether the finalizer is to be there.
    """
    meta = resource["metadata"]
    finalizers = cast("list[str]", meta.get("finalizers") or [])
    if (names.FINALIZER in finalizers) == held:
        return None
    others = [finalizer for finalizer in finalizers if finalizer != names.FINALIZER]
    wanted = [*others, names.FINALIZER] if held else others
    return {"metadata": {"finalizers": wanted, "resourceVersion": meta["resourceVersion"]}}
