"""Records the lives of the simulator's worlds."""

from __future__ import annotations

from dataclasses import dataclass

from proofkit.simulator.node import SimNode
from proofkit.simulator.world import World
from proofkit.specification import sightings
from proofkit.specification.recorder import Recorder
from raftnode.core.effects import Effect
from raftnode.core.events import Event


@dataclass(slots=True)
class SimulationWatcher:
    """Sees what each node of a world does, and changes nothing; see `simulator.watcher`."""

    recorder: Recorder

    @classmethod
    def of(cls, world: World) -> SimulationWatcher:
        """Watch a world from its first moment on."""
        world.watcher = watcher = cls(Recorder())
        return watcher

    def started(self, node: SimNode) -> None:
        """A process begins."""
        assert node.core is not None
        self.recorder.take_all(str(node.key), sightings.of_start(node.core.replica))

    def handles(self, node: SimNode, event: Event) -> None:
        """The core is about to take an event."""
        assert node.core is not None
        self.recorder.take_all(str(node.key), [sightings.of_event(node.core.replica, event)])

    def carries_out(self, node: SimNode, effect: Effect) -> None:
        """An effect is about to be carried out."""
        self.recorder.take_all(str(node.key), [sightings.of_effect(effect)])

    def handled(self, node: SimNode) -> None:
        """All effects of an event are carried out."""
        assert node.core is not None
        self.recorder.take(str(node.key), sightings.of_state(node.core.replica))

    def lost(self, node: SimNode) -> None:
        """A disk is about to be lost."""
        self.recorder.take(str(node.key), sightings.Lost())

    def put_back(self, node: SimNode) -> None:
        """A volume is restored from a copy: the specification has no such thing."""
        self.recorder.stop(f"the volume of {node.key} was restored from a copy")
