"""What dashboards are made of, free of any SDK: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kraftquorum_observability.labels import BY_QUORUM
from kraftquorum_observability.rules import BRITTLE, LOST, REDUCED, SAFE, STOPPED
from kraftquorum_operator.report.operations import STEPS

THIS_QUORUM = 'cluster="$cluster", namespace="$namespace", quorum="$quorum"'
"""Selects what is about the quorum that was chosen."""

THIS_NODE = f'{THIS_QUORUM}, node_id=~"$node"'
CLUSTERED = 'cluster=~"$cluster"'
QUORUMS = f'{CLUSTERED}, namespace=~"$namespace", quorum=~"$quorum"'
"""Selects those that were chosen, of all."""

NAMED = "{{namespace}}/{{quorum}} {{cluster}}"
"""A quorum in a legend; the cluster is last, since most series have none."""

GREEN, YELLOW, ORANGE, RED, DARK_RED, BLUE, LIGHT_BLUE, GREY = (
    "green",
    "yellow",
    "orange",
    "red",
    "dark-red",
    "blue",
    "light-blue",
    "text",
)


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and how its series are named."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Means:
    """What a value is shown as."""

    text: str
    color: str


Values = Mapping[int, Means]

LEVELS: Values = {
    LOST: Means("lost: a person must decide", DARK_RED),
    STOPPED: Means("writes stopped", RED),
    BRITTLE: Means("the next fault stops it", ORANGE),
    REDUCED: Means("fewer faults than wanted", YELLOW),
    SAFE: Means("safe", GREEN),
}

ALERTING: Values = {1: Means("pending", YELLOW), 2: Means("firing", RED)}

PRESENT: Values = {1: Means("", BLUE)}
"""A lane that is there or not."""

Kind = Literal["figure", "lanes", "lines", "bars", "table"]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        kind: `figure` is one number, `lanes` states over time, one lane for each series.
        title: what is asked.
        description: what it shows and what is normal.
        queries: its expressions.
        width: of 24.
        height: in Grafana's rows of 30 pixels.
        unit: Grafana's name of it.
        values: what single values are shown as.
        limits: colours from a value on, ascending; the first is for anything below.
        columns: of a table: its label or query's letter, and the heading; what is not here
            is hidden.
        sort: of a table: the heading that it is sorted by, ascending.
    """

    kind: Kind
    title: str
    description: str
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 7
    unit: str = "short"
    values: Values | None = None
    limits: tuple[tuple[float | None, str], ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Marks on the time axis: where its expression has a value."""

    name: str
    expression: str
    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Variable:
    """Something to choose from: the values of a label.

    Attributes:
        name: what expressions call it.
        title: its heading.
        label: whose values there are to choose from.
        selector: of the series that they are taken of.
        several: whether more than one, or all, can be chosen.
    """

    name: str
    title: str
    label: str
    metric: str
    selector: str = ""
    several: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard: rows of panels under headings."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    annotations: tuple[Annotation, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, in order."""
        return tuple(panel for _, panels in self.rows for panel in panels)


_EPOCH = "raftnode_current_epoch"
_CLUSTER = Variable("cluster", "Cluster", "cluster", _EPOCH)
_NAMESPACE = Variable("namespace", "Namespace", "namespace", _EPOCH, 'cluster="$cluster"')
_QUORUM = Variable(
    "quorum", "Quorum", "quorum", _EPOCH, 'cluster="$cluster", namespace="$namespace"'
)
ONE_QUORUM = (_CLUSTER, _NAMESPACE, _QUORUM)
"""The cluster is empty where no series has the label: such series are those that it selects."""

MANY_QUORUMS = (
    Variable("cluster", "Cluster", "cluster", _EPOCH, several=True),
    Variable("namespace", "Namespace", "namespace", _EPOCH, CLUSTERED, several=True),
    Variable(
        "quorum",
        "Quorum",
        "quorum",
        _EPOCH,
        f'{CLUSTERED}, namespace=~"$namespace"',
        several=True,
    ),
)
_CONFIRMED = "kraftquorum_kafka_confirmed"
KAFKA_QUORUMS = (
    Variable("cluster", "Cluster", "cluster", _CONFIRMED, several=True),
    Variable("namespace", "Namespace", "namespace", _CONFIRMED, CLUSTERED, several=True),
    Variable(
        "kafka",
        "Kafka quorum",
        "kafka_quorum",
        _CONFIRMED,
        f'{CLUSTERED}, namespace=~"$namespace"',
        several=True,
    ),
)
NODES = Variable("node", "Node", "node_id", _EPOCH, THIS_QUORUM, several=True)


def operation_lanes(selector: str, name: str = "", suffix: str = "") -> tuple[Query, ...]:
    """A lane for each step of each operation, in the order in which steps come."""
    return tuple(
        Query(
            f"max {BY_QUORUM} (kraftquorum_operations{{{selector}, "
            f'operation="{kind}", step="{step}"}} > 0) * 0 + 1',
            f"{name}{kind} {number}: {step}{suffix}",
        )
        for kind, steps in STEPS.items()
        for number, step in enumerate(steps, start=1)
    )


def quantiles(
    metric: str, selector: str, by: str, legend: str, window: str = "$__rate_interval"
) -> tuple[Query, ...]:
    """The median and the 99th percentile of a histogram."""
    labels = f"{by}, le" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({labels}) "
            f"(rate({metric}_bucket{{{selector}}}[{window}])))",
            f"{legend}{text}",
        )
        for share, text in ((0.5, "median"), (0.99, "p99"))
    )
