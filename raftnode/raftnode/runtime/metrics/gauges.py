"""Keeps the metrics of a node current (P58, P59)."""

from __future__ import annotations

import time

from raftnode.api.metrics import NodeMetrics
from raftnode.core.describe import describe
from raftnode.core.replica import Replica
from raftnode.core.roles import Candidate, Leader, Prospective
from raftnode.core.types import Epoch, format_directory_id
from raftnode.runtime.description import is_caught_up, present, role_of
from raftnode.runtime.writes.appends import Appends


class Gauges:
    """Copies the core's state into the metrics; called on a timer and after elections."""

    def __init__(
        self, metrics: NodeMetrics, replica: Replica, appends: Appends, version: str = ""
    ) -> None:
        self._metrics = metrics
        self._version = version
        self._replica = replica
        self._appends = appends
        self._appended = 0
        self._stood_at: float | None = None
        self._stood_epoch = Epoch(-1)
        self._cluster_id: str | None = None
        self._busy_s, self._wall_s = time.thread_time(), time.monotonic()
        metrics.incarnation.set(replica.incarnation)
        self._show_replica()

    def watch_elections(self) -> None:
        """Measure from an election's start to a known leader; cheap, called after each turn."""
        role, replica = self._replica.role, self._replica
        if isinstance(role, Prospective | Candidate):
            if self._stood_at is None:
                self._stood_at = time.monotonic()
            if isinstance(role, Candidate) and replica.epoch != self._stood_epoch:
                self._stood_epoch = replica.epoch
                self._metrics.elections.inc()
        elif self._stood_at is not None and replica.leader is not None:
            self._metrics.election_latency_seconds.observe(time.monotonic() - self._stood_at)
            self._stood_at = None

    def refresh(self) -> None:
        """Copy the whole state."""
        metrics, replica = self._metrics, self._replica
        if replica.cluster_id != self._cluster_id:
            self._show_replica()
        log, role = replica.log, replica.role
        metrics.current_state.state(role_of(replica))
        metrics.current_leader.set(replica.leader.node_id if replica.leader else -1)
        metrics.current_epoch.set(replica.epoch)
        self._show_vote()
        metrics.log_start_offset.set(log.start)
        metrics.log_end_offset.set(log.end)
        metrics.log_end_epoch.set(log.last_epoch)
        metrics.durable_end_offset.set(log.durable_end)
        metrics.high_watermark.set(replica.high_watermark)
        metrics.caught_up.set(is_caught_up(present(replica), replica.config))
        metrics.voters.set(len(log.voters))
        metrics.voter_record_offset.set(log.voter_record.offset)
        metrics.unknown_voter_connections.set(
            sum(voter.endpoint is None for voter in log.voters.voters)
        )
        metrics.append_queue_bytes.set(self._appends.queued_bytes)
        metrics.appends_pending.set(self._appends.pending)
        appended = self._appends.appended_records
        metrics.appended_records.inc(appended - self._appended)
        self._appended = appended
        self._refresh_leader(role if isinstance(role, Leader) else None)
        busy_s, wall_s = time.thread_time(), time.monotonic()
        elapsed = max(wall_s - self._wall_s, 1e-9)
        metrics.poll_idle_ratio.set(min(max(1 - (busy_s - self._busy_s) / elapsed, 0), 1))
        self._busy_s, self._wall_s = busy_s, wall_s

    def _show_vote(self) -> None:
        voted = self._replica.state.voted
        self._metrics.current_vote.set(-1 if voted is None else voted.node_id)
        self._metrics.current_vote_directory.info(
            {"directory_id": "" if voted is None else format_directory_id(voted.directory_id)}
        )

    def _show_replica(self) -> None:
        replica = self._replica
        self._cluster_id = replica.cluster_id
        self._metrics.replica.info(
            {
                "node_id": str(replica.key.node_id),
                "directory_id": format_directory_id(replica.key.directory_id),
                "cluster_id": replica.cluster_id or "",
                "version": self._version,
            }
        )

    def _refresh_leader(self, role: Leader | None) -> None:
        metrics, log = self._metrics, self._replica.log
        described = describe(self._replica)
        observers = described.observers if described else ()
        changes = role.changes if role else []
        metrics.observers.set(len(observers))
        metrics.possible_voters.set(len(observers))
        metrics.pending_add_voter.set(sum(change.kind == "add" for change in changes))
        metrics.pending_remove_voter.set(sum(change.kind == "remove" for change in changes))
        metrics.uncommitted_bytes.set(role.uncommitted.size if role else 0)
        metrics.uncommitted_voter_change.set(
            log.voter_record.offset >= self._replica.high_watermark
        )
