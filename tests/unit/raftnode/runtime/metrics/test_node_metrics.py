"""What the node's metrics promise: bounded series, true label lists."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from raftnode.api.metrics import HttpMetrics, SessionMetrics
from raftnode.runtime.metrics import node_metrics as module
from raftnode.runtime.metrics.node_metrics import NodeMetrics


def test_peers_beyond_the_limit_share_one_series(monkeypatch):
    monkeypatch.setattr(module, "PEERS_MAX", 2)
    registry = CollectorRegistry()
    metrics = NodeMetrics(registry)
    for node_id in (1, 2, 3, 4, 2):
        metrics.peer_fetched(node_id)
    metrics.peer_failed(9, "timed_out")
    metrics.peer_failed(None, "unreachable")
    value = registry.get_sample_value
    fetches = [value("raftnode_peer_fetches_total", {"peer_id": name}) for name in ("1", "2")]
    assert fetches == [1, 2]
    assert value("raftnode_peer_fetches_total", {"peer_id": "other"}) == 2
    failures = "raftnode_peer_request_failures_total"
    assert value(failures, {"peer_id": "other", "reason": "timed_out"}) == 1
    assert value(failures, {"peer_id": "bootstrap", "reason": "unreachable"}) == 1


def test_both_directions_of_snapshots_are_there_before_the_first_byte():
    """A rate ignores the first value of a series, so it has to be 0."""
    registry = CollectorRegistry()
    metrics = NodeMetrics(registry)
    metrics.snapshot_piece("sent", 5)
    metrics.snapshot_piece("sent", 7)
    value, name = registry.get_sample_value, "raftnode_snapshot_piece_bytes_total"
    assert value(name, {"direction": "sent"}) == 12
    assert value(name, {"direction": "fetched"}) == 0


def test_the_list_of_labels_is_true():
    registry = CollectorRegistry()
    metrics = NodeMetrics(registry)
    HttpMetrics(registry).observe(method="GET", path="/", status=200, seconds=1)
    metrics.peer_fetched(1)
    metrics.peer_failed(1, "timed_out")
    metrics.snapshot_piece("sent", 1)
    metrics.replica.info({"node_id": "1", "directory_id": "x", "cluster_id": "c", "version": "1"})
    metrics.current_vote_directory.info({"directory_id": "x"})
    labels_of = {
        row.name: row.labels
        for row in (*NodeMetrics.rows(), *HttpMetrics.rows(), *SessionMetrics.rows())
    }
    for family in registry.collect():
        for sample in family.samples:
            named = {name for name in sample.labels if name != "le"}
            assert named == set(labels_of[family.name]), family.name


DOCUMENT_NAMES = {
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


def test_every_name_of_the_documents_is_there():
    assert {
        row.name: row.document_name for row in NodeMetrics.rows() if row.document_name
    } == DOCUMENT_NAMES
    registry = CollectorRegistry()
    NodeMetrics(registry)
    assert {family.name for family in registry.collect()} >= set(DOCUMENT_NAMES)
