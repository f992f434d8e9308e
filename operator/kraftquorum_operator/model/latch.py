"""The content of a formation latch, and how the operator reads it (S18)."""

from __future__ import annotations

import json
from typing import Any, cast

from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.observation import Latch, LatchVoter, ReplicaId


def latch_data(latch: Latch) -> dict[str, str]:
    """The data of the latch's ConfigMap."""
    listed = [
        {
            "nodeId": voter.replica.node_id,
            "directoryId": voter.replica.directory_id,
            "endpoint": voter.endpoint,
        }
        for voter in latch.voters
    ]
    return {
        "clusterId": latch.cluster_id,
        "voters": json.dumps(listed),
        "origin": "adopted" if latch.adopted else "formed",
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
            LatchVoter(ReplicaId(int(v["nodeId"]), str(v["directoryId"])), v.get("endpoint"))
            for v in listed
        ),
        adopted=data.get("origin") == "adopted",
    )
