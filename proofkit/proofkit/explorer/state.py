"""One world of the explorer, as numbers; `world` knows their meaning."""

from __future__ import annotations

from typing import NamedTuple

from proofkit.explorer.step_checks import Leaders
from raftnode.core.types import Offset


class State(NamedTuple):
    """One world. Letters are a set, in order of their numbers.

    Attributes:
        locals: the number of each replica's state.
        letters: the numbers of the messages on their way.
        left: what is left of each budget, in the order of `BUDGETS`.
        leaders: who has led each epoch so far.
        committed: numbers of the committed batches so far.
        hung: whose disks hang, each with the end of the flush that is under way.
        stopped: whose processes stand still.
    """

    locals: tuple[int, ...]
    letters: tuple[int, ...]
    left: tuple[int, ...]
    leaders: Leaders
    committed: tuple[int, ...]
    hung: tuple[tuple[int, Offset], ...] = ()
    stopped: tuple[int, ...] = ()

    def hangs(self, index: int) -> bool:
        """Whether that replica's disk hangs."""
        return any(index == at for at, _ in self.hung)

    def is_well(self, index: int) -> bool:
        """Whether neither that replica's disk nor its process has stopped."""
        return not self.hangs(index) and index not in self.stopped
