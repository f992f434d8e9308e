"""The metrics of the server's requests. Those of the node are `raftnode.runtime.metrics`."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter

from raftnode.api.listeners import Listener
from raftnode.api.metric_table import CounterRow, GaugeRow, HistogramRow, MetricTable
from raftnode.limits.model import Limit


class HttpMetrics(MetricTable[Any]):
    """Metrics of the server's requests."""

    http_request_seconds = HistogramRow(
        "Seconds from the head of a request to its answer, long polls included.",
        labels=("method", "path", "status"),
    )

    def observe(self, *, method: str, path: str, status: int, seconds: float) -> None:
        """Note one answered request."""
        self.http_request_seconds.labels(method, path, str(status)).observe(seconds)


class SessionMetrics(MetricTable[Any]):
    """Metrics of the sessions."""

    sessions = GaugeRow[Any]("Number of open sessions of clients.")
    session_operations = CounterRow(
        "Operations of sessions that were answered: ok, not_done or unknown.",
        labels=("operation", "outcome"),
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._children: dict[tuple[str, str], Counter] = {}

    def note_sessions(self, count: int) -> None:
        """Note how many sessions are open."""
        self.sessions.set(count)

    def note_operation(self, name: str, outcome: str) -> None:
        """Note an answered operation."""
        child = self._children.get((name, outcome))
        if child is None:
            child = self._children[name, outcome] = self.session_operations.labels(name, outcome)
        child.inc()


class LimitMetrics(MetricTable[Any]):
    """Metrics of the limits for clients."""

    client_connections = GaugeRow[Any](
        "Number of open connections of clients, by listener.", labels=("listener",)
    )
    client_refusals = CounterRow(
        "Connections, requests and sessions that a limit refused or cut off.",
        labels=("listener", "limit"),
    )

    def of(self, listener: Listener) -> ListenerMetrics:
        """The metrics of one listener."""
        return ListenerMetrics(self, listener)


class ListenerMetrics:
    """The metrics of the limits of one listener.

    Args:
        metrics: of all listeners.
        listener: the one.
    """

    def __init__(self, metrics: LimitMetrics, listener: Listener) -> None:
        self._connections = metrics.client_connections.labels(listener.value)
        self._refusals = {  # a rate needs the 0 before the first refusal
            limit: metrics.client_refusals.labels(listener.value, limit.value) for limit in Limit
        }

    def note_connections(self, count: int) -> None:
        """Note how many connections are open."""
        self._connections.set(count)

    def note_refused(self, limit: Limit) -> None:
        """Note a refusal."""
        self._refusals[limit].inc()
