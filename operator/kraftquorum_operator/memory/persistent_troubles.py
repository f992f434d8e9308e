"""Which troubles last: a trouble that passes within seconds needs no condition.

A claim has no volume at first, and a pod is missing between its deletion and its successor. A
container that exits again and again, however, runs for a moment between two exits: its trouble
lasts until it has run for a while, or is ready. Losing this state costs seconds, never safety.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kraftquorum_operator.model.observation import CRASH_LOOP, Observation, Trouble

PATIENCE_MS = 3_000
LINGER_MS = 10_000
"""How long a container in a crash loop must run before the crash loop is over."""


@dataclass(slots=True)
class PersistentTroubles:
    """Since when each subject of one quorum is in trouble, for any reason."""

    since_ms: dict[str, int] = field(default_factory=dict[str, int])
    loops: dict[str, tuple[Trouble, int]] = field(default_factory=dict[str, tuple[Trouble, int]])
    """Each crash loop, and when its container was last seen not to run."""

    def mark(self, observation: Observation, now_ms: int) -> Observation:
        """Leave out recent troubles, and keep crash loops that continue."""
        present = {trouble.subject for trouble in observation.troubles}
        for trouble in observation.troubles:
            if trouble.reason == CRASH_LOOP:
                self.loops[trouble.subject] = (trouble, now_ms)
        self.loops = {
            subject: (trouble, at)
            for subject, (trouble, at) in self.loops.items()
            if now_ms - at < LINGER_MS and _tries(observation, trouble.ordinal)
        }
        trying = tuple(t for subject, (t, _) in self.loops.items() if subject not in present)
        troubles = tuple(
            sorted((*observation.troubles, *trying), key=lambda t: (t.ordinal, t.subject))
        )
        self.since_ms = {t.subject: self.since_ms.get(t.subject, now_ms) for t in troubles}
        lasting = tuple(t for t in troubles if now_ms - self.since_ms[t.subject] >= PATIENCE_MS)
        return replace(observation, troubles=lasting)


def _tries(observation: Observation, ordinal: int) -> bool:
    """Whether a pod is there and not ready yet."""
    pod = observation.pod(ordinal)
    return pod is not None and not pod.ready and not pod.terminating
