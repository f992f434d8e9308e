"""The events of a reconciliation: each action once, a guard that keeps blocking repeatedly.

`report/event_poster.py` sends and counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from kraftquorum_operator.model.observation import Trouble
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.actions import Action, Decision, Done, Wait, describe
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.report.stamp import camel

PATIENCE_MS = 5_000
"""A guard that blocks for less than this has no event."""


@dataclass(frozen=True, slots=True)
class Event:
    """What is posted to the resource."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: str = ""
    """Events of one type and reason about the same subject are one event with a count."""


@dataclass(slots=True)
class EventLog:
    """The events already posted about one resource; losing it only repeats an event."""

    guard: str | None = None
    blocked_since_ms: int = 0
    posted_at_ms: int | None = None
    even_generation: int = 0
    failure: tuple[str, str] | None = None
    failure_posted_at_ms: int = 0
    troubles: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """When each subject and reason last had an event."""

    def of(self, decision: Decision, now_ms: int, interval_ms: int) -> list[Event]:
        """The events of a decision. Call it with every decision."""
        if not isinstance(decision, Wait):
            self.guard = None
            return [] if isinstance(decision, Done) else [_action(decision)]
        if decision.guard != self.guard:
            self.guard, self.blocked_since_ms, self.posted_at_ms = decision.guard, now_ms, None
        guard = GUARDS.get(decision.guard)
        urgent = guard is not None and (guard.needs_person or guard.alarms)
        if not urgent and now_ms - self.blocked_since_ms < PATIENCE_MS:
            return []
        if self.posted_at_ms is not None and now_ms - self.posted_at_ms < interval_ms:
            return []
        self.posted_at_ms = now_ms
        kind: Literal["Normal", "Warning"] = "Warning" if urgent else "Normal"
        return [Event(kind, camel(decision.guard), f"{decision.guard}: {decision.why}"[:1000])]

    def of_troubles(
        self, troubles: Sequence[Trouble], now_ms: int, interval_ms: int
    ) -> list[Event]:
        """A warning about each pod or claim that cannot start, repeated once per interval."""
        events: list[Event] = []
        present = {(trouble.subject, trouble.reason) for trouble in troubles}
        self.troubles = {key: at for key, at in self.troubles.items() if key in present}
        for trouble in troubles:
            key = (trouble.subject, trouble.reason)
            if key in self.troubles and now_ms - self.troubles[key] < interval_ms:
                continue
            self.troubles[key] = now_ms
            events.append(Event("Warning", trouble.reason, str(trouble)[:1000], trouble.subject))
        return events

    def of_failure(
        self, action: Action | None, why: str, now_ms: int, interval_ms: int
    ) -> list[Event]:
        """A warning about an action that failed; the same warning once per interval.

        Args:
            action: None: the operator could not observe the quorum.
            why: the error.
            now_ms: the operator's monotonic clock.
            interval_ms: how long the same warning is not repeated.
        """
        name = type(action).__name__ if action is not None else "Observe"
        failure = (describe(action) if action is not None else name, why)
        if failure == self.failure and now_ms - self.failure_posted_at_ms < interval_ms:
            return []
        self.failure, self.failure_posted_at_ms = failure, now_ms
        message = f"{failure[0]} failed: {why}"[:1000]
        return [Event("Warning", f"{name}Failed", message, failure[0])]

    def of_spec(self, spec: QuorumSpec, generation: int, reported: int) -> list[Event]:
        """A warning about an even number of voters, once per generation of the spec.

        Args:
            spec: what is wanted.
            generation: the spec's generation.
            reported: the generation that the status is about; it has had its warning.
        """
        if spec.voters % 2 or generation <= max(reported, self.even_generation):
            return []
        self.even_generation = generation
        return [
            Event(
                "Warning",
                "EvenVoters",
                f"{spec.voters} voters tolerate no more failures than {spec.voters - 1}; "
                "use an odd number",
            )
        ]


def _action(action: Action) -> Event:
    message = describe(action)[:1000]
    return Event("Normal", type(action).__name__, message, message)
