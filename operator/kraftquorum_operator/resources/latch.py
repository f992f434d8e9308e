"""The formation latch: a create-once, immutable ConfigMap without an owner (S18)."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.latch import latch_data
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import Latch, LatchVoter
from kraftquorum_operator.resources.metadata import metadata


def latch(owner: Owner, cluster_id: str, voters: tuple[LatchVoter, ...], *, adopted: bool) -> Body:
    """The latch's body; the resource's UID in its name keeps it from other resources."""
    meta = metadata(owner, names.latch(owner.uid))
    del meta["ownerReferences"]
    meta["labels"] = meta["labels"] | {names.LABEL_OWNER_UID: owner.uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "immutable": True,
        "data": latch_data(Latch(cluster_id, voters, adopted)),
    }
