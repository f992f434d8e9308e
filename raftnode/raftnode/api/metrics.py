"""The node's metrics: names, the documents' names beside them, and who sets them.

What lives here: the metric objects of one registry. What must not: the measuring, which
is the runtime's (`NodeMetrics`) and the server's (`HttpMetrics`). The reference page is
made from the registry and `DOCUMENT_NAMES`. Where the documents ask for a maximum and an
average over a window, there is a histogram; where for a rate, a counter: Prometheus
makes the window.
"""

from __future__ import annotations

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info

from raftnode.api.model import Role

DOCUMENT_NAMES: dict[str, str] = {
    "raftnode_current_leader": "current-leader",
    "raftnode_current_epoch": "current-epoch",
    "raftnode_current_vote": "current-vote",
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
"""P58 and P59: our name, without the suffix that Prometheus adds, to the documents'."""

_FAST_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SNAPSHOT_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
_ELECTION_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class HttpMetrics:
    """What the server measures of its requests."""

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
    """What the runtime measures of the replica (P58, P59)."""

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
        self.current_vote = gauge("current_vote", "Node id voted for in this epoch; -1: none.")
        self.log_start_offset = gauge("log_start_offset", "The first record's offset.")
        self.log_end_offset = gauge("log_end_offset", "One past the last record.")
        self.log_end_epoch = gauge("log_end_epoch", "The last record's epoch; -1: no record.")
        self.durable_end_offset = gauge("durable_end_offset", "One past the last fsynced record.")
        self.high_watermark = gauge("high_watermark", "One past the last committed record.")
        self.unknown_voter_connections = gauge(
            "unknown_voter_connections", "Voters without a known endpoint."
        )
        self.voters = gauge("voters", "Voters in the set in force, (id, UUID) each counted.")
        self.possible_voters = gauge(
            "possible_voters", "Leader: observers with a UUID, which could be added."
        )
        self.observers = gauge("observers", "Leader: observers.")
        self.pending_add_voter = gauge("pending_add_voter", "Leader: AddVoters that wait.")
        self.pending_remove_voter = gauge("pending_remove_voter", "Leader: RemoveVoters that wait.")
        self.uncommitted_voter_change = gauge(
            "uncommitted_voter_change", "1 while a voter record is appended but not committed."
        )
        self.append_queue_bytes = gauge(
            "append_queue_bytes", "Leader: bytes waiting to be written."
        )
        self.poll_idle_ratio = gauge(
            "poll_idle_ratio", "Share of the last second that the event loop waited; 0 to 1."
        )
        self.incarnation = gauge("incarnation", "How many times this storage was started.")
        self.snapshot_end_offset = gauge(
            "snapshot_end_offset",
            "One past the last record that the newest snapshot covers; 0: none.",
        )
        self.snapshot_size_bytes = gauge("snapshot_size_bytes", "Bytes of the newest snapshot.")
        self.snapshot_made_timestamp_seconds = gauge(
            "snapshot_made_timestamp_seconds",
            "When the newest snapshot was made, Unix time; 0: none.",
        )
        self.snapshot_seconds = Histogram(
            "raftnode_snapshot_seconds",
            "Seconds that making a snapshot took, while writes went on.",
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
            "Leader: seconds from a batch's append to the high watermark passing it.",
            registry=registry,
            buckets=_FAST_BUCKETS_S,
        )
        self.fsync_seconds = Histogram(
            "raftnode_fsync_seconds",
            "Seconds that an fdatasync of the log took.",
            registry=registry,
            buckets=_FAST_BUCKETS_S,
        )
        self.fetched_records = Counter(
            "raftnode_fetched_records", "Records fetched from a leader.", registry=registry
        )
        self.appended_records = Counter(
            "raftnode_appended_records", "Leader: records appended.", registry=registry
        )
        self.elections = Counter(
            "raftnode_elections", "Times that this replica stood for election.", registry=registry
        )
