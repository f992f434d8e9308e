"""The interface between the HTTP server and the node; `runtime/service.py` implements it.

It has identities, offsets and bytes, and nothing of HTTP. Every method may raise `RequestError`,
which `raftnode.api.errors.refusal` makes.

An implementation must:

- give each write one outcome: return only once the write is committed; raise with outcome
  `not_done` only if the write is certainly not done and never will be; otherwise raise with
  `unknown`;
- keep the deadline: `timeout_ms` counts from the call, and the server adds no other;
- on cancellation of the caller, forget the waiter, not the write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from raftnode.api.model import (
    AddVoterRequest,
    Appended,
    CancelReassignmentRequest,
    FormRequest,
    JoinRequest,
    NodeInfo,
    QuorumInfo,
    RaftVersionInfo,
    ReassignmentAccepted,
    ReassignRequest,
    RemoveVoterRequest,
    ResignRequest,
    UpgradeRequest,
    VoterChanged,
)
from raftnode.api.turns import Turns
from raftnode.core.records import ControlRecord
from raftnode.core.types import Epoch, Offset
from raftnode.errors import RequestError
from raftnode.logformat.keyless import FinishedBatch
from raftnode.statemachine.kv import KeyValueReader


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append. Without a key it is a raw append; a key without a value is a delete."""

    key: bytes | None
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """The size that counts against the limits: key and value, without the encoding."""
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """A committed write: the offsets of its first and its last record, and their epoch."""

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch


WriteDone = Callable[[CommittedRun | RequestError], None]
"""Gets the outcome of a write."""

ReadDone = Callable[[Offset | RequestError], None]
"""Is called once `kv` may be read, with the offset up to which it is applied; or with the reason
why it may not."""


class Waiting(Protocol):
    """A request that waits for its outcome, whose deadline its client keeps."""

    def too_late(self, timeout_ms: int) -> RequestError:
        """Stop waiting at the deadline; return the error for the client, with its outcome."""
        ...

    def forget(self) -> None:
        """Stop waiting, because the client has gone: the outcome goes nowhere."""
        ...


@dataclass(frozen=True, slots=True)
class CommittedRecord:
    """A record below the high watermark; `control` replaces key and value in control records."""

    offset: Offset
    epoch: Epoch
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    control: ControlRecord | None = None


