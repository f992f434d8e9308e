"""What the node's metrics promise: bounded series, true label lists."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from raftnode.api import metrics as module
from raftnode.api.metrics import DOCUMENT_NAMES, LABELS, HttpMetrics, NodeMetrics


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


def test_the_list_of_labels_is_true():
    registry = CollectorRegistry()
    metrics = NodeMetrics(registry)
    HttpMetrics(registry).observe(method="GET", path="/", status=200, seconds=1)
    metrics.peer_fetched(1)
    metrics.peer_failed(1, "timed_out")
    metrics.replica.info({"node_id": "1", "directory_id": "x", "cluster_id": "c", "version": "1"})
    metrics.current_vote_directory.info({"directory_id": "x"})
    for family in registry.collect():
        for sample in family.samples:
            named = {name for name in sample.labels if name != "le"}
            assert named == set(LABELS.get(family.name, ())), family.name


def test_every_name_of_the_documents_is_there():
    registry = CollectorRegistry()
    NodeMetrics(registry)
    assert {family.name for family in registry.collect()} >= set(DOCUMENT_NAMES)
