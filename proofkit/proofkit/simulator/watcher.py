"""What wants to see all that the nodes of a world do, without a part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from raftnode.core.effects import Effect
from raftnode.core.events import Event

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode


class Watcher(Protocol):
    """Told of each thing before it is done, unless it says otherwise."""

    def started(self, node: SimNode) -> None:
        """A process has begun, and has handled no event."""
        ...

    def handles(self, node: SimNode, event: Event) -> None:
        """The core takes an event."""
        ...

    def carries_out(self, node: SimNode, effect: Effect) -> None:
        """The process carries an effect out."""
        ...

    def handled(self, node: SimNode) -> None:
        """All effects of an event have been carried out."""
        ...

    def lost(self, node: SimNode) -> None:
        """A disk is lost."""
        ...

    def put_back(self, node: SimNode) -> None:
        """A volume is restored from a copy."""
        ...
