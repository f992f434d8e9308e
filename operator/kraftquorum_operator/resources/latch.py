"""The formation latch: a create-once, immutable ConfigMap without an owner (S18)."""

from __future__ import annotations

import json
from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.observe.snapshot import Latch, LatchVoter, Replica
from kraftquorum_operator.resources.metadata import Body, Owner, metadata


def latch(owner: Owner, cluster_id: str, voters: tuple[LatchVoter, ...], *, adopted: bool) -> Body:
    """The latch's body; named by the resource's UID, so that it is never another's."""
    meta = metadata(owner, names.latch(owner.uid))
    del meta["ownerReferences"]
    meta["labels"] = meta["labels"] | {names.LABEL_OWNER_UID: owner.uid}
    listed = [
        {
            "nodeId": voter.replica.node_id,
            "directoryId": voter.replica.directory_id,
            "endpoint": voter.endpoint,
        }
        for voter in voters
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "immutable": True,
        "data": {
            "clusterId": cluster_id,
            "voters": json.dumps(listed),
            "origin": "adopted" if adopted else "formed",
        },
    }


def read_latch(body: Body) -> Latch:
    """Read a latch back.

    Raises:
        ValueError: the ConfigMap is not a latch of ours, e.g. not immutable.
    """
    try:
        if body.get("immutable") is True:
            return _read(cast("dict[str, str]", body["data"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    msg = f"ConfigMap {body['metadata']['name']} is not an immutable formation latch"
    raise ValueError(msg)


def _read(data: dict[str, str]) -> Latch:
    listed = cast("list[dict[str, Any]]", json.loads(data["voters"]))
    return Latch(
        cluster_id=data["clusterId"],
        voters=tuple(
            LatchVoter(Replica(int(v["nodeId"]), str(v["directoryId"])), v.get("endpoint"))
            for v in listed
        ),
        adopted=data.get("origin") == "adopted",
    )
