"""A disk that forgets what was not fsynced."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field

from raftnode.core.log_index import LogIndex
from raftnode.core.records import Batch
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import FIRST_OFFSET, NodeId, Offset, ReplicaKey, VoterSet


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
    log: list[Batch] = field(default_factory=list[Batch])
    durable: list[Batch] = field(default_factory=list[Batch])
    ever_flushed: set[int] = field(default_factory=set[int])
    """Identities of all batches that were ever durable here: what acknowledgements rest on."""

    @classmethod
    def fresh(cls, node_id: NodeId, rng: random.Random) -> SimDisk:
        """An empty disk, which gets a new UUID."""
        return cls(ReplicaKey(node_id, uuid.UUID(int=rng.getrandbits(128), version=4)))

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Write at the end, not yet durable."""
        self.log.extend(batches)

    def truncate(self, end: Offset) -> None:
        """Cut the log, not yet durably."""
        while self.log and self.log[-1].base_offset >= end:
            self.log.pop()

    def flush(self, up_to: Offset) -> None:
        """Make what was written before the flush began durable."""
        self.durable = [batch for batch in self.log if batch.end_offset <= up_to]
        self.ever_flushed.update(id(batch) for batch in self.durable)

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
        self.flush(self.end)

    @property
    def end(self) -> Offset:
        """The log end offset."""
        return self.log[-1].end_offset if self.log else FIRST_OFFSET

    def index(self) -> LogIndex:
        """What recovery tells the core; recovery has flushed what it found."""
        index = LogIndex(self.latch.voters if self.latch else VoterSet())
        for batch in self.log:
            index.append(batch)
        index.durable_end = index.end
        return index
