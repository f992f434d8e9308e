"""The metrics of the server's requests. Those of the node are `raftnode.runtime.metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from raftnode.access.access_list import Reason
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


class AccessMetrics(MetricTable[Any]):
    """Metrics of access control.

    Args:
        registry: of the metrics.
        listeners: whose refusals are counted.
    """

    access_refusals = CounterRow(
        "Requests and operations of sessions that were refused for their credentials, their "
        "permissions or their cluster id.",
        labels=("listener", "reason"),
    )
    access_file_loaded_timestamp_seconds = GaugeRow[Any](
        "Unix time at which the file in force was read.", labels=("file",)
    )
    access_file_stale = GaugeRow[Any](
        "1 while the file cannot be used and an earlier content of it is in force.",
        labels=("file",),
    )
    audit_lines_lost = CounterRow(
        "Lines of the audit log that are lost: the file could not be written, or takes none."
    )
    audit_lines_waiting = GaugeRow[Any](
        "Lines of the audit log that its file has not taken yet. A file that hangs takes none."
    )
    access_file_refusals = CounterRow("Files that could not be used.", labels=("file",))

    def __init__(self, registry: CollectorRegistry, listeners: Iterable[str] = ("api",)) -> None:
        super().__init__(registry)
        for listener in listeners:  # a rate needs the 0 before the first refusal
            for reason in Reason:
                self.access_refusals.labels(listener, reason.value)

    def note_refused(self, reason: Reason, listener: str) -> None:
        """Note a refused request."""
        self.access_refusals.labels(listener, reason.value).inc()

    def note_loaded(self, setting: str, unix_s: float) -> None:
        """Note when a good file was read."""
        self.access_file_loaded_timestamp_seconds.labels(setting).set(unix_s)
        self.access_file_stale.labels(setting).set(0)
        self.access_file_refusals.labels(setting)

    def note_file_refused(self, setting: str) -> None:
        """Note that a file was refused, and the one before stays in force."""
        self.access_file_stale.labels(setting).set(1)
        self.access_file_refusals.labels(setting).inc()
