"""The writes and reads of a world as a key-value store sees them, to be judged as a history.

Each write puts its value under one of a few keys. A read is what the node's API does: a round
confirms the leader, and once all that was committed then is applied here, the value that the
state machine has under the key is the answer. Time is the order of events: one thread does them
all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofkit.linearizability import History, check
from proofkit.simulator.machine import key_of
from raftnode.core.types import Offset

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode
    from proofkit.simulator.world import World

APPLY_AGAIN_MS = 5


@dataclass(slots=True)
class KeyValueHistory:
    """The requests of clients and their answers."""

    world: World
    history: History[bytes] = field(default_factory=History[bytes])
    moment: int = 0
    reads: int = 0
    answered: set[int] = field(default_factory=set[int])
    """The numbers of the reads that were answered."""

    def _now(self) -> int:
        self.moment += 1
        return self.moment

    def wrote(self, number: int, value: bytes) -> int:
        """Note that a write begins; return its number."""
        return self.history.called(key_of(number), self._now(), is_write=True, value=value)

    def ended(self, call: int, outcome: str) -> None:
        """Note that a write ends; an unknown outcome leaves it open."""
        if outcome == "acknowledged":
            self.history.returned(call, self._now())
        elif outcome == "refused":
            self.history.failed(call)

    def reads_key(self, node: SimNode) -> tuple[bytes, int]:
        """A read of the next key begins at a node; returns the key and the read's number."""
        self.reads += 1
        key = key_of(self.reads)
        return key, self.history.called(key, self._now(), is_write=False, client=str(node.key))

    def confirmed(self, node: SimNode, life: int, call: int, key: bytes, needed: Offset) -> None:
        """Answer once all below an offset is applied; never, if the process ends before."""
        if node.life != life or node.core is None:
            return
        if node.machine.end < needed:
            again = APPLY_AGAIN_MS
            self.world.after(again, lambda: self.confirmed(node, life, call, key, needed))
            return
        self.answered.add(call)
        self.history.returned(call, self._now(), value=node.machine.values.get(key))

    def judge(self) -> None:
        """Linearizable: some order of all operations explains every answer."""
        violation = check(self.history.all())
        if violation is not None:
            self.world.checker.fail("Linearizable", str(violation))
