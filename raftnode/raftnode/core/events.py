"""The events of a replica. Counterpart: `effects`, which the core asks for in answer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from raftnode.core.log_head import LogHead
from raftnode.core.messages import Request, Response
from raftnode.core.state import Latch
from raftnode.core.types import (
    Endpoint,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
)


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A deadline may be due; the time itself is `handle`'s argument."""


@dataclass(frozen=True, slots=True)
class EndpointBound:
    """The replica listens: others reach it at `endpoint`, which its requests and answers name."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A peer, known by its connection as `source`, asks. Answered by `SendResponse`."""

    request_id: int
    source: ReplicaKey
    request: Request


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """`source` answered a request of ours."""

    source: ReplicaKey
    request: Request
    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request of ours got no answer: no connection, cut, or too late."""

    target: ReplicaKey | None
    request: Request


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """The log is durable below `end_offset`.

    `truncations` is `LogIndex.truncations` as it was when the flush began: what a
    flush covered before a truncation says nothing of what was written after it.
    """

    end_offset: Offset
    truncations: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A snapshot was made here, whole and durable.

    The log may be trimmed up to `trim_to`, which snapshots cover; its start: not at all.
    """

    snapshot: LogPosition
    trim_to: Offset


@dataclass(frozen=True, slots=True)
class SnapshotLost:
    """A snapshot of our own was found damaged; `instead` is an older one, whole and durable.

    None: there is no other, and none can be made for now.
    """

    snapshot: LogPosition
    instead: LogPosition | None


@dataclass(frozen=True, slots=True)
class SnapshotPieceStored:
    """The storage has the first `end` bytes of a snapshot that is being fetched."""

    snapshot: LogPosition
    end: int


@dataclass(frozen=True, slots=True)
class SnapshotVerified:
    """The snapshot that was fetched is whole; this is what it says of the quorum."""

    head: LogHead


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """What was fetched cannot be used: damaged, or there is no room for it."""

    snapshot: LogPosition
    reason: str


@dataclass(frozen=True, slots=True)
class AppendRequested:
    """Clients' records, encoded as one batch; answered by AppendAccepted or Refused."""

    request_id: int
    data: bytes
    record_count: int


@dataclass(frozen=True, slots=True)
class AddVoterRequested:
    """An administrator's AddVoter; answered by VoterChangeCompleted or Refused (P28, S11)."""

    request_id: int
    voter: Voter
    expected: VoterRecordId
    deadline_ms: int
    replaces: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class RemoveVoterRequested:
    """An administrator's RemoveVoter; answered by VoterChangeCompleted or Refused (P30, S11)."""

    request_id: int
    key: ReplicaKey
    expected: VoterRecordId
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Target:
    """One replica of a target set; without a UUID the leader pins the only one of that id (S15)."""

    node_id: NodeId
    directory_id: uuid.UUID | None = None
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class ReassignmentRequested:
    """Make these the voters, step by step; none: leave them as they are now (P33, P35).

    Answered by Done once the target itself is committed, or by Refused. `expected` is
    `LogIndex.assignment_record` as the caller saw it (S11); only taking back needs none.
    """

    request_id: int
    targets: tuple[Target, ...]
    expected: VoterRecordId | None
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class UpgradeRequested:
    """An administrator finalises a higher raft.version; answered by Done or Refused (P54, P56)."""

    request_id: int
    version: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmRequested:
    """Is this still the leader? Answered by Confirmed once a majority fetched after now (S11).

    With `for_read`, the request also waits until a record of the leader's epoch is committed, so
    that the high watermark covers all that was ever acknowledged. Within a lease it waits for no
    other replica (S33).
    """

    request_id: int
    for_read: bool


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """Transfer leadership; answered by Done or Refused."""

    request_id: int
    preferred: ReplicaKey | None


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """No client waits for this request; the core gives it up unless it is in the log (S24)."""

    request_id: int


@dataclass(frozen=True, slots=True)
class CommitAwaited:
    """A client waits here until the record at `offset` is committed; nothing is answered.

    A follower then asks its leader not to hold the high watermark back.
    """

    offset: Offset


@dataclass(frozen=True, slots=True)
class LatchReceived:
    """The one-shot permission to form a quorum (S18-S20); answered by Done or Refused."""

    request_id: int
    latch: Latch


@dataclass(frozen=True, slots=True)
class ClusterJoined:
    """A blank replica learned the cluster id and becomes an observer (S5); Done or Refused."""

    request_id: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class DiskSpaceChanged:
    """The disk has less free space than its reserve, or has enough again (S30).

    `full`: less than a part of the reserve is left; that part is kept for votes and epochs. A
    follower then takes no more records. It votes, answers and follows, and catches up later.
    """

    low: bool
    full: bool = False


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The process is about to exit: a leader says so to its voters (P17)."""


Event = (
    TimePassed
    | EndpointBound
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | LogFlushed
    | SnapshotTaken
    | SnapshotLost
    | SnapshotPieceStored
    | SnapshotVerified
    | SnapshotRefused
    | AppendRequested
    | AddVoterRequested
    | RemoveVoterRequested
    | UpgradeRequested
    | ReassignmentRequested
    | ConfirmRequested
    | ResignRequested
    | RequestAbandoned
    | CommitAwaited
    | LatchReceived
    | ClusterJoined
    | DiskSpaceChanged
    | ShutdownRequested
)
