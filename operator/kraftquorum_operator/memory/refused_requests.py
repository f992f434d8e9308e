"""Requests that the API server refused: retried after growing pauses, and reported meanwhile.

These are objects that it does not accept, pods and claims that it does not let the operator evict
or delete, and claims that it does not let grow. Without pauses, one such request in each
reconciliation would hold back everything after it. Losing this state costs one more attempt, never
safety.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kraftquorum_operator.memory.request_failures import REPORTED_AFTER, Failure
from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.plan.actions import (
    Action,
    CountPod,
    DeleteClaim,
    DeletePod,
    EvictPod,
    GrowClaim,
    describe,
)

FIRST_MS = 2_000
LONGEST_MS = 60_000

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the API server refused a request, and when to retry it."""

    why: str
    generation: int
    """Of the resource: after a change of its spec the operator retries at once."""
    pause_ms: int
    until_ms: int
    count: int = 1
    """How many times in a row."""
    failure: tuple[str, str] = ("", "")
    """The same as a condition's reason and message."""
    refused: bool = True
    """The API server does not allow it; False: it failed for another reason."""


def _next_refusal(
    last: Refusal | None,
    why: str,
    generation: int,
    now_ms: int,
    failure: tuple[str, str] = ("", ""),
) -> Refusal:
    """The next refusal in a row: its pause is twice as long."""
    if last is None or last.generation != generation:
        return Refusal(why, generation, FIRST_MS, now_ms + FIRST_MS, 1, failure)
    pause_ms = min(LONGEST_MS, last.pause_ms * 2)
    return Refusal(why, generation, pause_ms, now_ms + pause_ms, last.count + 1, failure)


@dataclass(slots=True)
class Refusals:
    """The refused requests of one quorum."""

    known: dict[ObjectRef, Refusal] = field(default_factory=dict[ObjectRef, Refusal])
    """Objects that could not be written."""
    deletions: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """Pods and claims that could not be evicted or deleted, by UID."""
    growths: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """Claims that could not be asked to grow for any reason, by UID: nothing waits for a retry."""
    counting: Refusal | None = None
    """The disruption budget did not take another list of pods."""

    def failed(self, refs: Iterable[ObjectRef], why: str, generation: int, now_ms: int) -> None:
        """Remember that objects could not be written."""
        for ref in refs:
            self.known[ref] = _next_refusal(self.known.get(ref), why, generation, now_ms)

    def deletion_failed(
        self, action: Action, failure: Failure, generation: int, now_ms: int
    ) -> None:
        """Remember that a pod or a claim could not be evicted or deleted; ignore other actions.

        A conflict is no refusal: another client was faster, and the next reconciliation decides
        again.
        """
        if failure.conflict or not isinstance(action, EvictPod | DeletePod | DeleteClaim):
            return
        condition = (failure.reason, f"{describe(action)}: {failure.message}")
        last = self.deletions.get(action.uid)
        self.deletions[action.uid] = _next_refusal(
            last, failure.message, generation, now_ms, condition
        )

    def growth_accepted(self, action: Action) -> None:
        """Forget the refusals once the API server accepts a request: it may accept all now."""
        if isinstance(action, GrowClaim):
            self.growths.clear()

    def growth_failed(self, action: Action, failure: Failure, generation: int, now_ms: int) -> None:
        """Remember that a claim could not be asked to grow; ignore other actions.

        A conflict pauses it as well: an endless row of them would hold back all that follows. A
        refusal stays reported until a request is accepted.
        """
        if isinstance(action, GrowClaim):
            last = self.growths.get(action.uid)
            stays = last is not None and last.refused and not failure.refused
            why = last.why if last is not None and stays else failure.message
            refusal = _next_refusal(last, why, generation, now_ms)
            self.growths[action.uid] = replace(refusal, refused=failure.refused or stays)

    def counting_failed(
        self, action: Action, failure: Failure, generation: int, now_ms: int
    ) -> None:
        """Remember that the budget could not get another list of pods; ignore other actions."""
        if isinstance(action, CountPod) and not failure.conflict:
            self.counting = _next_refusal(self.counting, failure.message, generation, now_ms)

    def counting_accepted(self, action: Action) -> None:
        """Forget the refusal once the API server accepts the request."""
        if isinstance(action, CountPod):
            self.counting = None

    def deletion_accepted(self, action: Action) -> None:
        """Forget the refusal of a pod or a claim once the API server accepts the request."""
        if isinstance(action, EvictPod | DeletePod | DeleteClaim):
            self.deletions.pop(action.uid, None)

    def mark(self, observation: Observation, now_ms: int) -> Observation:
        """Take out of the observation what was refused and is not due for a retry."""
        self.known = {ref: what for ref, what in self.known.items() if ref in observation.outdated}
        budget = ObjectRef("PodDisruptionBudget", observation.name)
        counting = {budget: self.counting} if self.counting is not None else {}
        held = _held(counting | self.known, observation.generation, now_ms)
        outdated = tuple(ref for ref in observation.outdated if ref not in held)
        refused = (*observation.refused, *sorted(held.items()))
        present = {item.uid for item in (*observation.pods, *observation.claims)}
        self.deletions = _wanted(self.deletions, present, now_ms)
        self.growths = _wanted(self.growths, present, now_ms)
        refused_deletions = tuple(
            sorted(_held(self.deletions, observation.generation, now_ms).items())
        )
        held_growths = _held(self.growths, observation.generation, now_ms)
        lasting = [what.failure for what in self.deletions.values() if what.count >= REPORTED_AFTER]
        failure = lasting[0] if lasting else observation.failure
        return replace(
            observation,
            outdated=outdated,
            refused=refused,
            refused_deletions=refused_deletions,
            refused_growths=_whys(self.growths, refused=True),
            failed_growths=_whys(self.growths, refused=False),
            due_growths=frozenset(self.growths.keys() - held_growths.keys()),
            failure=failure,
        )


def _whys(known: dict[str, Refusal], *, refused: bool) -> tuple[tuple[str, str], ...]:
    """Why the requests were refused, or failed for another reason."""
    return tuple(sorted((uid, w.why) for uid, w in known.items() if w.refused is refused))


def _wanted(known: dict[str, Refusal], present: set[str], now_ms: int) -> dict[str, Refusal]:
    """A request that is not retried after its pause is no longer wanted."""
    return {
        uid: what
        for uid, what in known.items()
        if uid in present and now_ms < what.until_ms + LONGEST_MS
    }


def _held(known: dict[Key, Refusal], generation: int, now_ms: int) -> dict[Key, str]:
    """The requests that are not due for a retry, and why they were refused."""
    return {
        key: what.why
        for key, what in known.items()
        if what.generation == generation and now_ms < what.until_ms
    }