@dataclass(frozen=True, slots=True)
class CommittedRecords:
    """A part of the committed log."""

    records: tuple[CommittedRecord, ...]
    next_offset: Offset
    """The offset to read next; the requested one if there was no record in time."""
    high_watermark: Offset
    log_start_offset: Offset


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the node is ready, and the reason if it is not."""

    ready: bool
    reason: str
    """In words, e.g. `caught up with leader 2-…` or `no leader known`."""


class NodeService(Protocol):
    """One running node."""

    @property
    def turns(self) -> Turns:
        """The turns in which large answers are read and written."""
        ...

    @property
    def kv(self) -> KeyValueReader:
        """The key-value store as far as this replica has applied the committed log."""
        ...

    @property
    def node_id(self) -> int:
        """The node's id."""
        ...

    @property
    def cluster_id(self) -> str | None:
        """The id of the node's cluster; None: it is blank. Cheap: requests are checked with it."""
        ...

    def state(self) -> str:
        """The text of `NodeState`, which differs once something has changed."""
        ...

    def describe_node(self) -> NodeInfo:
        """This node's own state; asks no other node."""
        ...

    def stall(self) -> str | None:
        """Liveness: what makes no progress, and for how long; None: no stall."""
        ...

    def health(self) -> Health:
        """Readiness: attached to a leader and caught up. Cheap: it is called every second."""
        ...

    async def describe_quorum(self, *, confirmed: bool, timeout_ms: int) -> QuorumInfo:
        """Describe the quorum; `confirmed`: after a majority round begun after this call (S11).

        Raises:
            RequestError: NOT_LEADER, NOT_CONFIRMED, NODE_BLANK.
        """
        ...

    async def append(self, records: Sequence[NewRecord], *, timeout_ms: int) -> Appended:
        """Append records as one run with consecutive offsets and wait until it is committed.

        All or nothing. The server has checked `record_max_bytes` and `max_batch_bytes`.

        Raises:
            RequestError: NOT_LEADER, LEADERSHIP_TRANSFER_PENDING, FORMATION_INCOMPLETE, QUEUE_FULL,
                TOO_MUCH_UNCOMMITTED, STORAGE_FULL, SHUTTING_DOWN, NOT_COMMITTED; with unknown
                outcome TIMED_OUT, LEADERSHIP_LOST.
        """
        ...

    def submit(self, records: Sequence[NewRecord], done: WriteDone) -> Waiting:
        """Append as `append` does, without a task for each write: for sessions.

        `done` is called once, in a later turn of the loop, unless the caller stops waiting first.

        Raises:
            RequestError: as `append`, where the refusal is known at once; `done` is not called.
        """
        ...

    def submit_batch(self, batch: FinishedBatch, done: WriteDone) -> Waiting:
        """Append a client's batch as `submit` does, without reading its records again.

        Raises:
            RequestError: as `submit`.
        """
        ...

    def submit_read(self, done: ReadDone) -> Waiting:
        """Make a read of `kv` linearizable as `read_barrier` does, for sessions.

        `done` is called once, in a later turn of the loop, unless the caller stops waiting first.
        The caller reads `kv` in that call.

        Raises:
            RequestError: as `read_barrier`, where the refusal is known at once.
        """
        ...

    async def read(self, offset: Offset, *, max_bytes: int, max_wait_ms: int) -> CommittedRecords:
        """Read committed records from `offset` on, on any node.

        Returns at least one record if there is one, however large. Waits up to `max_wait_ms` for
        the high watermark to pass `offset`, then returns none.

        Raises:
            RequestError: OFFSET_OUT_OF_RANGE below the log start; NODE_BLANK.
        """
        ...

    async def wait_readable(self, offset: Offset, *, max_wait_ms: int) -> None:
        """Wait until `read` has a record at `offset`, or for `max_wait_ms`; it reads nothing.

        Raises:
            RequestError: NODE_BLANK.
        """
        ...

    async def read_barrier(self, *, timeout_ms: int) -> Offset:
        """Make the next read of `kv` linearizable.

        Returns the high watermark at a time after the call. By then a majority, or the lease,
        has confirmed that this node is still the leader, and `kv` is applied up to that offset.

        Raises:
            RequestError: NOT_LEADER, NOT_CONFIRMED, NODE_BLANK.
        """
        ...

    async def add_voter(self, request: AddVoterRequest) -> VoterChanged:
        """AddVoter with its guards, until committed; an identical pending one is joined (S11).

        Raises:
            RequestError: NOT_LEADER, STALE_VOTER_RECORD, VOTER_ALREADY_ADDED,
                NOT_AN_OBSERVER, TOO_MANY_CHANGES, WAITING; TIMED_OUT, LEADERSHIP_LOST.
        """
        ...

    async def remove_voter(self, request: RemoveVoterRequest) -> VoterChanged:
        """RemoveVoter with its guards, until committed; an identical pending one is joined.

        Raises:
            RequestError: NOT_LEADER, STALE_VOTER_RECORD, VOTER_ALREADY_REMOVED,
                LAST_VOTER, TOO_MANY_CHANGES, WAITING; TIMED_OUT, LEADERSHIP_LOST.
        """
        ...

    async def reassign(
        self, request: ReassignRequest | CancelReassignmentRequest
    ) -> ReassignmentAccepted:
        """Set or cancel a reassignment's target, until committed; the same one is joined.

        Raises:
            RequestError: NOT_LEADER, STALE_VOTER_RECORD, UNSUPPORTED_VERSION, NOT_AN_OBSERVER,
                AMBIGUOUS_VOTER, TOO_MANY_CHANGES, WAITING; TIMED_OUT, LEADERSHIP_LOST.
        """
        ...

    async def upgrade(self, request: UpgradeRequest) -> RaftVersionInfo:
        """Raise raft.version, until committed; an identical pending request is joined.

        Raises:
            RequestError: NOT_LEADER, UNSUPPORTED_VERSION, VERSION_NOT_LOWERED,
                TOO_MANY_CHANGES, WAITING; TIMED_OUT, LEADERSHIP_LOST.
        """
        ...

    async def resign(self, request: ResignRequest) -> None:
        """Transfer leadership; returns once this node is no longer the leader.

        Raises:
            RequestError: NOT_LEADER.
        """
        ...

    async def form(self, request: FormRequest) -> None:
        """Store the latch durably; the same latch again changes nothing and is no error (S18).

        Raises:
            RequestError: ALREADY_FORMED, NOT_LISTED.
        """
        ...

    async def join(self, request: JoinRequest) -> None:
        """Store the cluster id of a quorum to observe, durably; the same id again is no error.

        Raises:
            RequestError: INCONSISTENT_CLUSTER_ID, ALREADY_FORMED.
        """
        ...
