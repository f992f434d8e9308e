"""One replica of a playbook: the real core on a disk that a script flushes and crashes."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from proofkit.simulator.disk import Barrier, SimDisk, SimSnapshot
from proofkit.simulator.gate import SimGate
from proofkit.simulator.watcher import Watcher
from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    AppendBatches,
    DropSnapshot,
    Effect,
    Halt,
    InstallSnapshot,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    ServeFetch,
    ServeSnapshot,
    TrimLog,
    TruncateLog,
)
from raftnode.core.events import Event, LogFlushed, SnapshotTaken
from raftnode.core.messages import FetchResponse, FetchSnapshotResponse
from raftnode.core.raft import RaftCore
from raftnode.core.replica import Replica
from raftnode.core.roles import role_name
from raftnode.core.start_state import StartState
from raftnode.core.types import Offset, ReplicaKey

T = TypeVar("T")


class MiddleRandom(random.Random):
    """A random source without chance: the middle of each range; choices take turns."""

    turn = -1

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """The middle of the range."""
        low, high = (0, start) if stop is None else (start, stop)
        return low + (high - low) // 2 // step * step

    def choice(self, seq: Sequence[T]) -> T:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The next."""
        self.turn += 1
        return seq[self.turn % len(seq)]


@dataclass(slots=True)
class ScriptedNode:
    """A process on a disk; `core` is None while it is down.

    `carry_out` is called with each effect that the node itself does not do: those that
    say or ask something.
    """

    name: str
    disk: SimDisk
    carry_out: Callable[[ScriptedNode, Effect], None]
    config: CoreConfig = field(default_factory=CoreConfig)
    core: RaftCore | None = None
    gate: SimGate | None = None
    lives: int = 0
    flushes: bool = True
    """Whether the quorum flushes it by itself as time goes on."""
    hangs: bool = False
    """Whether its disk makes nothing durable: flushes wait, and the process waits at a barrier."""
    stuck: list[Effect] | None = None
    """What is left to do behind the barrier at which the process waits; it handles no event."""
    halted: Halt | None = None
    watcher: Watcher | None = None
    loaded: SimSnapshot | None = None
    """The snapshot that was fetched and read whole."""
    effects: list[Effect] = field(default_factory=list[Effect])
    """All effects of this life, in order."""

    @property
    def key(self) -> ReplicaKey:
        """The replica."""
        return self.disk.key

    @property
    def replica(self) -> Replica:
        """The core's state; the node must be taken."""
        assert self.core is not None, f"{self.name} is down"
        return self.core.replica

    @property
    def role(self) -> str:
        """The role's name, or `down`."""
        return role_name(self.core.replica.role) if self.core else "down"

    @property
    def high_watermark(self) -> Offset:
        """The offset up to which it knows the log to be committed."""
        return self.replica.high_watermark

    @property
    def records(self) -> list[bytes]:
        """The clients' data in its log, in order."""
        return [batch.data for batch in self.disk.log if batch.data]

    def start(self, now_ms: int) -> None:
        """Start on the content of the disk, unless it is known to be stale."""
        if self.disk.stale:
            return
        self.lives += 1
        start = self.disk.begin(random.Random(self.lives))
        self.effects, self.halted = [], None
        self.core = RaftCore(
            StartState(
                self.key,
                log=self.disk.index(),
                state=self.disk.state,
                cluster_id=self.disk.cluster_id,
                incarnation=self.disk.incarnation,
                fetch_sequence=now_ms * 1000 + self.disk.incarnation,
                quiet_ms=self.disk.promise(self.config.promise_ms),
            ),
            rng=MiddleRandom(),
            now_ms=now_ms,
            config=self.config,
        )
        self.gate = SimGate(self.disk, self.core.replica, start)
        if self.watcher is not None:
            self.watcher.started(self)

    def stop(self, *, keep_unflushed: bool = False) -> None:
        """Kill the process; unflushed data is lost unless `keep_unflushed`."""
        self.core = self.gate = self.stuck = None
        if keep_unflushed:
            self.disk.flush(self.disk.end)
        self.disk.log = list(self.disk.durable)

    def saved(self) -> SimDisk:
        """Return a copy of the disk, to restore later (S3)."""
        saved = copy.copy(self.disk)
        saved.log, saved.durable = list(self.disk.log), list(self.disk.durable)
        return saved

    def take(self, event: Event, now_ms: int) -> list[Effect]:
        """Give the core an event and carry out its effects."""
        if self.core is None or self.halted or self.stuck is not None:
            return []
        if self.watcher is not None:
            self.watcher.handles(self, event)
        effects = self.core.handle(event, now_ms)
        self._carry_out_all(effects)
        if self.gate is not None:
            self.gate.note_acknowledgements()
        return effects

    def _carry_out_all(self, effects: list[Effect]) -> None:
        for index, effect in enumerate(effects):
            if self.hangs and isinstance(effect, Barrier):
                self.stuck = effects[index:]
                return
            self.effects.append(effect)
            if self.watcher is not None:
                self.watcher.carries_out(self, effect)
            self._do(effect)
            self.carry_out(self, effect)
        if self.watcher is not None and self.core is not None:
            self.watcher.handled(self)

    def go_on(self) -> None:
        """Let the disk work again, and do the waiting work."""
        waiting, self.hangs, self.stuck = self.stuck or [], False, None
        self._carry_out_all(waiting)

    def snapshot(self, now_ms: int, *, trim_to: int | None = None) -> SimSnapshot:
        """Take a snapshot of what is applied, and trim behind it if that is said."""
        head = self.replica.log.head_at(self.replica.applicable)
        made = self.disk.take_snapshot(head, retained=2)
        start = self.disk.start if trim_to is None else Offset(trim_to)
        self.take(SnapshotTaken(head.position, start), now_ms)
        return made

    def serve_piece(self, effect: ServeSnapshot, limit: int) -> FetchSnapshotResponse:
        """The response with a piece of the snapshot, of at most so many bytes."""
        snapshot = self.disk.snapshot(effect.response.snapshot)
        if snapshot is None:
            return effect.with_piece(None, b"")
        at = effect.response.position
        return effect.with_piece(len(snapshot.content), snapshot.content[at : at + limit])

    def flush(self, now_ms: int) -> list[Effect]:
        """Make the log durable and say so to the core."""
        if self.core is None or self.hangs or self.disk.durable == self.disk.log:
            return []
        self.disk.flush(self.disk.end)
        return self.take(LogFlushed(self.disk.end, self.replica.log.truncations), now_ms)

    def _do(self, effect: Effect) -> None:
        match effect:
            case PersistQuorumState(state):
                self.disk.state = state
            case PersistLatch(latch):
                self.disk.latch, self.disk.cluster_id = latch, latch.cluster_id
            case PersistClusterId(cluster_id):
                self.disk.cluster_id = cluster_id
            case AppendBatches(batches):
                self.disk.append(batches)
            case TruncateLog(end):
                self.disk.truncate(end)
            case TrimLog(start):
                self.disk.trim(start)
            case InstallSnapshot():
                assert self.loaded is not None
                self.disk.install(self.loaded)
            case DropSnapshot():
                self.disk.incoming = None
            case Halt():
                self.halted = effect
            case _:
                pass

    def read(self, effect: ServeFetch) -> FetchResponse:
        """The response with every batch from the offset on."""
        assert effect.start_offset >= self.disk.start, "what was trimmed is not served"
        batches = tuple(b for b in self.disk.log if b.base_offset >= effect.start_offset)
        return replace(effect.response, batches=batches)
