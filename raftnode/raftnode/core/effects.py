"""The effects that the core asks for.

The caller's duties:

1. Carry effects out in their order. Messages to peers may leave later than effects that follow
   them, but before a barrier is begun, and none leaves once anything has failed.
2. `PersistQuorumState`, `PersistLatch`, `PersistClusterId` and `ProveDisk` are durable
   (fsynced) before any later effect is begun. If that fails the process ends (never retries).
3. `AppendBatches` and `TruncateLog` are visible to reads before any later effect; a
   flush follows soon and is reported by `LogFlushed`.
4. `Halt` ends the process; nothing is sent after it.
5. `StoreSnapshotPiece` and `VerifySnapshot` may be done in the background, one after the
   other; their outcome comes back as an event. `InstallSnapshot` is a barrier, and all of it
   happens or nothing, over any crash.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from raftnode.core.log_head import LogHead
from raftnode.core.messages import (
    ErrorCode,
    FetchResponse,
    FetchSnapshotResponse,
    Request,
    Response,
)
from raftnode.core.reasons.halts import HaltReason
from raftnode.core.reasons.refusals import Reason, Refusal
from raftnode.core.records import Batch
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Epoch, LogPosition, Offset, ReplicaKey, VoterRecordId, VoterSet


@dataclass(frozen=True, slots=True)
class PersistQuorumState:
    """Make epoch, leader and vote durable. A barrier."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class PersistLatch:
    """Make the latch durable, and with it the cluster id. A barrier."""

    latch: Latch


@dataclass(frozen=True, slots=True)
class PersistClusterId:
    """Make the cluster id durable. A barrier."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class ProveDisk:
    """Make any bytes durable, to see that the disk still works (S36). A barrier.

    On a disk that hangs, the replica falls silent here, with nothing appended.
    """


@dataclass(frozen=True, slots=True)
class AppendBatches:
    """Write batches at the end of the log."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Drop everything from `end_offset` on."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Ask a replica, or with None any bootstrap server. The outcome comes back as an event."""

    target: ReplicaKey | None
    request: Request


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Answer a peer's request."""

    request_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class ServeFetch:
    """Answer a Fetch with whole batches read from `start_offset`, added to `response`."""

    request_id: int
    response: FetchResponse
    start_offset: Offset
    max_bytes: int
    fetcher: ReplicaKey


@dataclass(frozen=True, slots=True)
class ServeSnapshot:
    """Answer a FetchSnapshot with bytes of the file, added to `response` by `with_piece`."""

    request_id: int
    response: FetchSnapshotResponse
    max_bytes: int

    def with_piece(self, size: int | None, data: bytes) -> FetchSnapshotResponse:
        """The answer.

        Args:
            size: of the whole file, bytes; None: there is no such whole snapshot here.
            data: what stands at the position.
        """
        if size is None:
            return replace(self.response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= self.response.position < size:
            return replace(self.response, error=ErrorCode.POSITION_OUT_OF_RANGE, size=size)
        return replace(self.response, size=size, data=data)


@dataclass(frozen=True, slots=True)
class StoreSnapshotPiece:
    """Write bytes of a snapshot that is being fetched; SnapshotPieceStored or SnapshotRefused.

    Position 0 drops whatever was fetched before. `size` is what the whole will be.
    """

    snapshot: LogPosition
    position: int
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class VerifySnapshot:
    """Read the fetched snapshot, which is complete, and build the state from it.

    Answered by SnapshotVerified or SnapshotRefused.
    """

    snapshot: LogPosition


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Replace log and state by the snapshot that was verified last. A barrier, and atomic."""

    head: LogHead


@dataclass(frozen=True, slots=True)
class DropSnapshot:
    """Remove what was fetched of that snapshot: it is not wanted any more."""

    snapshot: LogPosition


@dataclass(frozen=True, slots=True)
class TrimLog:
    """Whole snapshots cover the log below `start`, and no Fetch is served from there any more."""

    start: Offset


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Records below `high_watermark` are committed.

    Those below `applicable` are also durable here and may be applied and shown (S10).
    """

    high_watermark: Offset
    applicable: Offset


@dataclass(frozen=True, slots=True)
class AppendAccepted:
    """The batch stands in this leader's log; acknowledged only once committed."""

    request_id: int
    base_offset: Offset
    last_offset: Offset
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Refused:
    """A request is not done (`not_done`), or its outcome is open (`unknown`)."""

    request_id: int
    reason: Reason
    outcome: Literal["not_done", "unknown"] = "not_done"

    @property
    def refusal(self) -> Refusal:
        """The kind of the refusal."""
        return self.reason.refusal


@dataclass(frozen=True, slots=True)
class VoterChangeCompleted:
    """The change is committed by a majority of the new set."""

    request_id: int
    voter_record: VoterRecordId
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class Confirmed:
    """No other leader was elected before the request was received (S11, S33).

    A majority fetched since, or had promised to wait.
    """

    request_id: int
    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class Done:
    """A request without a result is done."""

    request_id: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Appends of this epoch that are not committed may or may not survive."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth a log line, with its fields."""

    name: str
    fields: tuple[tuple[str, str | int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Halt:
    """Going on would break a promise: end the process."""

    reason: HaltReason


Effect = (
    PersistQuorumState
    | PersistLatch
    | PersistClusterId
    | ProveDisk
    | AppendBatches
    | TruncateLog
    | SendRequest
    | SendResponse
    | ServeFetch
    | ServeSnapshot
    | StoreSnapshotPiece
    | VerifySnapshot
    | InstallSnapshot
    | DropSnapshot
    | TrimLog
    | HighWatermarkAdvanced
    | AppendAccepted
    | Refused
    | VoterChangeCompleted
    | Confirmed
    | Done
    | LeadershipLost
    | Fact
    | Halt
)
