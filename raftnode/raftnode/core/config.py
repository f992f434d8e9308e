"""The core's times and limits; the settings' reference has their names for users (P57)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """All times in milliseconds, all sizes in bytes.

    Invariant: an election round trip fits well into `election_timeout_ms`;
    otherwise elections livelock.
    """

    fetch_timeout_ms: int = 2000
    """How long a voter keeps its leader without a good Fetch; a leader resigns after 1.5 times
    this."""
    election_timeout_ms: int = 1000
    """How long one round of asking for votes may take; a catch-up round must be shorter."""
    election_backoff_max_ms: int = 1000
    """Upper bound of the random wait after a lost election."""
    fetch_max_wait_ms: int = 500
    """How long the leader holds a Fetch for which it has no records."""
    request_timeout_ms: int = 2000
    """How long an answer may take, a Fetch's wait not counted."""
    retry_backoff_ms: int = 20
    """First wait after a failed request; doubles."""
    retry_backoff_max_ms: int = 1000
    transfer_again_ms: int = 30_000
    """How long a leader that was elected without disk space keeps leading before it tries another
    leadership transfer: each attempt writes a record."""
    fetch_max_bytes: int = 1 << 20
    """How much one Fetch brings; at least one batch, whatever its size."""
    fetches_in_flight_max: int = 1
    """How many Fetches a follower has under way. 1: the follower sends the next Fetch when the
    records of the last one are durable. More: it sends the next Fetch at once, and another when
    records became durable; answers that are not durable yet count too."""
    high_watermark_wait_ms: int = 15
    """How long a leader holds a new high watermark back, so that it goes with the next records; 0:
    not at all. A follower with a client that waits for it gets it at once."""
    max_uncommitted_bytes: int = 64 << 20
    """How many bytes of clients' batches a leader appends ahead of its high watermark."""
    lease_clock_drift_percent: int = 0
    """By how much, at the most, a replica's clock runs faster than another's. A leader then
    answers reads alone while a majority promises to elect no other leader. 0: the node assumes
    nothing of clocks and promises nothing, and each read takes a round."""
    keeps_every_record: bool = False
    """Whether no snapshot may ever replace records: a leader whose log is whole then sends all
    records even to a replica with an empty log (P22 would send it the snapshot)."""
    pending_changes_max: int = 8
    """How many voter changes may wait at once; one more is refused."""
    announces_blank: bool = False
    """Whether a replica without a cluster announces itself to the leader by Fetches; the node does
    where it has bootstrap servers."""
    announcements_max: int = 8
    """How many Fetches a blank replica sends to one leader before it asks a bootstrap server again.
    """
    observers_max: int = 64
    """How many observers the leader tracks; it forgets the longest silent observer first."""

    @property
    def announce_interval_ms(self) -> int:
        """The time between two Fetches of a blank replica; it is gone after a fetch timeout."""
        return self.fetch_timeout_ms // 4

    @property
    def promise_ms(self) -> int:
        """For how long after each answer of its leader a voter does not vote; 0: no promise."""
        return self.fetch_timeout_ms if self.lease_clock_drift_percent else 0

    @property
    def leader_timeout_ms(self) -> int:
        """How long a leader goes on without Fetches from a majority (P41)."""
        return self.fetch_timeout_ms * 3 // 2
