"""Lets the gauges be of the scrape's own moment, as the leader's series are.

Without it a gauge is as old as the last turn of the timer: in an election a scrape showed a leader
by its gauges and none by its series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector


class BeforeScrape(Collector):
    """Calls back at the begin of each scrape, on the thread that scrapes.

    Args:
        registry: has no other collector yet; it asks its collectors in the order in which they
            came.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._callback: Callable[[], None] | None = None
        registry.register(self)

    def call(self, callback: Callable[[], None]) -> None:
        """Set what is called; it takes the place of the one before."""
        self._callback = callback

    def collect(self) -> Iterator[Metric]:
        """Call back; there is nothing to show."""
        if self._callback is not None:
            self._callback()
        return iter(())
