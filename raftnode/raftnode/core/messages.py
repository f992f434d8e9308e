"""The messages between replicas, without their encoding.

`wire` maps these to Kafka's messages inside our envelope (S28). Every response
carries the epoch and the leader, (id, UUID), that the responder knows (P2, S1).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from raftnode.core.records import Batch
from raftnode.core.types import (
    FIRST_OFFSET,
    NO_OFFSET,
    Endpoint,
    Epoch,
    LogPosition,
    Offset,
    ReplicaKey,
)


class ErrorCode(enum.IntEnum):
    """Kafka's error codes, as far as the quorum uses them (P3).

    The documents' VOTER_ALREADY_ADDED is Kafka's DUPLICATE_VOTER, their
    VOTER_ALREADY_REMOVED its VOTER_NOT_FOUND.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INCONSISTENT_VOTER_SET = 94
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    # Ours: the documents name them without a number.
    NOT_VOTER = 1001
    FENCED_REPLICA = 1002
    """S3: this replica fetches below what it had acknowledged; its storage went back in time."""
    NOT_FOLLOWER = 1003
    """P36, S17: a voter in its own log, whose removal is committed; the records come along."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Ask a voter for its vote, or with `pre_vote` whether it would give it (P5, P6; KIP-996)."""

    epoch: Epoch
    candidate: ReplicaKey
    voter: ReplicaKey
    last: LogPosition
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """The voter's answer to a VoteRequest."""

    error: ErrorCode
    epoch: Epoch
    leader: ReplicaKey | None
    granted: bool


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A new leader tells a voter of its epoch until it acknowledges or fetches (P12-P15)."""

    epoch: Epoch
    leader: ReplicaKey
    voter: ReplicaKey
    endpoint: Endpoint | None


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    """The voter's answer to a BeginQuorumEpochRequest."""

    error: ErrorCode
    epoch: Epoch
    leader: ReplicaKey | None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader (or candidate: leader None) gives up its epoch; sent once (P16-P19, S17).

    `preferred_successors` is ordered by acknowledged offset, most first. A voter's place in it,
    counted from 0, decides how long the voter waits before it starts an election.
    """

    epoch: Epoch
    leader: ReplicaKey | None
    voter: ReplicaKey
    preferred_successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    """The voter's answer to an EndQuorumEpochRequest."""

    error: ErrorCode
    epoch: Epoch
    leader: ReplicaKey | None


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Ask the leader for records from `fetch_offset` on (P20-P23).

    `acknowledged_offset` is the fetcher's durable end and alone moves the high
    watermark (S10). `round_token` echoes the newest token that a response of this
    leader carried: what a confirmed answer counts (S11). `incarnation` counts the
    starts of the fetcher's storage (S3). `promise_ms`: since the answer that brought that
    token the fetcher does not vote for so long (S33); 0: it promises nothing.
    """

    epoch: Epoch
    replica: ReplicaKey
    fetch_offset: Offset
    last_fetched_epoch: Epoch
    acknowledged_offset: Offset
    high_watermark: Offset
    round_token: int
    incarnation: int
    max_bytes: int
    max_wait_ms: int
    sequence: int = 0
    """Rises with each Fetch and with each start, so that a delayed one is known as such (S3)."""
    endpoint: Endpoint | None = None
    """Where the fetcher listens; the leader offers it as the endpoint of a would-be voter."""
    raft_version_max: int = 0
    """The newest raft.version that the fetcher's program knows (P56); 0: it says none."""
    promise_ms: int = 0
    wants_high_watermark: bool = False
    """A client of the fetcher waits for the next commit: the leader holds no news of it back."""
    blank: bool = False
    """The fetcher belongs to no cluster yet: it announces itself and fetches nothing (S5)."""


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Records, or where the two logs part, or an error with the leader to ask instead."""

    error: ErrorCode
    epoch: Epoch
    leader: ReplicaKey | None
    leader_endpoint: Endpoint | None = None
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = FIRST_OFFSET
    diverging: LogPosition | None = None
    snapshot: LogPosition | None = None
    """Begin with this one: the log here does not reach back to what was asked for (KIP-630)."""
    batches: tuple[Batch, ...] = ()
    round_token: int = 0
    join: str | None = None
    """The cluster that a blank fetcher is to join, because it is to become a voter (S5)."""


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """Ask the leader for bytes of a snapshot from `position` on (KIP-630, P25).

    It counts as a sign of life like a Fetch, token included (P40, S11); it acknowledges nothing.
    """

    epoch: Epoch
    replica: ReplicaKey
    snapshot: LogPosition
    position: int
    max_bytes: int
    round_token: int = 0
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """Bytes of a snapshot, or an error with the leader to ask instead.

    `size` is the whole file's; `data` begins at `position` and at no batch's boundary.
    """

    error: ErrorCode
    epoch: Epoch
    leader: ReplicaKey | None
    snapshot: LogPosition
    position: int
    leader_endpoint: Endpoint | None = None
    size: int = 0
    data: bytes = b""
    round_token: int = 0


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
)
