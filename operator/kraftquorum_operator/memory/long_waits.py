"""How long the operator pauses while a quorum waits for a person or a storage driver, for hours.

A change that a watch reports ends each pause at once. Losing this state costs requests only.
"""

from __future__ import annotations

from dataclasses import dataclass

GUARDS = frozenset({"not_paused", "never_rebootstrap", "claim_growth_accepted", "volume_has_grown"})
"""The guards that back off: the quorum is paused or lost, or waits only for volumes to grow."""

LONGEST_S = 30.0


@dataclass(slots=True)
class LongWaits:
    """Which of the guards blocks one quorum, and how long the last pause was."""

    guard: str | None = None
    pause_s: float = 0.0

    def next_pause_s(self, guard: str | None, busy_s: float, idle_s: float) -> float:
        """The next pause, twice as long each time while the same guard blocks.

        Args:
            guard: the guard that blocks; None: the quorum does not wait.
            busy_s: the first pause, and each pause at another guard.
            idle_s: the longest pause, at most `LONGEST_S`.
        """
        again = guard is not None and guard == self.guard and guard in GUARDS
        longest_s = max(busy_s, min(idle_s, LONGEST_S))
        self.guard, self.pause_s = guard, min(2 * self.pause_s, longest_s) if again else busy_s
        return self.pause_s
