"""Why the core stops for good: to go on would break a promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raftnode.core.types import NodeId, Offset, ReplicaKey

Place = Literal["log", "snapshot"]
"""Where a record was found: in the own log, or in the leader's snapshot."""


@dataclass(frozen=True, slots=True)
class TruncationBelowHighWatermark:
    """A truncation to `end` would drop committed records (P22)."""

    end: Offset
    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class StorageFenced:
    """The leader saw this replica acknowledge more than it has now (S3)."""

    leader: ReplicaKey


@dataclass(frozen=True, slots=True)
class UnknownRaftVersion:
    """This program knows versions up to `known` (P54)."""

    place: Place
    raft_version: int
    known: int


@dataclass(frozen=True, slots=True)
class UnlistedVoterIds:
    """At raft.version 1 the ids of the voters are those of the configuration (P52)."""

    place: Place
    node_ids: frozenset[NodeId]


HaltReason = TruncationBelowHighWatermark | StorageFenced | UnknownRaftVersion | UnlistedVoterIds
