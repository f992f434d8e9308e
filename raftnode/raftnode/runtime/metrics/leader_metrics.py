"""The metrics that only a leader has, read from its core at each scrape.

A replica that does not lead has none of these series. A gauge that kept its last value would show
an old leader's view for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftnode.core.describe import QuorumDescription, ReplicaDescription, describe
from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.types import format_directory_id

PEER_LABELS = ("peer_id", "peer_directory_id", "peer_role")
"""Node id, directory id, and `voter` or `observer`: one series for each (id, UUID)."""

OBSERVERS_MAX = 32
"""How many observers are shown, the last heard from first. Voters are at most nine."""

OBSERVER_GONE_MS = 15_000
"""How long after its last Fetch a replica counts as an observer: it may be removed or lost."""


View = tuple[QuorumDescription, int]
"""A leader's view of the quorum, and for how many milliseconds it has led."""

Series = tuple[tuple[str, ...], float]
"""The values of the labels, and that of the metric."""


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """One metric.

    Attributes:
        name: with its prefix.
        text: the help.
        source: computes the series from the leader's view.
        labels: all are bounded: see docs/reference/metrics.md.
        document_name: the KIPs' name; they have none for these.
    """

    name: str
    text: str
    source: Callable[[View], Iterable[Series]]
    labels: tuple[str, ...] = ()
    document_name: str = ""


def view_of(replica: Replica) -> View | None:
    """The leader's view; None on a replica that does not lead."""
    described, role = describe(replica), replica.role
    if described is None or not isinstance(role, Leader):
        return None
    return described, max(replica.now_ms - role.since_ms, 0)


class LeaderCollector(Collector):
    """Shows the leader's view of the others at each scrape; on the core's thread only.

    Args:
        view: the leader's view; None while this replica does not lead.
        registry: where the collector is registered.
    """

    def __init__(self, view: Callable[[], View | None], registry: CollectorRegistry) -> None:
        self._view = view
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Make all series again."""
        view = self._view()
        for row in LEADER_ROWS:
            family = GaugeMetricFamily(row.name, row.text, labels=row.labels)
            if view is not None:
                for labels, value in row.source(view):
                    family.add_metric(labels, value)
            yield family


def fault_tolerance(described: QuorumDescription) -> int:
    """Caught-up voters minus the majority of the voter set: how many more may fail."""
    well = sum(voter.caught_up for voter in described.voters)
    return well - (len(described.voters) // 2 + 1)


def _shown(described: QuorumDescription) -> Iterator[tuple[ReplicaDescription, str]]:
    for voter in described.voters:
        yield voter, "voter"
    observers: Sequence[ReplicaDescription] = sorted(
        (
            observer
            for observer in described.observers
            if not observer.blank and (observer.last_fetch_age_ms or 0) < OBSERVER_GONE_MS
        ),
        key=lambda observer: (observer.last_fetch_age_ms or 0, observer.key),
    )
    for observer in observers[:OBSERVERS_MAX]:
        yield observer, "observer"


def _seconds(age_ms: int | None, led_ms: int) -> float:
    return (led_ms if age_ms is None else age_ms) / 1000


def _of_each(
    value: Callable[[QuorumDescription, ReplicaDescription, int], float],
) -> Callable[[View], Iterator[Series]]:
    """Return the source of a series for each replica that is shown."""

    def source(view: View) -> Iterator[Series]:
        described, led_ms = view
        for replica, role in _shown(described):
            key = replica.key
            labels = (str(key.node_id), format_directory_id(key.directory_id), role)
            yield labels, value(described, replica, led_ms)

    return source


LEADER_ROWS = (
    LeaderRow(
        "raftnode_fault_tolerance",
        "Leader: number of further voters that may fail: caught-up voters minus the "
        "majority of the voter set. Below 0, nothing commits.",
        lambda view: (((), fault_tolerance(view[0])),),
    ),
    LeaderRow(
        "raftnode_peer_caught_up",
        "Leader: 1 if the replica fetched lately and its catch-up rounds are short.",
        _of_each(lambda _, replica, __: float(replica.caught_up)),
        PEER_LABELS,
    ),
    LeaderRow(
        "raftnode_peer_lag_records",
        "Leader: records between the leader's log end and what the replica has on disk.",
        _of_each(lambda described, replica, _: described.log_end - max(replica.acknowledged, 0)),
        PEER_LABELS,
    ),
    LeaderRow(
        "raftnode_peer_lag_seconds",
        "Leader: seconds since the replica last had the whole log, or since the start of "
        "this epoch.",
        _of_each(lambda _, replica, led_ms: _seconds(replica.last_caught_up_age_ms, led_ms)),
        PEER_LABELS,
    ),
    LeaderRow(
        "raftnode_peer_fetch_age_seconds",
        "Leader: seconds since the replica last fetched, or since the start of this epoch.",
        _of_each(lambda _, replica, led_ms: _seconds(replica.last_fetch_age_ms, led_ms)),
        PEER_LABELS,
    ),
)
"""The table of these metrics."""
