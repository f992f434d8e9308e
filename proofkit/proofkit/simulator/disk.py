"""A disk that loses unsynced writes in a crash.

The log of a disk is kept whole for the checker, whatever was trimmed of it or came in a
snapshot: what the replica itself may read begins at `start`.
"""

from __future__ import annotations

import bisect
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from proofkit.simulator.machine import Machine
from raftnode.core.effects import (
    InstallSnapshot,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    ProveDisk,
    TruncateLog,
)
from raftnode.core.log_head import LogHead
from raftnode.core.log_index import LogIndex
from raftnode.core.records import RAFT_VERSION, Batch
from raftnode.core.replication.peer_memory import LINE_MAX, Mark, Start
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import (
    FIRST_OFFSET,
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    VoterSet,
)

Barrier = (
    PersistQuorumState | PersistLatch | PersistClusterId | ProveDisk | TruncateLog | InstallSnapshot
)
"""What a process waits for its disk to do before it does anything else."""


@dataclass(frozen=True, slots=True)
class SimSnapshot:
    """A snapshot: the state at a place of the log, and what the log below said of the quorum."""

    head: LogHead
    batches: tuple[Batch, ...]
    """All that it covers, from offset 0 on: for the checker, nothing that can be read of it."""
    state: Machine = field(default_factory=Machine)
    """Never changed."""

    @property
    def position(self) -> LogPosition:
        """Its name."""
        return self.head.position

    @property
    def end(self) -> Offset:
        """One past the last record that it covers."""
        return self.head.position.end_offset

    @property
    def content(self) -> bytes:
        """The file: the same bytes for the same state at the same place."""
        head = self.head
        voters = ",".join(str(key) for key in head.voters)
        target = ",".join(str(key) for key in head.target_voters)
        return (
            f"{head.position} {head.voter_record} {voters} {head.target_record} {target} "
            f"{head.raft_version} {head.formation_completed} {self.state.digest:08x}"
        ).encode()


def _base_offset(batch: Batch) -> Offset:
    return batch.base_offset


