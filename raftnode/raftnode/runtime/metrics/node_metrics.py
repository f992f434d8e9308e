"""The table of the node's metrics, with the names that the KIPs give them (P58, P59).

`NodeView` is what the sources of the table see; `Gauges` refreshes. A metric without source is set
by the part that knows its value. A maximum and an average over a window in a KIP are a histogram
here, a rate is a counter: Prometheus computes the window. What only a leader knows of the
others is in `leader_metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

from prometheus_client import CollectorRegistry

from raftnode.api.metric_table import (
    CounterRow,
    EnumRow,
    GaugeRow,
    HistogramRow,
    InfoRow,
    MetricTable,
)
from raftnode.api.model import Role
from raftnode.core.describe import ReplicaDescription, describe
from raftnode.core.log_index import LogIndex
from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.types import ReplicaKey, format_directory_id
from raftnode.runtime.description import is_caught_up, present, role_of
from raftnode.runtime.writes.appends import Appends

PEERS_MAX = 64
"""Number of peers with series of their own; requests of other peers count as `other`."""

_SNAPSHOT_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
_ELECTION_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


@dataclass(frozen=True)
class NodeView:
    """The state that a refresh shows; made again for each."""

    replica: Replica
    appends: Appends
    version: str

    @property
    def log(self) -> LogIndex:
        """The index of the log."""
        return self.replica.log

    @property
    def leader(self) -> Leader | None:
        """The role of a leader."""
        role = self.replica.role
        return role if isinstance(role, Leader) else None

    @cached_property
    def observers(self) -> Sequence[ReplicaDescription]:
        """The observers of a leader."""
        described = describe(present(self.replica))
        return described.observers if described else ()

    def changes(self, kind: str) -> int:
        """How many voter changes of a kind wait on a leader."""
        return sum(change.kind == kind for change in (self.leader.changes if self.leader else ()))


def _node_id(key: ReplicaKey | None) -> int:
    return -1 if key is None else key.node_id


def _replica(view: NodeView) -> dict[str, str]:
    replica = view.replica
    return {
        "node_id": str(replica.key.node_id),
        "directory_id": format_directory_id(replica.key.directory_id),
        "cluster_id": replica.cluster_id or "",
        "version": view.version,
    }


def _voted_directory(view: NodeView) -> dict[str, str]:
    voted = view.replica.state.voted
    return {"directory_id": "" if voted is None else format_directory_id(voted.directory_id)}


def _gauge(
    text: str, source: Callable[[NodeView], float] | None = None, *, document_name: str = ""
) -> GaugeRow[NodeView]:
    return GaugeRow(text, source, document_name=document_name)


class NodeMetrics(MetricTable[NodeView]):
    """Metrics of the replica."""

    replica = InfoRow[NodeView](
        "This replica: node_id, directory_id, cluster_id, version.",
        _replica,
        labels=("node_id", "directory_id", "cluster_id", "version"),
    )
    current_state = EnumRow[NodeView](
        "The replica's role.",
        lambda view: role_of(view.replica),
        states=get_args(Role),
        document_name="current-state",
    )
    current_leader = _gauge(
        "Node id of the known leader; -1: unknown.",
        lambda view: _node_id(view.replica.leader),
        document_name="current-leader",
    )
    current_epoch = _gauge(
        "The epoch; -1: none yet.", lambda view: view.replica.epoch, document_name="current-epoch"
    )
    current_vote = _gauge(
        "Node id of the replica voted for in this epoch; -1: none.",
        lambda view: _node_id(view.replica.state.voted),
        document_name="current-vote",
    )
    current_vote_directory = InfoRow[NodeView](
        "Directory id of the replica voted for in this epoch; empty: none.",
        _voted_directory,
        labels=("directory_id",),
        document_name="current-vote-directory-id (Kafka 4.1)",
    )
    log_start_offset = _gauge("Offset of the first record.", lambda view: view.log.start)
    log_end_offset = _gauge(
        "Offset of the next record.", lambda view: view.log.end, document_name="log-end-offset"
    )
    log_end_epoch = _gauge(
        "Epoch of the last record; -1: no record.",
        lambda view: view.log.last_epoch,
        document_name="log-end-epoch",
    )
    durable_end_offset = _gauge(
        "Offset below which the log is on disk (fsynced).", lambda view: view.log.durable_end
    )
    high_watermark = _gauge(
        "High watermark: the offset below which the log is committed.",
        lambda view: view.replica.high_watermark,
        document_name="high-watermark",
    )
    unknown_voter_connections = _gauge(
        "Voters without a known endpoint.",
        lambda view: sum(voter.endpoint is None for voter in view.log.voters.voters),
        document_name="number-unknown-voter-connections",
    )
    voters = _gauge(
        "Voters in the voter set in force; each replica (node id and directory id) counts.",
        lambda view: len(view.log.voters),
        document_name="number-of-voters",
    )
    possible_voters = _gauge(
        "Leader: observers that AddVoter would accept; none that is fenced, silent or ruled out "
        "by raft.version.",
        lambda view: sum(observer.could_be_voter for observer in view.observers),
        document_name="number-of-possible-voters",
    )
    observers = _gauge(
        "Leader: observers.",
        lambda view: len(view.observers),
        document_name="number-of-observers (Kafka 4.1)",
    )
    pending_add_voter = _gauge(
        "Leader: AddVoter changes that wait; 0: none.",
        lambda view: view.changes("add"),
        document_name="pending-add-voter",
    )
    pending_remove_voter = _gauge(
        "Leader: RemoveVoter changes that wait; 0: none.",
        lambda view: view.changes("remove"),
        document_name="pending-remove-voter",
    )
    uncommitted_voter_change = _gauge(
        "Leader: 1 while a voter record is appended and not committed.",
        lambda view: (
            view.leader is not None and view.log.voter_record.offset >= view.replica.high_watermark
        ),
        document_name="uncommitted-voter-change (Kafka 4.1)",
    )
    append_queue_bytes = _gauge(
        "Leader: bytes waiting to be written.", lambda view: view.appends.queued_bytes
    )
    uncommitted_bytes = _gauge(
        "Leader: bytes of client batches that are appended and not committed.",
        lambda view: view.leader.uncommitted.size if view.leader else 0,
    )
    appends_pending = _gauge(
        "Leader: writes without an outcome, which wait to be written or to be committed.",
        lambda view: view.appends.pending,
    )
    caught_up = _gauge(
        "1 while the node is attached to a leader and caught up, which is what readiness means.",
        lambda view: is_caught_up(present(view.replica), view.replica.config),
    )
    event_queue = _gauge("Events that wait for the Raft core.")
    voter_record_offset = _gauge(
        "Offset of the record that holds the voter set in force.",
        lambda view: view.log.voter_record.offset,
    )
    log_size_bytes = _gauge("Bytes in the log's segments.")
    log_segments = _gauge("Segments of the log.")
    disk_free_bytes = _gauge("Free bytes on the log's disk that this process may use.")
    disk_size_bytes = _gauge("Size of the log's disk in bytes.")
    disk_reserve_bytes = _gauge(
        "Free bytes below which a leader transfers leadership and writes are refused."
    )
    poll_idle_ratio = _gauge(
        "Share of the last half second in which the event loop waited for work, 0 to 1. A loop "
        "that is blocked in a call or waits for a processor is busy. NaN: not measured.",
        document_name="poll-idle-ratio-avg",
    )
    incarnation = _gauge(
        "Number of times that a node has started on this storage.",
        lambda view: view.replica.incarnation,
    )
    storage_operation_in_flight_seconds = _gauge(
        "Seconds since the start of the oldest disk call that has not returned; 0: no call "
        "waits. The histogram of fsyncs has only calls that returned."
    )
    stall_timeout_seconds = _gauge(
        "Seconds after which the watchdog stops a node whose disk or event loop makes no "
        "progress (stall_timeout_ms); 0: never."
    )
    disk_low = _gauge("1 while less than the reserve is free: a leader transfers leadership.")
    storage_damaged = _gauge("Damaged places that the last scrub found; 0: none.")
    scrub_progress_ratio = _gauge("Share of the log and its snapshots that this pass has read.")
    scrub_last_pass_timestamp_seconds = _gauge(
        "Unix time at which the last pass ended; 0: none since start-up."
    )
    scrub_last_pass_seconds = _gauge("Seconds that the last pass took.")
    snapshot_end_offset = _gauge(
        "Offset after the last record that the newest snapshot covers; 0: no snapshot."
    )
    snapshot_size_bytes = _gauge("Bytes in the newest snapshot.")
    snapshot_made_timestamp_seconds = _gauge(
        "Unix time at which the newest snapshot was made; 0: none."
    )
    snapshot_room_missing_bytes = _gauge(
        "Free bytes that a due snapshot lacks on the disk; 0: no snapshot waits for space."
    )
    snapshots_damaged = CounterRow("Damaged snapshots set aside since start-up.")
    snapshot_piece_bytes = CounterRow(
        "Bytes of snapshots sent to replicas that are behind the log, or fetched from a leader.",
        labels=("direction",),
    )
    snapshot_seconds = HistogramRow(
        "Seconds to make a snapshot, while writes go on.", buckets=_SNAPSHOT_BUCKETS_S
    )
    election_latency_seconds = HistogramRow(
        "Seconds from the start of an election, its pre-vote included, to knowing the leader.",
        buckets=_ELECTION_BUCKETS_S,
        document_name="election-latency-max/avg",
    )
    commit_latency_seconds = HistogramRow(
        "Leader: seconds from the append of a batch until the high watermark passes it.",
        document_name="commit-latency-max/avg",
    )
    fsync_seconds = HistogramRow("Seconds for an fdatasync of the log.")
    loop_lag_seconds = HistogramRow(
        "Seconds by which the event loop was late for a timer that fires every half second."
    )
    peer_fetches = CounterRow("Fetches that a peer sent to this node.", labels=("peer_id",))
    peer_request_failures = CounterRow(
        "Requests to a peer that got no response, by reason.", labels=("peer_id", "reason")
    )
    scrub_read_bytes = CounterRow("Bytes that the scrub has read.")
    scrub_passes = CounterRow("Passes that the scrub has finished.")
    scrub_corrupt_batches = CounterRow(
        "Damaged batches, snapshots and files that the scrub has found, each counted once."
    )
    fetched_records = CounterRow(
        "Records fetched from the leader.", document_name="fetch-records-rate"
    )
    appended_records = CounterRow("Leader: records appended.", document_name="append-records-rate")
    elections = CounterRow("Elections that this replica started.")

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._peers: set[int] = set()
        for direction in ("sent", "fetched"):  # a rate ignores the first value of a series
            self.snapshot_piece_bytes.labels(direction)

    def snapshot_piece(self, direction: str, size: int) -> None:
        """Count the bytes of a part of a snapshot: `sent` or `fetched`."""
        self.snapshot_piece_bytes.labels(direction).inc(size)

    def disk_usage(self, free_bytes: int, size_bytes: int) -> None:
        """Show how full the disk is."""
        self.disk_free_bytes.set(free_bytes)
        self.disk_size_bytes.set(size_bytes)

    def peer_fetched(self, node_id: int) -> None:
        """Count a Fetch from a peer."""
        self.peer_fetches.labels(self._peer(node_id)).inc()

    def peer_failed(self, node_id: int | None, reason: str) -> None:
        """Count a request without a response; None: to any bootstrap server."""
        peer = "bootstrap" if node_id is None else self._peer(node_id)
        self.peer_request_failures.labels(peer, reason).inc()

    def _peer(self, node_id: int) -> str:
        """Return the label of a peer; a peer beyond `PEERS_MAX` has none of its own."""
        if node_id not in self._peers:
            if len(self._peers) >= PEERS_MAX:
                return "other"
            self._peers.add(node_id)
        return str(node_id)
