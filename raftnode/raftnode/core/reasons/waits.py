"""What a voter change, a target of a reassignment or an upgrade waits for (P28-P34, P56)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from raftnode.core.types import ReplicaKey


class Awaited(enum.Enum):
    """The waits that need no figures."""

    LEADER = enum.auto()
    """The leader has not judged the request yet; it never does if the request comes too late."""
    VOTER_CHANGE_COMMIT = enum.auto()
    """The newest voter record is not committed: one change at a time (P31)."""
    VERSION_COMMIT = enum.auto()
    """A voter change waits: the newest raft.version is not committed."""
    UPGRADE_COMMIT = enum.auto()
    """An upgrade waits: the newest raft.version is not committed."""
    OWN_EPOCH_COMMIT = enum.auto()
    """No entry of the leader's own epoch is committed (P28, P34)."""
    ASSIGNMENT_COMMIT = enum.auto()
    """The newest record of voters, target or raft.version is not committed."""
    STEP_COMMIT = enum.auto()
    """A voter change is in progress, and the next step of a reassignment waits for it."""
    VOTING_LEADER = enum.auto()
    """The leader is no voter and is about to resign."""
    SUCCESSOR = enum.auto()
    """No voter of the target is caught up, so none can take leadership (P34)."""
    TRANSFER_PAUSE = enum.auto()
    """The last leadership transfer failed a moment ago."""
    MAJORITY = enum.auto()
    """The record is in the log, and a majority of the voters has not committed it."""
    NEW_MAJORITY = enum.auto()
    """The voter record is in the log, and a majority of the new voters has not committed it."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """A replica that is to be added is not caught up (P28)."""

    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class CaughtUpMajority:
    """Of the `of` voters after the change, `able` are caught up and `needed` must be (S13)."""

    able: int
    of: int
    needed: int


@dataclass(frozen=True, slots=True)
class AnsweringMajority:
    """Of the `of` voters after the change, `answered` have and `needed` must (S34)."""

    answered: int
    of: int
    needed: int


@dataclass(frozen=True, slots=True)
class CatchUpOfAll:
    """An upgrade needs all voters caught up, and these are not (P56)."""

    missing: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class NewerPrograms:
    """An upgrade needs programs that know the version; these replicas run older ones (P56)."""

    version: int
    replicas: frozenset[ReplicaKey]


@dataclass(frozen=True, slots=True)
class SuccessorLog:
    """The successor does not have the whole log yet, and takes leadership then."""

    successor: ReplicaKey


@dataclass(frozen=True, slots=True)
class SuccessorLeadership:
    """A leadership transfer to this voter has begun (P34)."""

    successor: ReplicaKey


@dataclass(frozen=True, slots=True)
class BlockedStep:
    """A possible next step of a reassignment, and what it waits for."""

    kind: Literal["add", "remove"]
    key: ReplicaKey
    waiting_for: Wait


@dataclass(frozen=True, slots=True)
class BlockedSteps:
    """Every possible next step of a reassignment waits."""

    steps: tuple[BlockedStep, ...]


Wait = (
    Awaited
    | CatchUp
    | CaughtUpMajority
    | AnsweringMajority
    | CatchUpOfAll
    | NewerPrograms
    | SuccessorLog
    | SuccessorLeadership
    | BlockedSteps
)
