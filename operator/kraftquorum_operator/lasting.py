"""Which troubles last: what passes by itself within seconds is not worth a condition.

A claim has no volume at first, and a pod is away between its deletion and its successor.
Losing this costs seconds, never safety.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kraftquorum_operator.observe.snapshot import Snapshot

PATIENCE_MS = 3_000


@dataclass(slots=True)
class Lasting:
    """Since when each subject of one quorum is in trouble, whatever its reason."""

    since_ms: dict[str, int] = field(default_factory=dict[str, int])

    def mark(self, seen: Snapshot, now_ms: int) -> Snapshot:
        """Leave out the troubles that are not old enough."""
        subjects = {trouble.subject for trouble in seen.troubles}
        self.since_ms = {s: self.since_ms.get(s, now_ms) for s in subjects}
        lasting = tuple(
            t for t in seen.troubles if now_ms - self.since_ms[t.subject] >= PATIENCE_MS
        )
        return replace(seen, troubles=lasting)
