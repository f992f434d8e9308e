"""Batches and control records as the core sees them.

A batch is a run of records that is appended, truncated and replicated as a whole. The core reads
its header and, in a control batch, its records; the bytes pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.types import Epoch, Offset, ReplicaKey, Voter

RAFT_VERSION = 2
"""The newest version that this program knows, and the one that quorums are formed with (S12):
any voters, UUIDs mandatory. See `core.membership.raft_version` for the older ones."""


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """First record of every epoch: the leader and the voters that elected it (KIP-595, KIP-856)."""

    leader: ReplicaKey
    voters: tuple[ReplicaKey, ...]
    granting_voters: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class AddVoter:
    """KIP-856's AddVoterRecord: in force as soon as it is in the log (P32)."""

    voter: Voter


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """KIP-856's RemoveVoterRecord: in force as soon as it is in the log (P32)."""

    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class RaftVersion:
    """The protocol version from here on; never lowered."""

    version: int


@dataclass(frozen=True, slots=True)
class FormationCompleted:
    """All voters hold the formation batch: client writes may begin, for ever (P52, S19)."""


@dataclass(frozen=True, slots=True)
class TargetVoters:
    """KIP-642's target: the voters that the leader is to establish; none: no more (P33-P35, S15).

    Each voter is pinned to its UUID. The steps to the target are AddVoter and RemoveVoter records.
    """

    voters: tuple[Voter, ...]


ControlRecord = (
    LeaderChange | AddVoter | RemoveVoter | RaftVersion | FormationCompleted | TargetVoters
)


@dataclass(frozen=True, slots=True)
class Batch:
    """A run of records with consecutive offsets from one epoch.

    Invariant: `last_offset >= base_offset`; `control` is empty for data.
    `data` is the encoded record batch exactly as it stands in the segment and on
    the wire; empty only in a control batch that this leader has just made, which
    storage encodes, and in simulations.
    """

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch
    data: bytes = b""
    control: tuple[ControlRecord, ...] = ()

    @property
    def end_offset(self) -> Offset:
        """One past the last record."""
        return Offset(self.last_offset + 1)
