"""Metrics as an interface: names, units, help, and a bound for every label."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from kraftquorum_operator.kafka.metrics import KafkaMetrics
from kraftquorum_operator.metrics import Metrics
from raftnode.api.metrics import AccessMetrics, HttpMetrics, LimitMetrics, SessionMetrics
from raftnode.runtime.metrics.leader_metrics import LEADER_ROWS, LeaderCollector
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.metrics.tls_metrics import TlsMetrics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"
UNITS = ("seconds", "bytes", "ratio")


def families() -> list[Metric]:
    registry = CollectorRegistry()
    NodeMetrics(registry)
    HttpMetrics(registry)
    SessionMetrics(registry)
    LimitMetrics(registry)
    TlsMetrics(registry, ("peer", "api"))
    AccessMetrics(registry)
    LeaderCollector(lambda: None, registry)
    KafkaMetrics(registry)
    return [*registry.collect(), *Metrics().registry.collect()]


def test_names_begin_with_their_program_and_end_with_a_base_unit() -> None:
    for family in families():
        assert re.fullmatch(r"(raftnode|kraftquorum)(_[a-z]+)+", family.name)
        assert not re.search(r"_(ms|millis\w*|kib|mib|mb|percent|minutes|hours)(_|$)", family.name)
        if family.type == "histogram":
            assert family.name.endswith(UNITS), family.name


def test_help_says_the_unit_and_ends_as_a_sentence() -> None:
    words = {"seconds": ("second", "long", "Unix time", "When"), "bytes": ("byte",)}
    for family in families():
        text = family.documentation
        assert text.endswith("."), family.name
        for unit, says in words.items():
            if family.name.endswith(unit):
                assert any(word.lower() in text.lower() for word in says), family.name


def test_every_label_has_its_bound_on_the_page() -> None:
    table = PAGE.read_text().partition("## How many series")[2]
    named = {
        name
        for line in table.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])
    }
    rows = (
        *NodeMetrics.rows(),
        *HttpMetrics.rows(),
        *SessionMetrics.rows(),
        *LimitMetrics.rows(),
        *TlsMetrics.rows(),
        *AccessMetrics.rows(),
        *LEADER_ROWS,
        *Metrics.rows(),
        *KafkaMetrics.rows(),
    )
    used = {label for row in rows for label in row.labels}
    assert used <= named
    assert named <= used | {"le"}
