"""A leader's knowledge of one other replica (P24, S3, S10, S13)."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.types import FIRST_OFFSET, NO_OFFSET, Endpoint, Epoch, Offset


@dataclass(slots=True)
class Progress:
    """Progress of one (id, UUID) in this leader's epoch.

    Invariant: `acknowledged` only grows, and never past the replica's durable end.
    """

    acknowledged: Offset = NO_OFFSET
    """One past what the replica knows to be durable; -1: not heard from in this epoch."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    round_token: int = 0
    promised_until_ms: int = 0
    """Until then the replica does not vote, by the leader's clock (S33)."""
    incarnation: int = 0
    sequence: int = -1
    endpoint: Endpoint | None = None
    raft_version_max: int = 0
    """The newest raft.version that its program knows, as it said (P56); 0: it said none."""
    fenced: bool = False
    """S3: the replica once fetched below what it had acknowledged. It no longer counts."""
    higher_epoch: Epoch | None = None
    """The epoch of its last Fetch, if above this leader's: it cannot follow this leader (S9)."""
    announced_ms: int | None = None
    """When it last announced itself without a cluster; None: it has none or has fetched since."""
    begin_done: bool = False
    begin_in_flight: bool = False
    begin_at_ms: int = 0
    round_target: Offset = FIRST_OFFSET
    round_started_ms: int | None = None
    round_ms: int | None = None
    """How long the last catch-up round took; None: none was finished."""

    def fetched(self, acknowledged: Offset, log_end: Offset, now_ms: int) -> None:
        """Note a consistent Fetch: advances the acknowledgement and the catch-up round.

        A round ends when the replica has acknowledged the log end of its beginning (S13):
        a bounded goal, unlike the log end itself, which moves.
        """
        self.acknowledged = max(self.acknowledged, acknowledged)
        if self.acknowledged >= log_end:
            self.last_caught_up_ms = now_ms
        if self.round_started_ms is None:
            self.round_target, self.round_started_ms = log_end, now_ms
        if self.acknowledged >= self.round_target:
            # It now has all that the leader had then: under steady writes it never has all there
            # is, and is caught up all the same (P26, LastCaughtUpTimestamp).
            self.last_caught_up_ms = max(self.last_caught_up_ms or 0, self.round_started_ms)
            self.round_ms = now_ms - self.round_started_ms
            self.round_target, self.round_started_ms = log_end, now_ms

    @property
    def has_asked(self) -> bool:
        """Whether the replica has fetched from this leader, even in a higher epoch."""
        return self.last_fetch_ms is not None or self.higher_epoch is not None

    def is_announced(self, now_ms: int, within_ms: int) -> bool:
        """Whether it announced itself within the last `within_ms` and belongs to no cluster."""
        return self.announced_ms is not None and now_ms - self.announced_ms <= within_ms

    def is_fresh(self, now_ms: int, within_ms: int) -> bool:
        """Whether it fetched within the last `within_ms`."""
        return self.last_fetch_ms is not None and now_ms - self.last_fetch_ms <= within_ms

    def is_caught_up(self, now_ms: int, fetch_timeout_ms: int, round_max_ms: int) -> bool:
        """Whether a majority may rely on the replica: it is fresh, and its rounds short (S13)."""
        if self.fenced or self.round_ms is None or self.round_started_ms is None:
            return False
        if self.round_ms > round_max_ms or not self.is_fresh(now_ms, fetch_timeout_ms):
            return False
        behind = self.acknowledged < self.round_target
        return not (behind and now_ms - self.round_started_ms > round_max_ms)
