"""The node's metrics, with the names that the KIPs give them.

The module has the metric objects of one registry. The runtime sets `NodeMetrics`, the server
`HttpMetrics`. The reference page is generated from the registry and `DOCUMENT_NAMES`. A maximum
and an average over a window in a KIP are a histogram here, a rate is a counter: Prometheus
computes the window.
"""

from __future__ import annotations

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info

from raftnode.api.model import Role

DOCUMENT_NAMES: dict[str, str] = {
    "raftnode_current_leader": "current-leader",
    "raftnode_current_epoch": "current-epoch",
    "raftnode_current_vote": "current-vote",
    "raftnode_current_vote_directory": "current-vote-directory-id (Kafka 4.1)",
    "raftnode_log_end_offset": "log-end-offset",
    "raftnode_log_end_epoch": "log-end-epoch",
    "raftnode_high_watermark": "high-watermark",
    "raftnode_current_state": "current-state",
    "raftnode_unknown_voter_connections": "number-unknown-voter-connections",
    "raftnode_election_latency_seconds": "election-latency-max/avg",
    "raftnode_commit_latency_seconds": "commit-latency-max/avg",
    "raftnode_fetched_records": "fetch-records-rate",
    "raftnode_appended_records": "append-records-rate",
    "raftnode_poll_idle_ratio": "poll-idle-ratio-avg",
    "raftnode_voters": "number-of-voters",
    "raftnode_possible_voters": "number-of-possible-voters",
    "raftnode_observers": "number-of-observers (Kafka 4.1)",
    "raftnode_pending_add_voter": "pending-add-voter",
    "raftnode_pending_remove_voter": "pending-remove-voter",
    "raftnode_uncommitted_voter_change": "uncommitted-voter-change (Kafka 4.1)",
}
"""Our names, without the suffix that Prometheus adds, to the names in the KIPs (P58, P59)."""

LABELS: dict[str, tuple[str, ...]] = {
    "raftnode_http_request_seconds": ("method", "path", "status"),
    "raftnode_current_state": ("raftnode_current_state",),
    "raftnode_replica": ("node_id", "directory_id", "cluster_id", "version"),
    "raftnode_current_vote_directory": ("directory_id",),
    "raftnode_peer_fetches": ("peer_id",),
    "raftnode_peer_request_failures": ("peer_id", "reason"),
} | dict.fromkeys(
    (
        "raftnode_peer_caught_up",
        "raftnode_peer_lag_records",
        "raftnode_peer_lag_seconds",
        "raftnode_peer_fetch_age_seconds",
    ),
    ("peer_id", "peer_directory_id", "peer_role"),
)
"""The labels of the metrics that have any. All are bounded: see docs/reference/metrics.md."""

PEERS_MAX = 64
"""Number of peers with series of their own; requests of other peers count as `other`."""

