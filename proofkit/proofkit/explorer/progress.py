"""Checks from every state that a quorum makes progress beside a replica that is slow but alive.

The search shows that no bad state is reached. This module demands a good state: from each state
with a hung disk or a stopped process, a run must lead to a healthy leader that has committed its
whole log. The run delivers every message and fires every timer of a follower that would fire in
time. It chooses only the replica that starts an election, each in turn.
While a leader lives that answers its followers, none of them does: they are content, whatever the
leader's disk does. Of a leader's timers only that of its own disk fires. Time stands still here, so
no follower becomes silent: whether a leader resigns too early, because it waits for a replica that
stands still, is not seen here but in the tests of the leader (P41).

A process that stands still takes nothing and sends nothing. What waits for its answer goes on
waiting, as it would until its request times out: a way must not need that answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proofkit.explorer.action import Action
from proofkit.simulator.invariants import InvariantError
from raftnode.core.messages import VoteRequest
from raftnode.core.roles import Follower, Leader, role_name

if TYPE_CHECKING:
    from proofkit.explorer.local import Local
    from proofkit.explorer.world import State, World

SWEEPS = 3
"""How often each wait ends before the next replica stands."""
TURNS = 4
"""How often each replica stands."""

Key = tuple[tuple[int, ...], tuple[int, ...], object]


class ProgressBesideSlow:
    """Searches for progress, and remembers the states from which it is possible."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._good: set[Key] = set()

    def demand(self, state: State) -> None:
        """Search for progress from a state.

        Raises:
            InvariantError: `Progress` if there is none, or the invariant that the run breaks.
        """
        way = _Way(self._world, self._good, state)
        for turn in range(TURNS * len(self._world.keys)):
            way.go_on(turn % len(self._world.keys))
            if way.has_arrived:
                self._good.update(way.passed)
                return
        roles = ", ".join(
            f"{at} {role_name(local.replica.role) if local.core else 'silent'}"
            for at, local in enumerate(way.locals)
        )
        slow = [f"the disk of {at} hangs" for at, _ in state.hung]
        slow += [f"{at} stands still" for at in state.stopped]
        raise InvariantError(
            "Progress", f"nothing goes on while {', '.join(slow)}, in the end: {roles}"
        )


class _Way:
    """One way, as far as it was gone."""

    def __init__(self, world: World, good: set[Key], state: State) -> None:
        self._world, self._good, self._state = world, good, state
        self.passed: list[Key] = []
        self.has_arrived = False
        """Whether a good state was reached, or one from which there is a way to one."""
        self._look()

    @property
    def locals(self) -> list[Local]:
        """The replicas as they are now."""
        return [self._world.local(self._state, at) for at in range(len(self._world.keys))]

    def go_on(self, stands: int) -> None:
        """Let all come that comes by itself; then let one replica stand, if none leads."""
        for _ in range(SWEEPS):
            self._arrive()
            for at in range(len(self._world.keys)):
                for kind in ("unanswered", "fetch", "begin"):
                    self._take_any(kind, at)
            self._arrive()
        leaders = [at for at, local in enumerate(self.locals) if self._answers_as_leader(at, local)]
        for at in leaders:
            if self._state.hangs(at):
                self._take(Action("write", at, variant="free"))
                self._arrive()
                self._take_any("stalled", at)
                self._arrive()
        local = self.locals[stands]
        well = local.core is not None and self._state.is_well(stands)
        if well and not leaders and self._world.may_stand(local):
            self._take(Action("election", stands, variant="free"))
            self._arrive()

    def _answers_as_leader(self, at: int, local: Local) -> bool:
        return _leads(local) and at not in self._state.stopped

    def _arrive(self) -> None:
        """Let every message arrive and everything be written, but where it is slow."""
        while not self.has_arrived:
            action = next((a for a in self._world.actions(self._state) if a.kind in ARRIVING), None)
            if action is None:
                return
            self._take(self._late(action))

    def _late(self, action: Action) -> Action:
        """A replica that asks for a vote has waited for its leader, and so have all others (S9)."""
        if action.kind != "deliver":
            return action
        letter, local = self._world.letter(action.detail), self.locals[action.index]
        asks = letter.response is None and isinstance(letter.request, VoteRequest)
        follows = local.core is not None and isinstance(local.replica.role, Follower)
        return replace(action, variant="not fresh") if asks and follows else action

    def _take_any(self, kind: str, at: int) -> None:
        if self.has_arrived:
            return
        for action in self._world.actions(self._state):
            if (action.kind, action.index) == (kind, at):
                self._take(action)
                return

    def _take(self, action: Action) -> None:
        if not self.has_arrived:
            self._state = self._world.applied(self._state, action)
            self._look()

    def _look(self) -> None:
        state = self._state
        key = (state.locals, state.letters, (state.hung, state.stopped))
        self.passed.append(key)
        self.has_arrived = key in self._good or any(
            _leads(local) and state.is_well(at) and _has_committed_all(local)
            for at, local in enumerate(self.locals)
        )


ARRIVING = frozenset({"deliver", "flush", "store", "read"})


def _leads(local: Local) -> bool:
    return local.core is not None and isinstance(local.replica.role, Leader)


def _has_committed_all(leader: Local) -> bool:
    replica = leader.replica
    assert isinstance(replica.role, Leader)
    return replica.log.end == replica.high_watermark > replica.role.epoch_start
