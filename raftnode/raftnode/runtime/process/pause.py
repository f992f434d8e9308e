"""The pause that a long piece of work beside the loop makes again and again."""

from __future__ import annotations

import threading

PAUSE_S = 0.001
"""Long enough for another thread that waits for the interpreter to get it."""


class StoppedError(Exception):
    """The node stops, so the work is given up."""


class Pause:
    """Called by a thread after each bit of its work; ends the work when the node stops."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def __call__(self, seconds: float | None = None) -> None:
        """Let other threads run for `seconds`, or `PAUSE_S` without a value.

        Raises:
            StoppedError: the node stops, or stopped meanwhile.
        """
        if self._stopped.wait(PAUSE_S if seconds is None else seconds):
            raise StoppedError

    @property
    def stopped(self) -> bool:
        """Whether the node stops."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Give up all work that is at a pause or reaches its next one."""
        self._stopped.set()
