"""What wants to see all that replicas do, without a part in it."""

from __future__ import annotations

from typing import Protocol

from raftnode.core.effects import Effect
from raftnode.core.events import Event
from raftnode.core.raft import RaftCore
from raftnode.core.types import ReplicaKey


class Watched(Protocol):
    """A process on a disk: of the simulator or of a playbook."""

    core: RaftCore | None

    @property
    def key(self) -> ReplicaKey:
        """The replica that it is."""
        ...


class Watcher(Protocol):
    """Told of each thing before it is done, unless it says otherwise."""

    def started(self, process: Watched) -> None:
        """A process has begun, and has handled no event."""
        ...

    def handles(self, process: Watched, event: Event) -> None:
        """The core takes an event."""
        ...

    def carries_out(self, process: Watched, effect: Effect) -> None:
        """The process carries an effect out."""
        ...

    def handled(self, process: Watched) -> None:
        """All effects of an event have been carried out."""
        ...

    def lost(self, process: Watched) -> None:
        """A disk is lost."""
        ...

    def put_back(self, process: Watched) -> None:
        """A volume is restored from a copy."""
        ...
