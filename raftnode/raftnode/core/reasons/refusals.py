"""Why a request of a client or an administrator is not done.

Each reason belongs to a `Refusal`, the name that the API gives it, and has the figures that explain
it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from raftnode.core.reasons.waits import Wait
from raftnode.core.types import NodeId, Offset, ReplicaKey, VoterRecordId, VoterSet


class Refusal(enum.Enum):
    """The kinds of refusals; stable names of the API."""

    NOT_LEADER = "NOT_LEADER"
    LEADERSHIP_LOST = "LEADERSHIP_LOST"
    LEADERSHIP_TRANSFER_PENDING = "LEADERSHIP_TRANSFER_PENDING"
    FORMATION_INCOMPLETE = "FORMATION_INCOMPLETE"
    STORAGE_FULL = "STORAGE_FULL"
    TOO_MUCH_UNCOMMITTED = "TOO_MUCH_UNCOMMITTED"
    WAITING = "WAITING"
    TIMED_OUT = "TIMED_OUT"
    STALE_VOTER_RECORD = "STALE_VOTER_RECORD"
    VOTER_ALREADY_ADDED = "VOTER_ALREADY_ADDED"
    VOTER_ALREADY_REMOVED = "VOTER_ALREADY_REMOVED"
    NOT_AN_OBSERVER = "NOT_AN_OBSERVER"
    LAST_VOTER = "LAST_VOTER"
    TOO_MANY_CHANGES = "TOO_MANY_CHANGES"
    REASSIGNMENT_PENDING = "REASSIGNMENT_PENDING"
    AMBIGUOUS_VOTER = "AMBIGUOUS_VOTER"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    VERSION_NOT_LOWERED = "VERSION_NOT_LOWERED"
    NOT_CONFIGURED = "NOT_CONFIGURED"
    LAST_OF_ITS_ID = "LAST_OF_ITS_ID"
    ALREADY_FORMED = "ALREADY_FORMED"
    NOT_LISTED = "NOT_LISTED"


# -- leadership ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotTheLeader:
    """This replica does not lead."""

    refusal: ClassVar = Refusal.NOT_LEADER


@dataclass(frozen=True, slots=True)
class LeadershipEnded:
    """The replica led when the request came, leads no more, and the request left no trace."""

    refusal: ClassVar = Refusal.NOT_LEADER


@dataclass(frozen=True, slots=True)
class LeadershipEndedBeforeCommit:
    """The leadership ended with the request's record in the log; its outcome is unknown."""

    refusal: ClassVar = Refusal.LEADERSHIP_LOST
    appended: Offset


@dataclass(frozen=True, slots=True)
class TransferUnderWay:
    """The leader takes no writes while it transfers leadership."""

    refusal: ClassVar = Refusal.LEADERSHIP_TRANSFER_PENDING
    successor: ReplicaKey


@dataclass(frozen=True, slots=True)
class CannotTakeOver:
    """The wanted voter cannot take leadership, or none can; `able` can.

    Attributes:
        wanted: the voter that the request names; None: any.
    """

    refusal: ClassVar = Refusal.WAITING
    wanted: ReplicaKey | None
    able: tuple[ReplicaKey, ...]


# -- writes ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormationIncomplete:
    """A voter may still lack the voter records (S19)."""

    refusal: ClassVar = Refusal.FORMATION_INCOMPLETE


@dataclass(frozen=True, slots=True)
class DiskFull:
    """The leader's disk has no space for clients' records (S30)."""

    refusal: ClassVar = Refusal.STORAGE_FULL


@dataclass(frozen=True, slots=True)
class TooMuchUncommitted:
    """So many bytes are appended and not committed."""

    refusal: ClassVar = Refusal.TOO_MUCH_UNCOMMITTED
    size: int


# -- the wait for a record -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotStartedInTime:
    """The deadline came before the record was in the log; there is no trace of the request."""

    refusal: ClassVar = Refusal.WAITING
    waited_for: Wait


@dataclass(frozen=True, slots=True)
class NotCommittedInTime:
    """The deadline came with the record in the log; its outcome is unknown."""

    refusal: ClassVar = Refusal.TIMED_OUT
    appended: Offset


# -- voter changes ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The voter set in force comes from another record than the request expects (S11)."""

    refusal: ClassVar = Refusal.STALE_VOTER_RECORD
    expected: VoterRecordId
    now: VoterRecordId


