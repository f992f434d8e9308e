"""Batches and control records as the core sees them.

A batch is a run of records that lives and dies together: appended, truncated
and replicated whole. The core reads its header and, when it is a control batch,
the records in it; the bytes pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.types import Epoch, Offset, ReplicaKey, Voter

RAFT_VERSION = 2
"""The newest version that this program knows, and the one that quorums are formed with (S12):
any voters, UUIDs mandatory. See `core.membership.raft_version` for the older ones."""


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """First record of every epoch: who leads and who voted for it (KIP-595, KIP-856)."""

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
    """KIP-642's target: the leader is to make these the voters; none: no more (P33-P35, S15).

    Each is pinned to its UUID. The steps towards it are AddVoter and RemoveVoter records.
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
