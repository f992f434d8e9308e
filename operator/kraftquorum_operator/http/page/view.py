"""What the page and its JSON show: a whitelist, made from the cached statuses alone.

No label, annotation, environment or other object of Kubernetes enters here, so none can leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from pydantic import Field

from kraftquorum_operator.http.page.kafka_verdict import KAFKA_STALE_S, judge_kafka
from kraftquorum_operator.http.page.verdict import (
    GOOD,
    LEVELS,
    STALE_S,
    Level,
    Verdict,
    judge,
    tolerance_of,
)
from kraftquorum_operator.memory.status_cache import CachedStatus
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.model.observation import majority
from kraftquorum_operator.model.status import QuorumStatus, StatusModel

FORMAT = "kraftquorum.io/status-page/v1"

NOT_STARTED = "The operator has not reached the API server yet and knows no quorum."
"""Instead of a summary."""


class OperatorView(StatusModel):
    """The operator that serves the page."""

    identity: str
    """Its name in the Lease."""
    version: str
    """Its version."""
    active: bool
    """Whether it holds the Lease. On standby it shows what the active operator has written."""
    started: bool = True
    """Whether it has reached the API server; before that it knows no quorum."""


class JudgedView(StatusModel):
    """One resource, judged."""

    namespace: str
    """Of the resource."""
    name: str
    """Of the resource."""
    verdict: Level
    """The judgement, for programs."""
    words: str
    """The judgement, for people."""
    sentence: str
    """What it means."""
    runbook: str | None = None
    """Name of the runbook in docs/operations/runbooks/; unset: none is needed."""
    seen_at: str
    """When it was observed, or, on standby, when the watch brought the status."""
    source: Literal["observed", "reported"]
    """Observed by this operator, or read from the resource."""

    @property
    def good(self) -> bool:
        """Whether no person needs to act."""
        return self.verdict in GOOD

    @property
    def path(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """How a sentence names it."""
        return self.path

    @property
    def anchor(self) -> str:
        """Its part of ids in the page: no name has a colon."""
        return f"{self.namespace}.{self.name}"


View = TypeVar("View", bound=JudgedView)


class QuorumView(JudgedView):
    """One quorum."""

    voters_wanted: int
    """`spec.voters`."""
    tolerance: int = 0
    """How many voters may fail now."""
    tolerance_wanted: int
    """How many voters may fail when all voters are caught up."""
    status: QuorumStatus | None
    """As in the resource, and with offsets and ages, which an operator on standby does not know;
    unset: no operator has reported yet."""


class KafkaQuorumView(JudgedView):
    """Controllers of one Apache Kafka."""

    status: KafkaQuorumStatus | None
    """As in the resource; unset: no operator has reported yet."""

    @property
    def title(self) -> str:
        """How a sentence names it: it may have the name of a quorum."""
        return f"Kafka quorum {self.path}"

    @property
    def anchor(self) -> str:
        """Its part of ids in the page."""
        return f"kafka:{self.namespace}.{self.name}"


class PageView(StatusModel):
    """The whole page."""

    format: str = FORMAT
    """Changes when a field is removed or changes its meaning; fields may be added."""
    at: str
    """When the operator made the page."""
    summary: str
    """One sentence about all quorums."""
    operator: OperatorView
    """The operator that made the page."""
    quorums: list[QuorumView] = Field(default_factory=list[QuorumView])
    """Worst first."""
    kafka_quorums: list[KafkaQuorumView] = Field(default_factory=list[KafkaQuorumView])
    """Worst first; empty without `KRAFTQUORUM_KAFKA_ADVICE`."""

    @property
    def both(self) -> list[JudgedView]:
        """Quorums of both kinds, worst first."""
        return worst_first([*self.quorums, *self.kafka_quorums])


def page_view(
    quorums: Iterable[CachedStatus[QuorumStatus]],
    operator: OperatorView,
    now_s: float,
    stale_s: float = STALE_S,
    kafka: Iterable[CachedStatus[KafkaQuorumStatus]] = (),
    kafka_stale_s: float = KAFKA_STALE_S,
) -> PageView:
    """Show the cached statuses.

    Args:
        quorums: the cached statuses.
        operator: the operator that serves the page.
        now_s: wall clock.
        stale_s: how old an own observation may be.
        kafka: the cached statuses of KafkaQuorums.
        kafka_stale_s: how old an own check of one may be.
    """
    views = [
        QuorumView(
            **_judged(entry, judge(entry, now_s, stale_s)),
            voters_wanted=entry.voters,
            tolerance=tolerance_of(entry.status) if entry.status else 0,
            tolerance_wanted=entry.voters - majority(entry.voters) if entry.voters else 0,
            status=entry.status,
        )
        for entry in quorums
    ]
    kafka_views = [
        KafkaQuorumView(
            **_judged(entry, judge_kafka(entry, now_s, kafka_stale_s)), status=entry.status
        )
        for entry in kafka
    ]
    both = worst_first([*views, *kafka_views])
    return PageView(
        at=stamp(now_s),
        summary=summary(both) if operator.started or both else NOT_STARTED,
        operator=operator,
        quorums=worst_first(views),
        kafka_quorums=worst_first(kafka_views),
    )


def worst_first(views: Sequence[View]) -> list[View]:
    """By level, then by name."""
    return sorted(
        views,
        key=lambda view: (list(LEVELS).index(view.verdict), view.namespace, view.name, view.title),
    )


def _judged(entry: CachedStatus[Any], verdict: Verdict) -> dict[str, Any]:
    """The fields of a `JudgedView`."""
    return {
        "namespace": entry.namespace,
        "name": entry.name,
        "verdict": verdict.level,
        "words": verdict.words,
        "sentence": verdict.sentence,
        "runbook": verdict.runbook,
        "seen_at": stamp(entry.at_s),
        "source": "observed" if entry.own else "reported",
    }


def stamp(seconds: float) -> str:
    """Wall clock in the format of Kubernetes."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(views: Sequence[JudgedView]) -> str:
    """One sentence about all quorums."""
    if not views:
        return "The operator manages no quorum."
    bad = [view for view in views if not view.good]
    if not bad:
        return "The quorum is safe." if len(views) == 1 else f"All {len(views)} quorums are safe."
    worst = bad[0]
    first = f"{worst.title}: {worst.words.lower()}"
    if len(views) == 1:
        return f"{first}."
    return f"{len(bad)} of {len(views)} quorums need attention, first {first}."
