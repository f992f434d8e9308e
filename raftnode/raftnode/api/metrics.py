"""The metrics of the server's requests. Those of the node are `raftnode.runtime.metrics`."""

from __future__ import annotations

from typing import Any

from raftnode.api.metric_table import HistogramRow, MetricTable


class HttpMetrics(MetricTable[Any]):
    """Metrics of the server's requests."""

    http_request_seconds = HistogramRow(
        "Seconds from the head of a request to its answer, long polls included.",
        labels=("method", "path", "status"),
    )

    def observe(self, *, method: str, path: str, status: int, seconds: float) -> None:
        """Note one answered request."""
        self.http_request_seconds.labels(method, path, str(status)).observe(seconds)
