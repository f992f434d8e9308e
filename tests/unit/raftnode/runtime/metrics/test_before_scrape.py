"""What is set before a scrape is in that scrape."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from raftnode.runtime.metrics.before_scrape import BeforeScrape


def test_the_callback_comes_before_the_other_collectors() -> None:
    registry = CollectorRegistry()
    before = BeforeScrape(registry)
    gauge = Gauge("raftnode_current_epoch", "The epoch.", registry=registry)
    assert registry.get_sample_value("raftnode_current_epoch") == 0
    epochs = iter((5, 6))
    before.call(lambda: gauge.set(next(epochs)))
    assert registry.get_sample_value("raftnode_current_epoch") == 5
    assert registry.get_sample_value("raftnode_current_epoch") == 6


def test_it_shows_nothing_itself() -> None:
    registry = CollectorRegistry()
    BeforeScrape(registry)
    assert list(registry.collect()) == []