_FAST_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SNAPSHOT_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
_ELECTION_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class HttpMetrics:
    """Metrics of the server's requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "raftnode_http_request_seconds",
            "Seconds from the head of a request to its answer, long polls included.",
            ("method", "path", "status"),
            registry=registry,
            buckets=_FAST_BUCKETS_S,
        )

    def observe(self, *, method: str, path: str, status: int, seconds: float) -> None:
        """Note one answered request."""
        self._seconds.labels(method, path, str(status)).observe(seconds)


class NodeMetrics:
    """Metrics of the replica, which the runtime sets (P58, P59)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"raftnode_{name}", text, registry=registry)

        self.replica = Info(
            "raftnode_replica",
            "This replica: node_id, directory_id, cluster_id, version.",
            registry=registry,
        )
        self.current_state = Enum(
            "raftnode_current_state",
            "The replica's role.",
            states=list(get_args(Role)),
            registry=registry,
        )
        self.current_leader = gauge("current_leader", "Node id of the known leader; -1: unknown.")
        self.current_epoch = gauge("current_epoch", "The epoch; -1: none yet.")
        self.current_vote = gauge(
            "current_vote", "Node id of the replica voted for in this epoch; -1: none."
        )
        self.current_vote_directory = Info(
            "raftnode_current_vote_directory",
            "Directory id of the replica voted for in this epoch; empty: none.",
            registry=registry,
        )
        self.log_start_offset = gauge("log_start_offset", "Offset of the first record.")
        self.log_end_offset = gauge("log_end_offset", "Offset of the next record.")
        self.log_end_epoch = gauge("log_end_epoch", "Epoch of the last record; -1: no record.")
        self.durable_end_offset = gauge(
            "durable_end_offset", "Offset below which the log is on disk (fsynced)."
        )
        self.high_watermark = gauge(
            "high_watermark", "High watermark: the offset below which the log is committed."
        )
        self.unknown_voter_connections = gauge(
            "unknown_voter_connections", "Voters without a known endpoint."
        )
        self.voters = gauge(
            "voters",
            "Voters in the voter set in force; each replica (node id and directory id) counts.",
        )
        self.possible_voters = gauge(
            "possible_voters", "Leader: observers with a directory id, which can become voters."
        )
        self.observers = gauge("observers", "Leader: observers.")
        self.pending_add_voter = gauge("pending_add_voter", "Leader: AddVoter changes that wait.")
        self.pending_remove_voter = gauge(
            "pending_remove_voter", "Leader: RemoveVoter changes that wait."
        )
        self.uncommitted_voter_change = gauge(
            "uncommitted_voter_change", "1 while a voter record is appended and not committed."
        )
        self.append_queue_bytes = gauge(
            "append_queue_bytes", "Leader: bytes waiting to be written."
        )
        self.uncommitted_bytes = gauge(
            "uncommitted_bytes",
            "Leader: bytes of client batches that are appended and not committed.",
        )
        self.appends_pending = gauge(
            "appends_pending",
            "Leader: writes without an outcome, which wait to be written or to be committed.",
        )
        self.caught_up = gauge(
            "caught_up",
            "1 while the node is attached to a leader and caught up, which is what "
            "readiness means.",
        )
        self.event_queue = gauge("event_queue", "Events that wait for the Raft core.")
        self.voter_record_offset = gauge(
            "voter_record_offset", "Offset of the record that holds the voter set in force."
        )
        self.log_size_bytes = gauge("log_size_bytes", "Bytes in the log's segments.")
        self.log_segments = gauge("log_segments", "Segments of the log.")
        self.disk_free_bytes = gauge(
            "disk_free_bytes", "Free bytes on the log's disk that this process may use."
        )
        self.disk_size_bytes = gauge("disk_size_bytes", "Size of the log's disk in bytes.")
        self.disk_reserve_bytes = gauge(
            "disk_reserve_bytes",
            "Free bytes below which a leader transfers leadership and writes are refused.",
        )
        self.poll_idle_ratio = gauge(
            "poll_idle_ratio", "Share of the last second for which the event loop was idle; 0 to 1."
        )
        self.incarnation = gauge(
            "incarnation", "Number of times that a node has started on this storage."
        )
        self.storage_operation_in_flight_seconds = gauge(
            "storage_operation_in_flight_seconds",
            "Seconds since the start of the oldest disk call that has not returned; 0: "
            "no call waits. The histogram of fsyncs has only calls that returned.",
        )
        self.stall_timeout_seconds = gauge(
            "stall_timeout_seconds",
            "Seconds after which the watchdog stops a node whose disk or event loop "
            "makes no progress (stall_timeout_ms); 0: never.",
        )
        self.disk_low = gauge(
            "disk_low", "1 while less than the reserve is free: a leader transfers leadership."
        )
        self.storage_damaged = gauge(
            "storage_damaged", "Damaged places that the last scrub found; 0: none."
        )
        self.scrub_progress_ratio = gauge(
            "scrub_progress_ratio", "Share of the log and its snapshots that this pass has read."
        )
        self.scrub_last_pass_timestamp_seconds = gauge(
            "scrub_last_pass_timestamp_seconds",
            "Unix time at which the last pass ended; 0: none since start-up.",
        )
        self.scrub_last_pass_seconds = gauge(
            "scrub_last_pass_seconds", "Seconds that the last pass took."
        )
        self.snapshot_end_offset = gauge(
            "snapshot_end_offset",
            "Offset after the last record that the newest snapshot covers; 0: no snapshot.",
        )
        self.snapshot_size_bytes = gauge("snapshot_size_bytes", "Bytes in the newest snapshot.")
        self.snapshot_made_timestamp_seconds = gauge(
            "snapshot_made_timestamp_seconds",
            "Unix time at which the newest snapshot was made; 0: none.",
        )
        self.snapshot_room_missing_bytes = gauge(
            "snapshot_room_missing_bytes",
            "Free bytes that a due snapshot lacks on the disk; 0: no snapshot waits for space.",
        )
        self.snapshots_damaged = Counter(
            "raftnode_snapshots_damaged",
            "Damaged snapshots set aside since start-up.",
            registry=registry,
        )
        self._snapshot_pieces = Counter(
            "raftnode_snapshot_piece_bytes",
            "Bytes of snapshots sent to replicas that are behind the log, or fetched "
            "from a leader.",
            ("direction",),
            registry=registry,
        )
        self.snapshot_seconds = Histogram(
            "raftnode_snapshot_seconds",
            "Seconds to make a snapshot, while writes go on.",
            registry=registry,
            buckets=_SNAPSHOT_BUCKETS_S,
        )
        self.election_latency_seconds = Histogram(
            "raftnode_election_latency_seconds",
            "Seconds from becoming a candidate to knowing the leader.",
            registry=registry,
            buckets=_ELECTION_BUCKETS_S,
        )
        self.commit_latency_seconds = Histogram(
            "raftnode_commit_latency_seconds",
            "Leader: seconds from the append of a batch until the high watermark passes it.",
            registry=registry,
            buckets=_FAST_BUCKETS_S,
        )
        self.fsync_seconds = Histogram(
            "raftnode_fsync_seconds",
            "Seconds for an fdatasync of the log.",
            registry=registry,
            buckets=_FAST_BUCKETS_S,
        )
        self.loop_lag_seconds = Histogram(
            "raftnode_loop_lag_seconds",
            "Seconds by which the event loop was late for a timer that fires every half second.",
            registry=registry,
            buckets=_FAST_BUCKETS_S,
        )
        self._peer_fetches = Counter(
            "raftnode_peer_fetches",
            "Fetches that a peer sent to this node.",
            ("peer_id",),
            registry=registry,
        )
        self._peer_request_failures = Counter(
            "raftnode_peer_request_failures",
            "Requests to a peer that got no response, by reason.",
            ("peer_id", "reason"),
            registry=registry,
        )
        self._peers: set[int] = set()
        self.scrub_read_bytes = Counter(
            "raftnode_scrub_read_bytes", "Bytes that the scrub has read.", registry=registry
        )
        self.scrub_passes = Counter(
            "raftnode_scrub_passes", "Passes that the scrub has finished.", registry=registry
        )
        self.scrub_corrupt_batches = Counter(
            "raftnode_scrub_corrupt_batches",
            "Damaged batches, snapshots and files that the scrub has found, each counted once.",
            registry=registry,
        )
        self.fetched_records = Counter(
            "raftnode_fetched_records", "Records fetched from the leader.", registry=registry
        )
        self.appended_records = Counter(
            "raftnode_appended_records", "Leader: records appended.", registry=registry
        )
        self.elections = Counter(
            "raftnode_elections", "Elections that this replica started.", registry=registry
        )

    def snapshot_piece(self, direction: str, size: int) -> None:
        """Count the bytes of a part of a snapshot: `sent` or `fetched`."""
        self._snapshot_pieces.labels(direction).inc(size)

    def disk_usage(self, free_bytes: int, size_bytes: int) -> None:
        """Show how full the disk is."""
        self.disk_free_bytes.set(free_bytes)
        self.disk_size_bytes.set(size_bytes)

    def peer_fetched(self, node_id: int) -> None:
        """Count a Fetch from a peer."""
        self._peer_fetches.labels(self._peer(node_id)).inc()

    def peer_failed(self, node_id: int | None, reason: str) -> None:
        """Count a request without a response; None: to any bootstrap server."""
        peer = "bootstrap" if node_id is None else self._peer(node_id)
        self._peer_request_failures.labels(peer, reason).inc()

    def _peer(self, node_id: int) -> str:
        """Return the label of a peer; a peer beyond `PEERS_MAX` has none of its own."""
        if node_id not in self._peers:
            if len(self._peers) >= PEERS_MAX:
                return "other"
            self._peers.add(node_id)
        return str(node_id)
