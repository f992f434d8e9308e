"""A network that loses, delays, reorders and duplicates, and can be cut in any direction."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from raftnode.core.types import NodeId


@dataclass(slots=True)
class NetworkSettings:
    """How bad the network is; chances between 0 and 1, delays in milliseconds."""

    loss: float = 0.02
    duplication: float = 0.02
    delay_max_ms: int = 20
    slow: float = 0.02
    slow_delay_max_ms: int = 1500


@dataclass(slots=True)
class SimNetwork:
    """Carries closures from node to node, or loses them."""

    rng: random.Random
    schedule: Callable[[int, Callable[[], None]], None]
    settings: NetworkSettings = field(default_factory=NetworkSettings)
    cut: set[tuple[NodeId, NodeId]] = field(default_factory=set[tuple[NodeId, NodeId]])
    """Directed pairs through which nothing passes."""
    lost: int = 0
    carried: int = 0

    def carry(self, source: NodeId, target: NodeId, deliver: Callable[[], None]) -> bool:
        """Deliver later, once, twice or never; return whether it was carried."""
        if (source, target) in self.cut or self.rng.random() < self.settings.loss:
            self.lost += 1
            return False
        copies = 2 if self.rng.random() < self.settings.duplication else 1
        for _ in range(copies):
            self.carried += 1
            self.schedule(self._delay(), deliver)
        return True

    def _delay(self) -> int:
        if self.rng.random() < self.settings.slow:
            return self.rng.randint(0, self.settings.slow_delay_max_ms)
        return self.rng.randint(0, self.settings.delay_max_ms)

    def heal(self) -> None:
        """Remove all cuts and losses, and keep delays short."""
        self.cut.clear()
        self.settings = NetworkSettings(0, 0, 5, 0, 0)
