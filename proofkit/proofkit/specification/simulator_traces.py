"""Records the lives of the simulator's worlds, and what a playbook's replicas do."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofkit.simulator import run
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.watcher import Watched
from proofkit.specification import sightings
from proofkit.specification.recorder import Recorder, Trace
from raftnode.core.effects import Effect
from raftnode.core.events import Event
from raftnode.core.records import RAFT_VERSION


@dataclass(slots=True)
class RecordingWatcher:
    """Sees what each process does, and changes nothing; see `simulator.watcher`."""

    recorder: Recorder = field(default_factory=Recorder)

    def started(self, process: Watched) -> None:
        """A process begins."""
        assert process.core is not None
        self.recorder.take_all(str(process.key), sightings.of_start(process.core.replica))

    def handles(self, process: Watched, event: Event) -> None:
        """The core is about to take an event."""
        assert process.core is not None
        self.recorder.take_all(str(process.key), [sightings.of_event(process.core.replica, event)])

    def carries_out(self, process: Watched, effect: Effect) -> None:
        """An effect is about to be carried out."""
        self.recorder.take_all(str(process.key), [sightings.of_effect(effect)])

    def handled(self, process: Watched) -> None:
        """All effects of an event are carried out."""
        assert process.core is not None
        self.recorder.take(str(process.key), sightings.of_state(process.core.replica))

    def lost(self, process: Watched) -> None:
        """A disk is about to be lost."""
        self.recorder.take(str(process.key), sightings.Lost())

    def put_back(self, process: Watched) -> None:
        """A volume is restored from a copy: the specification has no such thing."""
        self.recorder.stop(f"the volume of {process.key} was restored from a copy")


@dataclass(frozen=True, slots=True)
class Life:
    """What was recorded of a world.

    Attributes:
        trace: until `broken` or `stopped`, if there is either.
        broken: what the simulator's own checker reported.
        stopped: what the specification has no action for.
    """

    seed: int
    trace: Trace
    broken: InvariantError | None
    stopped: str | None


def life_of(seed: int) -> Life:
    """Run the world of a seed and record it.

    A world that begins below raft.version 2 keeps its voters outside the log for a while, which
    the specification does not.
    """
    world = run.build(seed)
    assert world.latch.raft_version == RAFT_VERSION, f"seed {seed} begins below raft.version 2"
    world.watcher = watcher = RecordingWatcher()
    broken = None
    try:
        run.live(world)
    except InvariantError as error:
        broken = error
    return Life(seed, watcher.recorder.trace, broken, watcher.recorder.stopped)


def is_specified(seed: int) -> bool:
    """Whether the world of a seed begins as the specification does."""
    return run.build(seed).latch.raft_version == RAFT_VERSION
