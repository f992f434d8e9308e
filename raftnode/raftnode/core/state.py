"""What a replica must remember across a crash besides its log (P46, S18-S20)."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.records import RAFT_VERSION
from raftnode.core.types import NO_EPOCH, Epoch, ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class QuorumState:
    """KIP-856's QuorumStateData with the leader's UUID added (S1).

    Invariant: `voted` never changes within an epoch once set.
    """

    epoch: Epoch = NO_EPOCH
    leader: ReplicaKey | None = None
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Latch:
    """The voters that the quorum was formed with: the base of the voter history (S18, S19).

    The latch is kept for ever; it is in force only while the log holds no voter record.
    """

    cluster_id: str
    voters: VoterSet
    raft_version: int = RAFT_VERSION
    """The version that the quorum begins at; 0: the voters are never written into the log (P54)."""
