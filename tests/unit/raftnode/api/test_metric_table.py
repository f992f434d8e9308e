"""One row says all of a metric: what is registered, what a refresh shows, what is described."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from raftnode.api.metric_table import CounterRow, EnumRow, GaugeRow, InfoRow, MetricTable


@dataclass
class View:
    size: int
    state: str


class Table(MetricTable[View]):
    size_bytes = GaugeRow[View]("Bytes.", lambda view: view.size, document_name="size")
    by_hand = GaugeRow[View]("Set elsewhere.")
    state = EnumRow[View]("State.", lambda view: view.state, states=("open", "shut"))
    names = InfoRow[View]("Names.", lambda view: {"name": view.state}, labels=("name",))
    calls = CounterRow("Calls.", labels=("caller",))


@pytest.fixture
def registry():
    return CollectorRegistry()


def test_a_refresh_shows_what_has_a_source_and_leaves_the_rest(registry):
    table = Table(registry)
    table.by_hand.set(7)
    table.refresh(View(3, "open"))
    table.refresh(View(4, "shut"))
    value = registry.get_sample_value
    assert value("raftnode_size_bytes") == 4
    assert value("raftnode_by_hand") == 7
    assert value("raftnode_state", {"raftnode_state": "open"}) == 0
    assert value("raftnode_state", {"raftnode_state": "shut"}) == 1
    assert value("raftnode_names_info", {"name": "open"}) is None
    assert value("raftnode_names_info", {"name": "shut"}) == 1


def test_two_tables_of_one_class_share_nothing(registry):
    first, second = Table(registry), Table(CollectorRegistry())
    first.calls.labels("a").inc()
    second.calls.labels("a").inc(5)
    assert registry.get_sample_value("raftnode_calls_total", {"caller": "a"}) == 1


def test_the_rows_describe_the_metrics_in_order():
    assert [(row.name, row.labels, row.document_name) for row in Table.rows()] == [
        ("raftnode_size_bytes", (), "size"),
        ("raftnode_by_hand", (), ""),
        ("raftnode_state", ("raftnode_state",), ""),
        ("raftnode_names", ("name",), ""),
        ("raftnode_calls", ("caller",), ""),
    ]
    assert Table.size_bytes.text == "Bytes."


def test_a_table_has_a_prefix_of_its_own(registry):
    class Ours(MetricTable[View]):
        prefix = "ours_"
        size_bytes = GaugeRow[View]("Bytes.", lambda view: view.size)
        state = EnumRow[View]("State.", lambda view: view.state, states=("open", "shut"))

    Ours(registry).refresh(View(3, "open"))
    value = registry.get_sample_value
    assert value("ours_size_bytes") == 3
    assert value("ours_state", {"ours_state": "open"}) == 1
    assert [row.labels for row in Ours.rows()] == [(), ("ours_state",)]
