"""Messages between the replicas, and the names that scripts give to replicas."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
)
from raftnode.core.types import NodeId, ReplicaKey

KINDS: dict[str, type[Request]] = {
    "vote": VoteRequest,
    "begin": BeginQuorumEpochRequest,
    "end": EndQuorumEpochRequest,
    "fetch": FetchRequest,
    "snapshot": FetchSnapshotRequest,
}


@dataclass(slots=True)
class Message:
    """A request (`response` None) or an answer on its way."""

    number: int
    source: str
    target: str | None
    request: Request
    response: Response | None = None
    answers: tuple[str, int] | None = None
    """The life of the asker, as (name, incarnation): an answer is for that life only."""

    @property
    def kind(self) -> str:
        """The name of the kind, with `-answer` in an answer."""
        if isinstance(self.request, VoteRequest) and self.request.pre_vote:
            kind = "pre-vote"
        else:
            kind = next(name for name, type_ in KINDS.items() if isinstance(self.request, type_))
        return kind if self.response is None else f"{kind}-answer"


def key_of(name: str) -> ReplicaKey:
    """Return the replica of a name: `3` is node 3, `3'` the same node on its second disk."""
    node_id = int(name.rstrip("'"))
    disk = name.count("'")
    return ReplicaKey(NodeId(node_id), uuid.UUID(int=(node_id << 64) | (disk + 1), version=4))


def name_of(key: ReplicaKey) -> str:
    """Return the name of a replica."""
    name = named(key)
    assert name is not None, key
    return name


def named(key: ReplicaKey) -> str | None:
    """Return the name of a replica; None: it has none."""
    names = (f"{key.node_id}{chr(39) * disk}" for disk in range(9))
    return next((name for name in names if key_of(name) == key), None)
