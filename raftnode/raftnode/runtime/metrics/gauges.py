"""Keeps the metrics of a node current (P58, P59)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from raftnode.core.replica import Replica
from raftnode.core.roles import Candidate, Leader, Prospective
from raftnode.core.types import Epoch
from raftnode.runtime.metrics.node_metrics import NodeMetrics, NodeView
from raftnode.runtime.process import clock
from raftnode.runtime.writes.appends import Appends


class Gauges:
    """Shows the state at each scrape, and measures what lies between two turns of a timer."""

    def __init__(
        self,
        metrics: NodeMetrics,
        replica: Replica,
        appends: Appends,
        version: str = "",
        waited_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Show a replica.

        Args:
            metrics: the metrics to set.
            replica: the core's state.
            appends: the writes that wait.
            version: of this program.
            waited_s: seconds for which the event loop has waited for work; None: not measured.
        """
        self._metrics = metrics
        self._version = version
        self._replica = replica
        self._appends = appends
        self._appended = 0
        self._stood_at: float | None = None
        self._stood_epoch = Epoch(-1)
        self._waited_s = waited_s
        self._idle_s, self._wall_s = waited_s(), time.monotonic()
        metrics.refresh(self._view())

    def _view(self) -> NodeView:
        return NodeView(self._replica, self._appends, self._version)

    def watch_elections(self) -> None:
        """Measure from an election's start to a known leader; cheap, called after each turn.

        The only voter stands and wins within one turn.
        """
        role, replica = self._replica.role, self._replica
        if isinstance(role, Candidate | Leader) and replica.epoch != self._stood_epoch:
            self._stood_epoch = replica.epoch
            self._metrics.elections.inc()
            if isinstance(role, Leader) and self._stood_at is None:
                led_ms = max(clock.now_ms() - role.since_ms, 0)
                self._stood_at = time.monotonic() - led_ms / 1000
        if isinstance(role, Prospective | Candidate):
            if self._stood_at is None:
                self._stood_at = time.monotonic()
        elif self._stood_at is not None and replica.leader is not None:
            self._metrics.election_latency_seconds.observe(time.monotonic() - self._stood_at)
            self._stood_at = None

    def show(self) -> None:
        """Show the whole state."""
        self._metrics.refresh(self._view())
        appended = self._appends.appended_records
        self._metrics.appended_records.inc(appended - self._appended)
        self._appended = appended

    def measure_idle(self) -> None:
        """Show the share of the time since the last call in which the loop waited for work."""
        idle_s, wall_s = self._waited_s(), time.monotonic()
        ratio = math.nan
        if idle_s is not None and self._idle_s is not None and wall_s > self._wall_s:
            ratio = min(max((idle_s - self._idle_s) / (wall_s - self._wall_s), 0), 1)
        self._metrics.poll_idle_ratio.set(ratio)
        self._idle_s, self._wall_s = idle_s, wall_s
