"""How long to wait before a process that ended is started again, as a kubelet counts it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Pauses that grow while a process ends again and again.

    Attributes:
        first_s: Pause before the second restart in a row, seconds; the first is at once.
        max_s: Longest pause, seconds; each is twice the one before.
        reset_s: A process that ran this long, in seconds, is started again at once.
    """

    first_s: float
    max_s: float
    reset_s: float
    _pause_s: float = 0.0

    def after(self, ran_s: float) -> float:
        """The pause before the next start of a process that ran so long, both in seconds."""
        if ran_s >= self.reset_s:
            self._pause_s = 0.0
        pause_s = self._pause_s
        self._pause_s = min(max(pause_s * 2, self.first_s), self.max_s)
        return pause_s
