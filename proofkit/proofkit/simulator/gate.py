"""The gate of a simulated process: the node's own memory of its peers over a simulated disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofkit.simulator.disk import SimDisk
from raftnode.core.reasons.staleness import Staleness
from raftnode.core.replica import Replica
from raftnode.core.replication.peer_memory import (
    PeerMemory,
    Start,
    is_believed,
    remember_acknowledgements,
)
from raftnode.core.types import Epoch, ReplicaKey


@dataclass(slots=True)
class SimGate:
    """The memory of one process about its peers (S3); it is lost with the process."""

    disk: SimDisk
    replica: Replica
    start: Start
    """What this process tells of itself."""
    memory: PeerMemory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = PeerMemory.restore(self.disk.peer_marks)

    def admit(self, key: ReplicaKey, start: Start) -> Staleness | None:
        """Judge a peer's hello and remember its start durably; return the reason of a refusal."""
        if self.memory.mark_of(key) is start.mark:
            return None  # nearly always: it was admitted before, and nothing is new
        reason = self.memory.why_stale(key, start)
        if reason is None:
            marks = self.memory.marks_with(key, start, self.replica.log.voters)
            if marks is not None:
                self.disk.peer_marks = marks
                self.memory.admit(marks)
        return reason

    def note_acknowledgements(self) -> None:
        """After an event of a leader."""
        remember_acknowledgements(self.memory, self.replica)

    def note_epoch(self, key: ReplicaKey, epoch: Epoch) -> None:
        """A peer's message carried its epoch."""
        if epoch <= self.replica.epoch:
            self.memory.showed(key, epoch)

    def believes(self, teller: ReplicaKey) -> bool:
        """Whether this replica stops when another says that it is stale."""
        return is_believed(self.replica, teller)
