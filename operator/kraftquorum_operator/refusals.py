"""Objects that could not be written: not tried again at every look, and told meanwhile.

Losing this costs one more try, never safety.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kraftquorum_operator.observe.snapshot import Snapshot

FIRST_MS = 2_000
LONGEST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object was not written, and when to try again."""

    why: str
    generation: int
    """Of the resource: after a change of its spec there is a new body to try."""
    pause_ms: int
    until_ms: int


@dataclass(slots=True)
class Refusals:
    """The objects of one quorum that could not be written, as `Kind/name`."""

    known: dict[str, Refusal] = field(default_factory=dict[str, Refusal])

    def failed(self, keys: Iterable[str], why: str, generation: int, now_ms: int) -> None:
        """Remember that objects could not be written; each time twice as long."""
        for key in keys:
            last = self.known.get(key)
            again = last is not None and last.generation == generation
            pause_ms = min(LONGEST_MS, last.pause_ms * 2) if last and again else FIRST_MS
            self.known[key] = Refusal(why, generation, pause_ms, now_ms + pause_ms)

    def mark(self, seen: Snapshot, now_ms: int) -> Snapshot:
        """Tell the outdated objects to write now from those that were refused just now."""
        self.known = {key: what for key, what in self.known.items() if key in seen.outdated}
        held = {
            key: what.why
            for key, what in self.known.items()
            if what.generation == seen.generation and now_ms < what.until_ms
        }
        outdated = tuple(key for key in seen.outdated if key not in held)
        refused = (*seen.refused, *sorted(held.items()))
        return replace(seen, outdated=outdated, refused=refused)
