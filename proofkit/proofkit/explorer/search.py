"""Searches a bounded world breadth first: each reachable state once, the shortest way first."""

from __future__ import annotations

import hashlib
import marshal
import time
from array import array
from dataclasses import dataclass, field

from proofkit.explorer.action import Action
from proofkit.explorer.bounds import Bounds
from proofkit.explorer.trace import trace
from proofkit.explorer.world import State, World
from proofkit.simulator.invariants import InvariantError


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant and the shortest way to it.

    Attributes:
        name: of the invariant, or of the exception that the core raised.
        detail: what was seen.
        length: how many actions lead to it; the last one broke it.
        trace: what happened from the first state on, in words.
    """

    name: str
    detail: str
    length: int
    trace: tuple[str, ...]


@dataclass(slots=True)
class Report:
    """The result of a search.

    Attributes:
        states: different worlds, the first one included.
        transitions: actions taken from them; several may lead to one world.
        depth: actions from the first world to the farthest one.
        replica_states: different states of single replicas.
        core_steps: how often the core itself ran; all else was remembered.
        seconds: how long it took.
        complete: whether nothing within the bounds is left; else why the search ended.
        leaders: how many epochs had a leader, at most, in one world.
        committed: how many batches were committed, at most, in one world.
        actions: how often each kind of action was taken.
    """

    bounds: Bounds
    states: int = 0
    transitions: int = 0
    depth: int = 0
    replica_states: int = 0
    core_steps: int = 0
    seconds: float = 0.0
    complete: bool = False
    violation: Violation | None = None
    leaders: int = 0
    committed: int = 0
    actions: dict[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        """One line with counts."""
        counts = {
            "states": self.states,
            "transitions": self.transitions,
            "depth": self.depth,
            "replica_states": self.replica_states,
            "core_steps": self.core_steps,
            "epochs_led": self.leaders,
            "batches_committed": self.committed,
            "states_per_s": round(self.states / max(self.seconds, 1e-9)),
            "complete": "yes" if self.complete else "no",
            "violation": self.violation.name if self.violation else "none",
        }
        return " ".join(f"{k}={v}" for k, v in counts.items()) + f" in {self.seconds:.1f} s"


class Search:
    """One search.

    A state is remembered by a digest of 128 bits and by how it was first reached: two
    different states have one digest with a chance below 1e-24 among a million.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.world = World(bounds)
        self.report = Report(bounds)
        self._seen: set[bytes] = set()
        self._parents = array("q")
        self._choices = array("h")

    def run(self, *, seconds_max: float | None = None, states_max: int | None = None) -> Report:
        """Search until no state is left, an invariant is broken, or a limit is reached."""
        started = time.monotonic()
        deadline = None if seconds_max is None else started + seconds_max
        try:
            self._layers(deadline, states_max)
        finally:
            self.report.seconds = time.monotonic() - started
            self.report.replica_states = len(self.world.locals.all)
            self.report.core_steps = self.world.locals.core_steps
        return self.report

    def _layers(self, deadline: float | None, states_max: int | None) -> None:
        report = self.report
        first = self.world.first()
        self._is_new(first, -1, 0)
        layer = [(0, first)]
        while layer:
            following: list[tuple[int, State]] = []
            for number, state in layer:
                if deadline is not None and time.monotonic() > deadline:
                    return
                if states_max is not None and report.states >= states_max:
                    return
                self._expand(number, state, following)
                if report.violation is not None:
                    return
            report.depth += 1 if following else 0
            layer = following
        report.complete = True

    def _expand(self, number: int, state: State, following: list[tuple[int, State]]) -> None:
        report, world = self.report, self.world
        for choice, action in enumerate(world.actions(state)):
            report.transitions += 1
            report.actions[action.kind] = report.actions.get(action.kind, 0) + 1
            try:
                after = world.apply(state, action)
            except AssertionError as broken:
                name = broken.name if isinstance(broken, InvariantError) else "CoreAssertion"
                way = (*self._way_to(number), action)
                lines = tuple(trace(world, way))
                report.violation = Violation(name, str(broken), len(way), lines)
                return
            if world.is_within(after) and self._is_new(after, number, choice):
                following.append((report.states - 1, after))

    def _is_new(self, state: State, parent: int, choice: int) -> bool:
        leaders = [(epoch, self.world.locals.index_of[key]) for epoch, key in state.leaders]
        slow = (state.hung, state.stopped)
        what = (state.locals, state.letters, state.left, leaders, state.committed, slow)
        digest = hashlib.blake2b(marshal.dumps(what, 2), digest_size=16).digest()
        if digest in self._seen:
            return False
        self._seen.add(digest)
        self._parents.append(parent)
        self._choices.append(choice)
        report = self.report
        report.states += 1
        report.leaders = max(report.leaders, len(state.leaders))
        report.committed = max(report.committed, len(state.committed))
        return True

    def _way_to(self, number: int) -> tuple[Action, ...]:
        choices: list[int] = []
        while self._parents[number] >= 0:
            choices.append(self._choices[number])
            number = self._parents[number]
        state, way = self.world.first(), list[Action]()
        for choice in reversed(choices):
            action = list(self.world.actions(state))[choice]
            way.append(action)
            state = self.world.apply(state, action)
        return tuple(way)


def explore(
    bounds: Bounds, *, seconds_max: float | None = None, states_max: int | None = None
) -> Report:
    """Explore a bounded world with the core as it is now."""
    return Search(bounds).run(seconds_max=seconds_max, states_max=states_max)
