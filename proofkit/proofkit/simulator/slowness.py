"""A node that is slow but alive: its disk is slow or hangs, or its process is stopped.

A disk that is slow makes three kinds of work wait, each by its own pace: `flush` (fsync of the
log, in a thread of its own: the node goes on meanwhile), `persist` (what the driver waits for
before it does anything else: the node handles no event meanwhile) and `read` (of the log for a
Fetch, for which the driver waits in some worlds and only the answer in others). A disk that
hangs gives nothing back until it recovers: the fault ends, or the device is replaced.

A node that stands still (SIGSTOP, a stall of the event loop) handles nothing, clients' requests
included, and then all at once, with its clock moved on.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from proofkit.simulator.disk import Barrier
from raftnode.core.effects import (
    AppendBatches,
    Effect,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    ServeFetch,
)
from raftnode.core.events import Event
from raftnode.core.types import ReplicaKey

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode

FLUSH, PERSIST, READ = "flush", "persist", "read"
KINDS = (FLUSH, PERSIST, READ)
NEVER_MS = 1 << 40
"""When a disk recovers that hangs until it is replaced."""
PACES_MS = ((100, 100), (1000, 1000), (10_000, 10_000), (0, 3000), (0, 12_000))
"""How long a slow disk takes for a piece of work: least and most."""
ROLL_CHANCE = 0.1
"""How often an append rolls the log to a new segment, for whose sync the driver waits."""

Promise = PersistQuorumState | PersistLatch | PersistClusterId


@dataclass(frozen=True, slots=True)
class Pace:
    """How long one kind of work takes until the disk recovers; `None`: it does not come back."""

    until_ms: int
    takes_ms: tuple[int, int] | None

    def __str__(self) -> str:
        """For the trace."""
        return "hangs" if self.takes_ms is None else f"takes {self.takes_ms} ms"


@dataclass(slots=True)
class Slowness:
    """The slow or hung work of one node.

    Attributes:
        rng: where all that is random about it comes from.
        reads_block: whether the driver itself reads the log, so that a slow read stops it.
        watchdog_ms: after so long at one piece of work the process ends itself; None: never.
        paces: of each kind of work that is slow.
    """

    node: SimNode
    rng: random.Random
    reads_block: bool
    watchdog_ms: int | None
    paces: dict[str, Pace] = field(default_factory=dict[str, Pace])
    stands_still_until_ms: int = -1
    _under_way: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Work that comes back when the disk recovers, if not before."""
    _stopped: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """What came back while the process stood still."""
    _events: deque[Event] = field(default_factory=deque[Event])
    """What the driver has not taken yet, in order."""
    _at: Effect | None = None
    """What the driver waits for; the effects behind it wait, too."""
    _reads: dict[ReplicaKey, deque[ServeFetch]] = field(
        default_factory=dict[ReplicaKey, "deque[ServeFetch]"]
    )
    """Of each replica for which the log is being read: the Fetches that came meanwhile."""
    _spell: int = 0
    """Counts changes of pace: the end of one does not end a later one."""

    @classmethod
    def of_seed(cls, node: SimNode, seed: int) -> Slowness:
        """Return the settings of the world of a seed; nothing is slow yet."""
        rng = random.Random(f"{seed} slow")
        reads_block, watchdog_ms = rng.random() < 0.5, rng.choice([None, None, 8000, 30_000])
        own = random.Random(f"{seed} slow {node.key.node_id}")
        return cls(node, own, reads_block, watchdog_ms)

    def of_another(self, node: SimNode) -> Slowness:
        """The same of a process that takes this one's place on a device of its own."""
        own = random.Random(self.rng.getrandbits(64))
        return Slowness(node, own, self.reads_block, self.watchdog_ms)

    def __str__(self) -> str:
        """What is slow, for reports."""
        said = [f"{kind} {pace}" for kind, pace in self.paces.items()]
        return ", ".join([*said, *(["stands still"] if self.stands_still else [])]) or "healthy"

    # -- what strikes --------------------------------------------------------------------

    @property
    def is_healthy(self) -> bool:
        """Whether nothing of this node waits, or would have to."""
        return not self.paces and not self.is_busy

    @property
    def is_busy(self) -> bool:
        """Whether the node takes no event now."""
        return self._at is not None or self.stands_still

    @property
    def stands_still(self) -> bool:
        """Whether the process is stopped."""
        return self.node.world.now_ms < self.stands_still_until_ms

    @property
    def persists_hang(self) -> bool:
        """Whether nothing can be made durable: a start would not come to its end."""
        pace = self._pace(PERSIST)
        return pace is not None and pace.takes_ms is None

    @property
    def slows_reads(self) -> bool:
        """Whether the log is slow to read."""
        return self._pace(READ) is not None

    def slow_down(
        self, kinds: tuple[str, ...], takes_ms: tuple[int, int] | None, for_ms: int
    ) -> None:
        """Slow some kinds of work down, or let them hang, for a while."""
        self._spell += 1
        spell, until_ms = self._spell, self.node.world.now_ms + for_ms
        for kind in kinds:
            self.paces[kind] = Pace(until_ms, takes_ms)
        self._say("disk_slow", f"{'+'.join(kinds)} {self.paces[kinds[0]]}")
        if until_ms < NEVER_MS:
            self.node.world.at(until_ms, lambda: self._spell_ends(spell))

    def _spell_ends(self, spell: int) -> None:
        if spell == self._spell:
            self.recover()

    def recover(self) -> None:
        """Let the disk work as usual, and return all hung work, in order."""
        if self.paces:
            self._say("disk_recovers", "")
        self._spell += 1
        self.paces.clear()
        under_way, self._under_way = self._under_way, []
        for done in under_way:
            self.node.world.after(self.rng.randint(0, 8), done)
        if self.node.core is None:
            self.node.restart_later()

    def stand_still(self, for_ms: int) -> None:
        """Stop the process, and let it go on after a while."""
        self._say("stands_still", f"{for_ms} ms")
        node = self.node
        self.stands_still_until_ms = node.world.now_ms + for_ms
        life = node.life
        node.world.at(self.stands_still_until_ms, lambda: self._catch_up(life))

    def wake(self) -> None:
        """End a stop at once."""
        self.stands_still_until_ms = -1
        self._catch_up(self.node.life)

    def process_ended(self) -> None:
        """What waited is gone with the process; a promise may or may not have become durable."""
        at, self._at = self._at, None
        if isinstance(at, Promise) and self.rng.random() < 0.5:
            self.node.carry_out(at)
        self._under_way.clear()
        self._reads.clear()
        self._events.clear()
        self.stands_still_until_ms = -1
        self._go_on_with_stopped()

    def replaced(self) -> None:
        """Another device took the place of the one that was slow."""
        self.paces.clear()
        self._spell += 1

    # -- what waits ----------------------------------------------------------------------

    @property
    def waiting(self) -> Sequence[Event]:
        """What the driver has not taken yet, in order."""
        return tuple(self._events)

    def holds(self, event: Event) -> bool:
        """Keep an event for later, if the driver cannot take it now."""
        if self.is_busy:
            self._events.append(event)
            return True
        return False

    def stops(self, work: Callable[[], None]) -> bool:
        """Keep work for when the process goes on or ends, if it stands still."""
        if self.stands_still:
            self._stopped.append(work)
        return self.stands_still

    def reads_beside(self, effect: Effect) -> bool:
        """Begin a read that takes time; only its answer waits, not what is behind it."""
        if self.reads_block or not isinstance(effect, ServeFetch):
            return False
        pace = self._pace(READ) if self._kind(effect) == READ else None
        if pace is None:
            return False
        asked = self._reads.get(effect.fetcher)
        if asked is not None:
            asked.append(effect)
            return True
        self._read(pace, effect)
        return True

    def _read(self, pace: Pace, effect: ServeFetch) -> None:
        """Read for a replica, one Fetch at a time, as the runtime's `ColdReads` does."""
        asked = self._reads[effect.fetcher] = deque[ServeFetch]()
        truncations = self._truncations
        batches = self.node.fill(effect).batches

        def done() -> None:
            del self._reads[effect.fetcher]
            read = batches if self._truncations == truncations else ()
            self.node.reply(effect.request_id, replace(effect.response, batches=read))
            if not asked:
                return
            last = asked.pop()  # the others were given up
            if last.start_offset == effect.start_offset:
                self.node.reply(last.request_id, replace(last.response, batches=read))
            elif last.start_offset < self.node.disk.start:  # trimmed while it waited
                self.node.reply(last.request_id, last.response)
            elif not self.reads_beside(last):
                self.node.reply(last.request_id, self.node.fill(last))

        self._wait(pace, done)

    @property
    def _truncations(self) -> int:
        """How often the log was truncated in this life of the process."""
        assert self.node.core is not None
        return self.node.core.replica.log.truncations

    def holds_back(self, effect: Effect, rest: Iterator[Effect]) -> bool:
        """Begin an effect that takes time; what is behind it is carried out after it."""
        kind = self._kind(effect)
        pace = self._pace(kind) if kind else None
        if pace is None:
            return False
        self._at = effect
        self._wait(pace, lambda: self._done(effect, rest))
        return True

    def delays_flush(self, done: Callable[[], None]) -> bool:
        """Let a flush that was begun take its time, if this disk is slow."""
        pace = self._pace(FLUSH)
        if pace is not None:
            self._wait(pace, done)
        return pace is not None

    def _kind(self, effect: Effect) -> str | None:
        if isinstance(effect, Barrier):
            return PERSIST
        if isinstance(effect, AppendBatches) and PERSIST in self.paces:
            return PERSIST if self.rng.random() < ROLL_CHANCE else None
        has_more = isinstance(effect, ServeFetch) and effect.start_offset < self.node.disk.end
        return READ if has_more else None

    def _pace(self, kind: str) -> Pace | None:
        pace = self.paces.get(kind)
        return pace if pace is not None and self.node.world.now_ms < pace.until_ms else None

    def _wait(self, pace: Pace, done: Callable[[], None]) -> None:
        life, came_back = self.node.life, False

        def comes_back() -> None:
            nonlocal came_back
            if not came_back and self._lives(life):
                came_back = True
                done()

        self._under_way.append(comes_back)
        if pace.takes_ms is not None:
            self.node.world.after(self.rng.randint(*pace.takes_ms), comes_back)

        def gives_up() -> None:
            if not came_back and self._lives(life):
                self.node.world.faults.counts["ended_by_watchdog"] += 1
                self.node.crash()

        if self.watchdog_ms is not None:
            self.node.world.after(self.watchdog_ms, gives_up)

    def _lives(self, life: int) -> bool:
        return life == self.node.life and self.node.core is not None

    def _done(self, effect: Effect, rest: Iterator[Effect]) -> None:
        life = self.node.life
        if self.stops(lambda: self._done(effect, rest) if self._lives(life) else None):
            return
        self._at = None
        self.node.carry_out(effect)
        if self._lives(life):
            self.node.go_on(rest)
            self._drain()

    def _catch_up(self, life: int) -> None:
        """Do what came up while the process stood still."""
        if not self.stands_still and self._lives(life):
            self._go_on_with_stopped()
            self._drain()

    def _go_on_with_stopped(self) -> None:
        stopped, self._stopped = self._stopped, []
        for work in stopped:
            self.node.world.after(0, work)

    def _drain(self) -> None:
        while self._events and not self.is_busy and self.node.core is not None:
            self.node.take(self._events.popleft())

    def _say(self, what: str, how: str) -> None:
        world = self.node.world
        if world.trace is not None:
            world.trace.append(f"{world.now_ms:7d} {self.node.key.node_id} {what} {how}")