@dataclass(frozen=True, slots=True)
class AlreadyVoter:
    """The addition has no effect: the replica is a committed voter."""

    refusal: ClassVar = Refusal.VOTER_ALREADY_ADDED
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class NotAVoter:
    """The removal has no effect: the replica is none of the committed voters."""

    refusal: ClassVar = Refusal.VOTER_ALREADY_REMOVED
    key: ReplicaKey
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class NeverFetched:
    """The replica to add has not fetched from this leader (P29)."""

    refusal: ClassVar = Refusal.NOT_AN_OBSERVER
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class Fenced:
    """The replica to add lost records that it had acknowledged (S3)."""

    refusal: ClassVar = Refusal.NOT_AN_OBSERVER
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class LastVoter:
    """The replica to remove is the only voter."""

    refusal: ClassVar = Refusal.LAST_VOTER
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class TooManyChanges:
    """As many voter changes wait as the configuration allows."""

    refusal: ClassVar = Refusal.TOO_MANY_CHANGES
    waiting: int


@dataclass(frozen=True, slots=True)
class ReassignmentPending:
    """During a reassignment only the leader changes the voters (P34)."""

    refusal: ClassVar = Refusal.REASSIGNMENT_PENDING
    target: VoterSet


# -- reassignments ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetNeedsVersion:
    """At this raft.version the ids of the voters are fixed; a target needs `needed` (P54)."""

    refusal: ClassVar = Refusal.UNSUPPORTED_VERSION
    raft_version: int
    needed: int


@dataclass(frozen=True, slots=True)
class AnotherTargetWaits:
    """The target of an earlier request is not committed yet."""

    refusal: ClassVar = Refusal.TOO_MANY_CHANGES
    target: VoterSet


@dataclass(frozen=True, slots=True)
class AmbiguousId:
    """A target names an id that several replicas have (S15)."""

    refusal: ClassVar = Refusal.AMBIGUOUS_VOTER
    node_id: NodeId
    candidates: frozenset[ReplicaKey]


@dataclass(frozen=True, slots=True)
class UnknownId:
    """A target names an id that no voter and no observer has."""

    refusal: ClassVar = Refusal.NOT_AN_OBSERVER
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class IdListedTwice:
    """A target names two replicas of one id."""

    refusal: ClassVar = Refusal.AMBIGUOUS_VOTER


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    """The voters or their target are no longer those of the request; `now` is the newest record."""

    refusal: ClassVar = Refusal.STALE_VOTER_RECORD
    now: VoterRecordId


# -- raft.version ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedVoters:
    """At raft.version 0 the voters never change (P54)."""

    refusal: ClassVar = Refusal.UNSUPPORTED_VERSION


@dataclass(frozen=True, slots=True)
class IdNotConfigured:
    """At raft.version 1 a voter has one of the ids of the present voters (P29)."""

    refusal: ClassVar = Refusal.NOT_CONFIGURED
    node_id: NodeId
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class LastOfItsId:
    """At raft.version 1 each id keeps a voter (P30)."""

    refusal: ClassVar = Refusal.LAST_OF_ITS_ID
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class UnknownVersion:
    """This program knows versions up to `known`."""

    refusal: ClassVar = Refusal.UNSUPPORTED_VERSION
    version: int
    known: int


@dataclass(frozen=True, slots=True)
class NeverLowered:
    """The quorum is at a higher raft.version than the request asks for."""

    refusal: ClassVar = Refusal.VERSION_NOT_LOWERED
    raft_version: int


@dataclass(frozen=True, slots=True)
class AnotherUpgradeWaits:
    """An upgrade to another version is not committed yet."""

    refusal: ClassVar = Refusal.TOO_MANY_CHANGES
    version: int


# -- joining ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OtherCluster:
    """The storage belongs to a cluster already, or was formed with other voters (S18)."""

    refusal: ClassVar = Refusal.ALREADY_FORMED
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class NotListed:
    """The bootstrap record does not name this replica (S18)."""

    refusal: ClassVar = Refusal.NOT_LISTED
    key: ReplicaKey
    voters: VoterSet


Reason = (
    NotTheLeader
    | LeadershipEnded
    | LeadershipEndedBeforeCommit
    | TransferUnderWay
    | CannotTakeOver
    | FormationIncomplete
    | DiskFull
    | TooMuchUncommitted
    | NotStartedInTime
    | NotCommittedInTime
    | VotersChanged
    | AlreadyVoter
    | NotAVoter
    | NeverFetched
    | Fenced
    | LastVoter
    | TooManyChanges
    | ReassignmentPending
    | TargetNeedsVersion
    | AnotherTargetWaits
    | AmbiguousId
    | UnknownId
    | IdListedTwice
    | AssignmentChanged
    | FixedVoters
    | IdNotConfigured
    | LastOfItsId
    | UnknownVersion
    | NeverLowered
    | AnotherUpgradeWaits
    | OtherCluster
    | NotListed
)
