"""What the page and its JSON show: a whitelist, made from the cached statuses alone.

No label, annotation, environment or other object of Kubernetes enters here, so none can leak.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from kraftquorum_operator.http.page.verdict import GOOD, STALE_S, Level, judge, tolerance_of
from kraftquorum_operator.memory.status_cache import CachedStatus
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


class QuorumView(StatusModel):
    """One quorum."""

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
    voters_wanted: int
    """`spec.voters`."""
    tolerance: int = 0
    """How many voters may fail now."""
    tolerance_wanted: int
    """How many voters may fail when all voters are caught up."""
    seen_at: str
    """When it was observed, or, on standby, when the watch brought the status."""
    source: Literal["observed", "reported"]
    """Observed by this operator, or read from the resource."""
    status: QuorumStatus | None
    """As in the resource, and with offsets and ages, which an operator on standby does not know;
    unset: no operator has reported yet."""

    @property
    def good(self) -> bool:
        """Whether no person needs to act."""
        return self.verdict in GOOD

    @property
    def path(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


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


def page_view(
    quorums: Iterable[CachedStatus], operator: OperatorView, now_s: float, stale_s: float = STALE_S
) -> PageView:
    """Show the cached statuses.

    Args:
        quorums: the cached statuses.
        operator: the operator that serves the page.
        now_s: wall clock.
        stale_s: how old an own observation may be.
    """
    judged = [(judge(entry, now_s, stale_s), entry) for entry in quorums]
    judged.sort(key=lambda pair: (pair[0].rank, pair[1].namespace, pair[1].name))
    views = [
        QuorumView(
            namespace=entry.namespace,
            name=entry.name,
            verdict=verdict.level,
            words=verdict.words,
            sentence=verdict.sentence,
            runbook=verdict.runbook,
            voters_wanted=entry.voters,
            tolerance=tolerance_of(entry.status) if entry.status else 0,
            tolerance_wanted=entry.voters - majority(entry.voters) if entry.voters else 0,
            seen_at=stamp(entry.at_s),
            source="observed" if entry.own else "reported",
            status=entry.status,
        )
        for verdict, entry in judged
    ]
    said = summary(views) if operator.started or views else NOT_STARTED
    return PageView(at=stamp(now_s), summary=said, operator=operator, quorums=views)


def stamp(seconds: float) -> str:
    """Wall clock in the format of Kubernetes."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(views: list[QuorumView]) -> str:
    """One sentence about all quorums."""
    if not views:
        return "The operator manages no quorum."
    bad = [view for view in views if not view.good]
    if not bad:
        return "The quorum is safe." if len(views) == 1 else f"All {len(views)} quorums are safe."
    worst = bad[0]
    first = f"{worst.path}: {worst.words.lower()}"
    if len(views) == 1:
        return f"{first}."
    return f"{len(bad)} of {len(views)} quorums need attention, first {first}."
