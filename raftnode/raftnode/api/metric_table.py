"""A table of metrics: a class whose attributes are the rows, and whose instances have the metrics.

A row says once what a metric is: its name (that of the attribute), type, help, labels, the KIPs'
name for it, and its source, if the metric shows a state. From the rows come the metrics of a
registry, what a refresh copies, and the reference page. Names of rows begin with no prefix; those
of metrics begin with the table's, `raftnode_` for a node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info

FAST_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Buckets for what takes milliseconds on a disk or a network that works."""

M = TypeVar("M")
V = TypeVar("V")


class MetricRow(ABC, Generic[M, V]):
    """One metric.

    Attributes:
        name: without the suffix that Prometheus adds; set from the attribute.
        text: the help.
        labels: all are bounded: see docs/reference/metrics.md.
        document_name: the KIPs' name (P58, P59); empty: they have none.
        source: computes the value from a view at each refresh; None: set where it happens.
    """

    name: str = ""

    def __init__(
        self,
        text: str,
        source: Callable[[V], Any] | None = None,
        *,
        labels: Sequence[str] = (),
        document_name: str = "",
    ) -> None:
        self.text = text
        self.source = source
        self.labels = tuple(labels)
        self.document_name = document_name

    def __set_name__(self, owner: type[MetricTable[Any]], attribute: str) -> None:
        self.name = owner.prefix + attribute

    @overload
    def __get__(self, table: None, owner: type) -> Self: ...

    @overload
    def __get__(self, table: MetricTable[Any], owner: type) -> M: ...

    def __get__(self, table: MetricTable[Any] | None, owner: type) -> Self | M:
        """Return the row of the class, the metric of an instance."""
        return self if table is None else cast("M", table.metrics[self.name])

    @abstractmethod
    def register(self, registry: CollectorRegistry) -> M:
        """Make the metric."""

    def show(self, metric: M, value: Any) -> None:
        """Set the metric to what the source computed."""
        raise NotImplementedError(f"{self.name} has no source")


class GaugeRow(MetricRow[Gauge, V]):
    """A value that goes up and down."""

    def register(self, registry: CollectorRegistry) -> Gauge:
        """Make the metric."""
        return Gauge(self.name, self.text, self.labels, registry=registry)

    def show(self, metric: Gauge, value: float) -> None:
        """Set the metric."""
        metric.set(value)


class InfoRow(MetricRow[Info, V]):
    """A value 1 whose labels say something: the labels are those of the source."""

    def register(self, registry: CollectorRegistry) -> Info:
        """Make the metric."""
        return Info(self.name, self.text, registry=registry)

    def show(self, metric: Info, value: Mapping[str, str]) -> None:
        """Set the labels."""
        metric.info(dict(value))


class EnumRow(MetricRow[Enum, V]):
    """One of some states; the label has the name of the metric."""

    def __init__(
        self,
        text: str,
        source: Callable[[V], str] | None = None,
        *,
        states: Sequence[str],
        document_name: str = "",
    ) -> None:
        super().__init__(text, source, document_name=document_name)
        self.states = tuple(states)

    def __set_name__(self, owner: type[MetricTable[Any]], attribute: str) -> None:
        super().__set_name__(owner, attribute)
        self.labels = (self.name,)

    def register(self, registry: CollectorRegistry) -> Enum:
        """Make the metric."""
        return Enum(self.name, self.text, states=list(self.states), registry=registry)

    def show(self, metric: Enum, value: str) -> None:
        """Set the state."""
        metric.state(value)


class CounterRow(MetricRow[Counter, Any]):
    """A value that only goes up, counted where it happens."""

    def register(self, registry: CollectorRegistry) -> Counter:
        """Make the metric."""
        return Counter(self.name, self.text, self.labels, registry=registry)


class HistogramRow(MetricRow[Histogram, Any]):
    """How often a value fell into each bucket, observed where it happens."""

    def __init__(
        self,
        text: str,
        *,
        buckets: Sequence[float] = FAST_BUCKETS_S,
        labels: Sequence[str] = (),
        document_name: str = "",
    ) -> None:
        super().__init__(text, labels=labels, document_name=document_name)
        self.buckets = tuple(buckets)

    def register(self, registry: CollectorRegistry) -> Histogram:
        """Make the metric."""
        return Histogram(self.name, self.text, self.labels, registry=registry, buckets=self.buckets)


class MetricTable(Generic[V]):
    """The metrics of the rows of a subclass, in a registry."""

    prefix: ClassVar[str] = "raftnode_"
    """What the names of all metrics begin with; a subclass may set its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.metrics = {row.name: row.register(registry) for row in self.rows()}
        self._shown = [
            (row, row.source, self.metrics[row.name]) for row in self.rows() if row.source
        ]

    @classmethod
    def rows(cls) -> tuple[MetricRow[Any, Any], ...]:
        """The rows, in the order of their attributes."""
        return tuple(
            cast("MetricRow[Any, Any]", row)
            for row in vars(cls).values()
            if isinstance(row, MetricRow)
        )

    def refresh(self, view: V) -> None:
        """Set each metric that has a source."""
        for row, source, metric in self._shown:
            row.show(metric, source(view))