@dataclass(slots=True)
class SimDisk:
    """One storage, with its UUID.

    Invariant: `durable` is the log as the last flush left it; a crash leaves that,
    or a longer part of what was written since.
    """

    key: ReplicaKey
    state: QuorumState = field(default_factory=QuorumState)
    cluster_id: str | None = None
    latch: Latch | None = None
    incarnation: int = 0
    line: tuple[str, ...] = ()
    """Nonces of its starts, the latest first (S3)."""
    peer_marks: Mapping[ReplicaKey, Mark] = field(default_factory=dict[ReplicaKey, Mark])
    """What is remembered of the peers; replaced, never changed."""
    stale: bool = False
    """A peer knew more of it than it does: it is never started again."""
    log: list[Batch] = field(default_factory=list[Batch])
    durable: list[Batch] = field(default_factory=list[Batch])
    ever_flushed: set[int] = field(default_factory=set[int])
    """Identities of all batches that were ever durable here: what acknowledgements rest on."""
    start: Offset = FIRST_OFFSET
    """Of what the replica can read of its log."""
    snapshots: list[SimSnapshot] = field(default_factory=list[SimSnapshot])
    """What has the name of one, the oldest first."""
    rotten: set[LogPosition] = field(default_factory=set[LogPosition])
    """Of those, the ones that a reader will find damaged."""
    incoming: tuple[LogPosition, bytes] | None = None
    """What was fetched of a snapshot; a crash loses it."""
    promised_ms: int = 0
    """The longest that one of its starts may have promised not to vote (S33)."""
    checked: int = 0
    """How many batches from the start the checker has found committed; see `Checker.committed`."""

    def promise(self, promise_ms: int) -> int:
        """Remember what a start will promise; returns what earlier ones may have promised."""
        earlier_ms, self.promised_ms = self.promised_ms, max(self.promised_ms, promise_ms)
        return earlier_ms

    @classmethod
    def fresh(cls, node_id: NodeId, rng: random.Random) -> SimDisk:
        """Return an empty disk with a new UUID."""
        return cls(ReplicaKey(node_id, uuid.UUID(int=rng.getrandbits(128), version=4)))

    def begin(self, rng: random.Random) -> Start:
        """Count a start; return the hello of this start."""
        self.incarnation += 1
        self.line = (f"{rng.getrandbits(64):016x}", *self.line)[:LINE_MAX]
        return Start(self.incarnation, self.line, self.end, self.state.epoch)

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Append batches, not durable yet."""
        self.log.extend(batches)

    def truncate(self, end: Offset) -> None:
        """Cut the log, not yet durably."""
        while self.log and self.log[-1].base_offset >= end:
            self.log.pop()
        self.checked = min(self.checked, len(self.log))

    def flush(self, up_to: Offset) -> None:
        """Make what was written before the flush began durable."""
        self.durable = self.log[: self.position(up_to)]
        for batch in reversed(self.durable):
            if id(batch) in self.ever_flushed:
                break  # and so is all before it: flushes cover prefixes
            self.ever_flushed.add(id(batch))

    def position(self, offset: Offset) -> int:
        """Index in `log` of the first batch that begins at or after an offset."""
        if not self.log or offset > self.log[-1].base_offset:
            return len(self.log)
        return bisect.bisect_left(self.log, offset, key=_base_offset)

    # -- snapshots -----------------------------------------------------------------------

    def take_snapshot(self, head: LogHead, retained: int) -> SimSnapshot:
        """Make one of the log as it stands, durably, and remove what is too old."""
        covered = tuple(self.log[: self.position(head.position.end_offset)])
        made = SimSnapshot(head, covered, Machine.of(covered))
        self.keep_snapshot(made)
        self.snapshots = self.snapshots[-retained:]
        return made

    def keep_snapshot(self, made: SimSnapshot) -> None:
        """Add a snapshot, durably."""
        others = [snapshot for snapshot in self.snapshots if snapshot.position != made.position]
        self.snapshots = sorted([*others, made], key=lambda snapshot: snapshot.end)
        self.rotten.discard(made.position)

    def drop_snapshot(self, position: LogPosition) -> None:
        """Remove a snapshot, or set it aside."""
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.position != position]
        self.rotten.discard(position)

    def snapshot(self, position: LogPosition) -> SimSnapshot | None:
        """Return the snapshot at a position."""
        return next(
            (snapshot for snapshot in self.snapshots if snapshot.position == position), None
        )

    def state_of(self, snapshot: SimSnapshot) -> Machine:
        """Return the state of a snapshot; of a damaged one any state."""
        if snapshot.position in self.rotten:
            return Machine(snapshot.end, digest=-1)
        return snapshot.state.copy()

    def newest_whole(self) -> SimSnapshot | None:
        """Return the snapshot of a start, which reads the newest first and sets damaged ones aside.

        The log has to reach back to it: one that ends before the log's start is of no use.
        """
        for snapshot in reversed(self.snapshots):
            if snapshot.position not in self.rotten:
                return snapshot if snapshot.end >= self.start else None
            self.drop_snapshot(snapshot.position)
        return None

    def store_piece(self, snapshot: LogPosition, position: int, data: bytes) -> int | None:
        """Take a piece; None: it does not follow what there is."""
        if position == 0:
            self.incoming = (snapshot, b"")
        if self.incoming is None or self.incoming[0] != snapshot:
            return None
        before = self.incoming[1]
        if len(before) != position:
            return None
        self.incoming = (snapshot, before + data)
        return position + len(data)

    def install(self, snapshot: SimSnapshot) -> None:
        """Replace the log by a snapshot, durably."""
        self.incoming = None
        self.keep_snapshot(snapshot)
        self.log = list(snapshot.batches)
        self.start = snapshot.end
        self.checked = 0
        self.flush(self.end)

    def trim(self, start: Offset) -> None:
        """Trim the log below an offset."""
        self.start = max(self.start, start)

    def saved(self) -> SimDisk:
        """Return a copy of the volume, to restore later (S3)."""
        return replace(
            self,
            log=list(self.log),
            durable=list(self.durable),
            ever_flushed=set(self.ever_flushed),
            snapshots=list(self.snapshots),
            rotten=set(self.rotten),
            incoming=None,
            checked=0,
        )

    def crash(self, rng: random.Random) -> None:
        """Lose unsynced writes: all, none, or all but a prefix; a truncation may be undone."""
        common = 0
        while (
            common < min(len(self.log), len(self.durable))
            and self.log[common] is self.durable[common]
        ):
            common += 1
        if rng.random() < 0.5:
            self.log = list(self.durable)
        else:
            self.log = self.log[: rng.randint(common, len(self.log))]
        self.checked = 0
        self.incoming = None
        self.flush(self.end)

    @property
    def end(self) -> Offset:
        """The log end offset."""
        return self.log[-1].end_offset if self.log else FIRST_OFFSET

    def index(self) -> LogIndex:
        """Return the recovered index; recovery has flushed the log."""
        readable = self.log[self.position(self.start) :]
        epochs: list[tuple[Epoch, Offset]] = []
        if self.start > FIRST_OFFSET:
            before = self.log[self.position(self.start) - 1]
            epochs.append((before.epoch, Offset(self.start - 1)))
        for batch in readable:
            if not epochs or batch.epoch > epochs[-1][0]:
                epochs.append((batch.epoch, batch.base_offset))
        return LogIndex.restore(
            self.latch.voters if self.latch else VoterSet(),
            start=self.start,
            end=self.end,
            epochs=epochs,
            control=[batch for batch in readable if batch.control],
            base_raft_version=self.latch.raft_version if self.latch else RAFT_VERSION,
            head=self.snapshots[-1].head if self.snapshots else None,
        )
