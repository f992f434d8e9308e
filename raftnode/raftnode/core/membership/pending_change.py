"""A voter change between its request and its commit (P28-P31, S11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from raftnode.core.types import Offset, ReplicaKey, Voter, VoterRecordId, VoterSet

NOT_BEGUN = "the leader to begin it"
"""What a request waits for until the leader first judges it; one that comes too late never is."""


@dataclass(slots=True)
class PendingChange:
    """One AddVoter or RemoveVoter.

    `appended` is the offset of its record; until it is set the change can be given
    up without a trace (S24).
    """

    kind: Literal["add", "remove"]
    voter: Voter
    expected: VoterRecordId
    deadline_ms: int
    request_ids: set[int] = field(default_factory=set[int])
    replaces: ReplicaKey | None = None
    appended: Offset | None = None
    waiting_for: str = NOT_BEGUN
    """Why the change is not yet in the log, or not committed; shown by DescribeQuorum."""

    @property
    def key(self) -> ReplicaKey:
        """The replica that is added or removed."""
        return self.voter.key

    def applied_to(self, voters: VoterSet) -> VoterSet:
        """The set after this change."""
        return voters.with_added(self.voter) if self.kind == "add" else voters.without(self.key)

    def same_as(self, other: PendingChange) -> bool:
        """Whether a request asks for the very same change (it then shares the wait)."""
        return (self.kind, self.key, self.expected) == (other.kind, other.key, other.expected)


@dataclass(slots=True)
class PendingTarget:
    """A reassignment's target between its request and its commit (P33)."""

    target: VoterSet
    expected: VoterRecordId | None
    deadline_ms: int
    request_ids: set[int] = field(default_factory=set[int])
    appended: Offset | None = None
    waiting_for: str = NOT_BEGUN


@dataclass(slots=True)
class PendingUpgrade:
    """A higher raft.version between its request and its commit (P54, P56)."""

    version: int
    deadline_ms: int
    request_ids: set[int] = field(default_factory=set[int])
    appended: Offset | None = None
    waiting_for: str = NOT_BEGUN
