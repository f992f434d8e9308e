"""What voter changes, targets and upgrades share between a request and its commit (S11, S24).

The requests of clients that ask for the same thing share one wait. Until its record is in the log,
a wait ends without a trace. Then the record stands, and its outcome is unknown until it is
committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from raftnode.core.effects import Effect, Refused
from raftnode.core.reasons.refusals import (
    LeadershipEnded,
    LeadershipEndedBeforeCommit,
    NotCommittedInTime,
    NotStartedInTime,
    Reason,
)
from raftnode.core.reasons.waits import Awaited, Wait
from raftnode.core.types import Offset


@dataclass(slots=True, kw_only=True)
class PendingWait:
    """Requests that wait for one record of the log.

    Attributes:
        deadline_ms: When the requests are answered at the latest, on the core's clock.
        request_ids: The requests. A wait that the leader began by itself has none.
        appended: The offset of the record; None until it is in the log.
        waiting_for: Why the record is not in the log, or not committed; shown by DescribeQuorum.
    """

    deadline_ms: int
    request_ids: set[int] = field(default_factory=set[int])
    appended: Offset | None = None
    waiting_for: Wait = Awaited.LEADER

    def join(self, request_id: int, deadline_ms: int) -> None:
        """Let another request for the same thing wait, and wait as long as the later deadline."""
        self.request_ids.add(request_id)
        self.deadline_ms = max(self.deadline_ms, deadline_ms)

    def leave(self, request_id: int) -> bool:
        """Forget a request that no client waits for; True: give the wait up, it left no trace."""
        if request_id not in self.request_ids:
            return False  # nor a removal that this leader wants by itself (S23)
        self.request_ids.discard(request_id)
        return not self.request_ids and self.appended is None

    def completed(self, answer: Callable[[int], Effect]) -> list[Effect]:
        """The answers once the record is committed."""
        return [answer(request_id) for request_id in sorted(self.request_ids)]

    def refused(self, reason: Reason) -> list[Effect]:
        """The answers while the record is not in the log."""
        return [Refused(request_id, reason) for request_id in sorted(self.request_ids)]

    def timed_out(self) -> list[Effect]:
        """The answers at the deadline."""
        if self.appended is None:
            return self.refused(NotStartedInTime(self.waiting_for))
        return self._unknown(NotCommittedInTime(self.appended))

    def leadership_lost(self) -> list[Effect]:
        """The answers of a leader that leads no more."""
        if self.appended is None:
            return self.refused(LeadershipEnded())
        return self._unknown(LeadershipEndedBeforeCommit(self.appended))

    def _unknown(self, reason: Reason) -> list[Effect]:
        return [Refused(request_id, reason, "unknown") for request_id in sorted(self.request_ids)]


@dataclass(slots=True)
class PendingUpgrade(PendingWait):
    """A higher raft.version between its request and its commit (P54, P56)."""

    version: int
