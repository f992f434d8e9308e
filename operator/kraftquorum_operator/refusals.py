"""What the API server refused: not asked for again at every look, and reported meanwhile.

Objects that it does not take, and pods and claims that it does not let the operator evict or
delete. Without pauses one such request, asked for at each look, would keep everything that
comes after it from being done. Losing this costs one more try, never safety.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kraftquorum_operator.failures import TOLD_AFTER, Failure
from kraftquorum_operator.observe.snapshot import Snapshot
from kraftquorum_operator.plan.actions import Action, DeleteClaim, DeletePod, EvictPod, describe

FIRST_MS = 2_000
LONGEST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not done, and when to try again."""

    why: str
    generation: int
    """Of the resource: after a change of its spec there is something new to try."""
    pause_ms: int
    until_ms: int
    count: int = 1
    """How many times in a row."""
    failure: tuple[str, str] = ("", "")
    """The same for a condition: a reason in one word, and a sentence."""


def _again(
    last: Refusal | None,
    why: str,
    generation: int,
    now_ms: int,
    failure: tuple[str, str] = ("", ""),
) -> Refusal:
    """The refusal after another one: each time the pause is twice as long."""
    if last is None or last.generation != generation:
        return Refusal(why, generation, FIRST_MS, now_ms + FIRST_MS, 1, failure)
    pause_ms = min(LONGEST_MS, last.pause_ms * 2)
    return Refusal(why, generation, pause_ms, now_ms + pause_ms, last.count + 1, failure)


@dataclass(slots=True)
class Refusals:
    """What was refused about one quorum."""

    known: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """Objects that could not be written, as `Kind/name`."""
    ends: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """Pods and claims that could not be evicted or deleted, by UID."""

    def failed(self, keys: Iterable[str], why: str, generation: int, now_ms: int) -> None:
        """Remember that objects could not be written."""
        for key in keys:
            self.known[key] = _again(self.known.get(key), why, generation, now_ms)

    def not_ended(self, action: Action, failure: Failure, generation: int, now_ms: int) -> None:
        """Remember that a pod or a claim could not be evicted or deleted; others do not matter.

        A conflict is no refusal: another writer was faster, and the next look decides again.
        """
        if failure.conflict or not isinstance(action, EvictPod | DeletePod | DeleteClaim):
            return
        told = (failure.reason, f"{describe(action)}: {failure.message}")
        last = self.ends.get(action.uid)
        self.ends[action.uid] = _again(last, failure.message, generation, now_ms, told)

    def ended(self, action: Action) -> None:
        """Forget what was refused of a pod or a claim that is accepted now."""
        if isinstance(action, EvictPod | DeletePod | DeleteClaim):
            self.ends.pop(action.uid, None)

    def mark(self, seen: Snapshot, now_ms: int) -> Snapshot:
        """Tell what to do now from what was refused just now."""
        self.known = {key: what for key, what in self.known.items() if key in seen.outdated}
        held = _held(self.known, seen.generation, now_ms)
        outdated = tuple(key for key in seen.outdated if key not in held)
        refused = (*seen.refused, *sorted(held.items()))
        present = {one.uid for one in (*seen.pods, *seen.claims)}
        # One that is not asked for again when its pause is over is not wanted any more.
        self.ends = {
            uid: what
            for uid, what in self.ends.items()
            if uid in present and now_ms < what.until_ms + LONGEST_MS
        }
        ends = tuple(sorted(_held(self.ends, seen.generation, now_ms).items()))
        lasting = [what.failure for what in self.ends.values() if what.count >= TOLD_AFTER]
        failure = lasting[0] if lasting else seen.failure
        return replace(seen, outdated=outdated, refused=refused, refused_ends=ends, failure=failure)


def _held(known: dict[str, Refusal], generation: int, now_ms: int) -> dict[str, str]:
    """What is not to be asked for again yet, and why."""
    return {
        key: what.why
        for key, what in known.items()
        if what.generation == generation and now_ms < what.until_ms
    }
