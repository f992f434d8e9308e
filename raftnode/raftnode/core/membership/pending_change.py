"""A voter change, and a target of a reassignment, between request and commit (P28-P33, S11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raftnode.core.membership.pending_wait import PendingWait
from raftnode.core.types import ReplicaKey, Voter, VoterRecordId, VoterSet


@dataclass(slots=True)
class PendingChange(PendingWait):
    """One AddVoter or RemoveVoter."""

    kind: Literal["add", "remove"]
    voter: Voter
    expected: VoterRecordId
    replaces: ReplicaKey | None = None

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
class PendingTarget(PendingWait):
    """A reassignment's target between its request and its commit (P33)."""

    target: VoterSet
    expected: VoterRecordId | None
