"""Which commit a follower's clients wait for: the core hears of it once for all of them."""

from __future__ import annotations

from collections.abc import Callable

from raftnode.core.events import CommitAwaited
from raftnode.core.replica import Replica
from raftnode.core.roles import Follower
from raftnode.core.types import NO_OFFSET, Offset


class AwaitedCommit:
    """Tells the core of a follower up to where its clients wait.

    All clients that wait at the end of the log begin again at each commit. With an event for each
    of them, the events of the peers would wait behind thousands.

    Args:
        replica: the core's state; never changed here.
        post: gives the core an event.
    """

    def __init__(self, replica: Replica, post: Callable[[CommitAwaited], None]) -> None:
        self._replica = replica
        self._post = post
        self._reported = NO_OFFSET
        """The largest offset that the core was given for this role and this log."""
        self._role: Follower | None = None
        self._truncations = 0

    def wait(self, offset: Offset) -> None:
        """Note that a client begins to wait for the record at an offset."""
        role, log = self._replica.role, self._replica.log
        if not isinstance(role, Follower):
            return  # only a follower hears of commits late
        if role is not self._role or log.truncations != self._truncations:
            self._role, self._truncations, self._reported = role, log.truncations, NO_OFFSET
        awaited = min(offset, log.end)
        if awaited > self._reported:
            self._reported = awaited
            self._post(CommitAwaited(awaited))
