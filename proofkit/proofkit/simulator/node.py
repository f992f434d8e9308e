"""One simulated process: carries out the core's effects, and may crash between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from proofkit.simulator.disk import SimDisk
from proofkit.simulator.gate import SimGate
from proofkit.simulator.machine import Machine
from proofkit.simulator.slowness import Slowness
from proofkit.simulator.snapshots import SimSnapshots
from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    AppendAccepted,
    AppendBatches,
    Confirmed,
    Done,
    DropSnapshot,
    Effect,
    Fact,
    Halt,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeadershipLost,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    ProveDisk,
    Refused,
    SendRequest,
    SendResponse,
    ServeFetch,
    ServeSnapshot,
    StoreSnapshotPiece,
    TrimLog,
    TruncateLog,
    VerifySnapshot,
    VoterChangeCompleted,
)
from raftnode.core.events import (
    Event,
    LogFlushed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    TimePassed,
)
from raftnode.core.messages import FetchRequest, FetchResponse, Request, Response
from raftnode.core.raft import RaftCore
from raftnode.core.reasons.halts import StorageFenced
from raftnode.core.reasons.refusals import LeadershipEnded
from raftnode.core.reasons.staleness import Staleness
from raftnode.core.roles import Follower
from raftnode.core.start_state import StartState
from raftnode.core.types import Offset, ReplicaKey

if TYPE_CHECKING:
    from proofkit.simulator.world import World

Answer = AppendAccepted | Refused | VoterChangeCompleted | Confirmed | Done


@dataclass(slots=True)
class PendingWrite:
    """A client's batch that this leader appended."""

    last_offset: Offset
    acknowledge: Callable[[str], None]


@dataclass(slots=True)
class SimNode:
    """A process on a disk; `core` is None while it is down."""

    world: World
    disk: SimDisk
    rng: random.Random
    core: RaftCore | None = None
    gate: SimGate | None = None
    machine: Machine = field(default_factory=Machine)
    """What is applied; it goes with the process."""
    snapshots: SimSnapshots | None = None
    """None: in this world no node takes any."""
    life: int = 0
    """Counts starts: what was meant for an earlier life never reaches a later one."""
    paused_until_ms: int = -1
    flush_scheduled: bool = False
    alarm_at_ms: int | None = None
    replies: dict[int, Callable[[Response | None], None]] = field(
        default_factory=dict[int, Callable[[Response | None], None]]
    )
    """How to answer each request; None: the connection broke."""
    answers: dict[int, Callable[[Answer], None]] = field(
        default_factory=dict[int, Callable[[Answer], None]]
    )
    writes: list[PendingWrite] = field(default_factory=list[PendingWrite])
    next_request: int = 0
    die_after_effects: int | None = None
    halted: Halt | None = None
    next_flush_fails: bool = False
    clock_percent: int = 100
    """How fast its clock runs."""
    saved: SimDisk | None = None
    """The volume as it once was."""
    slow: Slowness | None = None
    """What it waits for where nodes may be slow but alive; None: everything works at once."""

    @property
    def key(self) -> ReplicaKey:
        """The replica that this process is."""
        return self.disk.key

    @property
    def own_ms(self) -> int:
        """The time of its clock."""
        return self.world.now_ms * self.clock_percent // 100

    # -- life --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process on the content of its disk, unless that is known to be stale.

        On a disk that hangs no start comes to its end.
        """
        if self.disk.stale or self.disk_hangs:
            return
        self.life += 1
        start = self.disk.begin(self.rng)
        self.next_flush_fails = False
        newest = self.disk.newest_whole()
        self.machine = self.disk.state_of(newest) if newest else Machine()
        plan = self.world.snapshot_plan
        config = self._config()
        self.core = RaftCore(
            StartState(
                self.disk.key,
                log=self.disk.index(),
                state=self.disk.state,
                cluster_id=self.disk.cluster_id,
                incarnation=self.disk.incarnation,
                fetch_sequence=self.world.now_ms * 1000,
                quiet_ms=self.disk.promise(config.promise_ms),
            ),
            rng=random.Random(self.rng.getrandbits(64)),
            now_ms=self.own_ms,
            config=config,
        )
        self.gate = SimGate(self.disk, self.core.replica, start)
        self.snapshots = SimSnapshots(self, plan, self.life) if plan else None
        if self.snapshots and newest:
            self.snapshots.whole[newest.position] = newest
        self.world.checker.started(self)
        self.world.checker.snapshots.started(self)
        if self.world.watcher is not None:
            self.world.watcher.started(self)
        self.take(TimePassed())
        self._greet(self.life)

    def _config(self) -> CoreConfig:
        """The settings of this life: a leader may rest on voters that promised by others."""
        plan, config = self.world.snapshot_plan, self.world.config
        keeps = plan is not None and plan.keeps_every_record(self.key.node_id)
        if config.promise_ms:
            rng = random.Random(f"{self.world.seed} {self.key.node_id} {self.life}")
            config = replace(
                config,
                fetch_timeout_ms=rng.choice([1500, 2000, 2000, 2000, 3000]),
                lease_clock_drift_percent=rng.choice([0, *[config.lease_clock_drift_percent] * 6]),
            )
        return replace(config, keeps_every_record=keeps)

    def crash(self) -> None:
        """SIGKILL and power loss at once."""
        if self.core is None:
            return
        self.core = self.gate = self.snapshots = None
        replies, self.replies = self.replies, {}
        for respond in replies.values():
            respond(None)
        self.flush_scheduled = False
        self.alarm_at_ms = None
        self.die_after_effects = None
        for write in self.writes:
            write.acknowledge("unknown")
        self.writes.clear()
        answers, self.answers = self.answers, {}
        for answer in answers.values():
            answer(Refused(-1, LeadershipEnded(), "unknown"))
        if self.slow is not None:
            self.slow.process_ended()
        self.disk.crash(self.rng)
        self.restart_later()

    def restart_later(self) -> None:
        """Start it in a while, unless it has been started by then."""
        life = self.life
        self.world.after(self.rng.randint(100, 5000), lambda: self._restart(life))

    def _restart(self, life: int) -> None:
        """What the kubelet does some time after a crash."""
        if life == self.life and self.core is None and self in self.world.nodes:
            self.start()

    def _is_down(self) -> bool:
        return self.core is None

    @property
    def stands_still(self) -> bool:
        """Whether the process is stopped, with all its threads."""
        return self.slow is not None and self.slow.stands_still

    @property
    def disk_hangs(self) -> bool:
        """Whether its disk makes nothing durable, and does not say so."""
        return self.slow is not None and self.slow.persists_hang

    # -- events ------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Give the core an event and carry out its effects, until it crashes."""
        core = self.core
        if core is None or self.halted:
            return
        if self.slow is None or not self.slow.holds(event):
            if self.world.watcher is not None:
                self.world.watcher.handles(self, event)
            self.go_on(iter(core.handle(event, self.own_ms)))

    def go_on(self, effects: Iterator[Effect]) -> None:
        """Carry out what an event wants done, or what is left of it behind a slow disk."""
        core, life = self.core, self.life
        assert core is not None
        for effect in effects:
            if self.die_after_effects is not None:
                if self.die_after_effects == 0:
                    self.crash()
                    return
                self.die_after_effects -= 1
            if self.slow is not None and self.slow.reads_beside(effect):
                continue
            if self.slow is not None and self.slow.holds_back(effect, effects):
                return
            self.carry_out(effect)
            if life != self.life or self._is_down():
                return
        if self.gate is not None:
            self.gate.note_acknowledgements()
        if self.world.watcher is not None:
            self.world.watcher.handled(self)
        self.world.checker.after_event(self)
        self.world.checker.snapshots.after_event(self)
        self._set_alarm(core.next_deadline_ms())

    def ask(self, make: Callable[[int], Event], answered: Callable[[Answer], None]) -> int:
        """Put a client's or an administrator's request to the core; returns its id."""
        self.next_request += 1
        request_id = self.next_request
        self.answers[request_id] = answered
        self.take(make(request_id))
        return request_id

    def _set_alarm(self, deadline: int | None) -> None:
        self.world.checker.woken(self, deadline, self.own_ms)
        if deadline is None:
            return
        # Rounded up: by then the own clock shows the deadline.
        at = max(-(-deadline * 100 // self.clock_percent), self.world.now_ms + 1)
        if self.alarm_at_ms is None or at < self.alarm_at_ms:
            self.alarm_at_ms = at
            life = self.life
            self.world.at(at, lambda: self._alarm(life, at))

    def _alarm(self, life: int, at: int) -> None:
        if life != self.life or self.core is None:
            return
        if self.alarm_at_ms == at:
            self.alarm_at_ms = None
        deadline = self.core.next_deadline_ms()
        if deadline is not None and deadline <= self.own_ms:
            self.deliver(life, TimePassed())
        else:
            self._set_alarm(deadline)

    def deliver(self, life: int, event: Event) -> None:
        """Deliver an event to the start that it is for; later if the process is stopped."""
        if life != self.life or self.core is None:
            return
        if self.world.now_ms < self.paused_until_ms:
            self.world.at(self.paused_until_ms, lambda: self.deliver(life, event))
            return
        self.take(event)

    # -- effects -----------------------------------------------------------------------

    def carry_out(self, effect: Effect) -> None:
        """Carry out an effect."""
        if self.world.watcher is not None:
            self.world.watcher.carries_out(self, effect)
        match effect:
            case PersistQuorumState(state):
                self.world.checker.persisted(self, state)
                self.disk.state = state
            case ProveDisk():
                pass  # where the disk hangs this is not reached
            case PersistLatch(latch):
                self.disk.latch, self.disk.cluster_id = latch, latch.cluster_id
            case PersistClusterId(cluster_id):
                self.disk.cluster_id = cluster_id
            case AppendBatches(batches):
                self.world.checker.appended(self, batches)
                self.world.checker.snapshots.appended(self, batches)
                self.disk.append(batches)
                self._schedule_flush()
            case TruncateLog(end):
                self.world.checker.snapshots.truncating(self, end)
                self.disk.truncate(end)
                self._schedule_flush()
            case SendRequest(target, request):
                self._send(target, request)
            case SendResponse(request_id, response):
                self.reply(request_id, response)
            case ServeFetch():
                self.reply(effect.request_id, self.fill(effect))
            case HighWatermarkAdvanced(high_watermark, applicable):
                self.world.checker.committed(self, high_watermark)
                self._apply(applicable)
                self._acknowledge(high_watermark)
            case LeadershipLost():
                for write in self.writes:
                    write.acknowledge("unknown")
                self.writes.clear()
            case Halt():
                self.halted = effect
                self.disk.stale = isinstance(effect.reason, StorageFenced)
                self.world.checker.halted(self, effect)
            case Fact():
                self.world.record(self, effect)
            case (
                ServeSnapshot()
                | StoreSnapshotPiece()
                | VerifySnapshot()
                | InstallSnapshot()
                | DropSnapshot()
                | TrimLog()
            ):
                assert self.snapshots is not None, f"no node takes snapshots here: {effect}"
                self.snapshots.carry_out(effect)
            case AppendAccepted() | Refused() | VoterChangeCompleted() | Confirmed() | Done():
                answered = self.answers.pop(effect.request_id, None)
                if answered is not None:
                    answered(effect)

    def _apply(self, applicable: Offset) -> None:
        """Apply what is committed and durable here (S10)."""
        log = self.disk.log
        if applicable > self.machine.end:
            self.world.checker.snapshots.reads(self, self.machine.end)
        for position in range(self.disk.position(self.machine.end), len(log)):
            if log[position].end_offset > applicable:
                break
            self.machine.apply(log[position])
            self.world.checker.snapshots.applied(self)

    def fill(self, effect: ServeFetch) -> FetchResponse:
        """The answer to a Fetch, with the batches that the log has."""
        self.world.checker.snapshots.reads(self, effect.start_offset)
        start = self.disk.position(effect.start_offset)
        # A Fetch is bounded by bytes, not by so few batches; behind a slow disk that matters.
        slow = self.slow is not None and self.slow.slows_reads
        batches = self.disk.log[start : None if slow else start + self.world.fetch_batches]
        if not batches:
            return effect.response
        return replace(effect.response, batches=tuple(batches))

    def _acknowledge(self, high_watermark: Offset) -> None:
        done = [write for write in self.writes if write.last_offset < high_watermark]
        self.writes = [write for write in self.writes if write.last_offset >= high_watermark]
        for write in done:
            write.acknowledge("acknowledged")

    def _schedule_flush(self) -> None:
        if self.flush_scheduled or self.core is None:
            return
        self.flush_scheduled = True
        life, truncations = self.life, self.core.replica.log.truncations
        # The core may be ahead of a disk that it waits for, with records or with a truncation.
        end = min(self.disk.end, self.core.replica.log.end)

        def done() -> None:
            self._flushed(life, end, truncations)

        if self.slow is None or not self.slow.delays_flush(done):
            self.world.after(self.rng.randint(0, 8), done)

    def _flushed(self, life: int, end: Offset, truncations: int) -> None:
        if life != self.life or self.core is None:
            return
        self.flush_scheduled = False
        if self.next_flush_fails:
            self.next_flush_fails = False
            self.world.flush_failed(self)
            return
        if self.core.replica.log.truncations == truncations:
            self.disk.flush(end)
        self.deliver(life, LogFlushed(end, truncations))
        if not self._is_down() and self.disk.durable != self.disk.log:
            self._schedule_flush()

    # -- peers -------------------------------------------------------------------------

    def _send(self, target: ReplicaKey | None, request: Request) -> None:
        node = self.world.find(self, target)
        life = self.life

        def failed() -> None:
            self.deliver(life, RequestFailed(target, request))

        if node is None:
            self.world.after(1, failed)
            return
        # The current keys: a message may arrive when its sender has another disk.
        there, there_life, there_key, own_key = node, node.life, node.disk.key, self.disk.key

        def too_late() -> None:
            # The transport's own timeout: whatever was lost on the way is reported some day.
            self.world.after(self.rng.randint(1, self.world.config.request_timeout_ms), failed)

        def respond(response: Response | None) -> None:
            def arrive() -> None:
                if self.gate is not None:
                    self.gate.note_epoch(there_key, answer.epoch)
                self.deliver(life, ResponseReceived(there_key, request, answer))

            if response is None:
                too_late()
                return
            answer = response
            there.say(self, life, arrive, too_late)

        def ask() -> None:
            if there.life != there_life or there.gate is None:
                too_late()
                return
            there.next_request += 1
            there.replies[there.next_request] = respond
            there.gate.note_epoch(own_key, request.epoch)
            event = RequestReceived(there.next_request, own_key, request)
            there.deliver(there_life, event)

        self.world.checker.asked(self, self.world.now_ms)
        self._count_ahead(request)
        self.say(there, there_life, ask, too_late)

    def _count_ahead(self, request: Request) -> None:
        role = self.core.replica.role if self.core else None
        if not isinstance(request, FetchRequest) or not isinstance(role, Follower):
            return
        if role.fetching.before or request.acknowledged_offset < request.fetch_offset:
            self.world.faults.counts["fetched_ahead"] += 1

    def say(
        self,
        there: SimNode,
        there_life: int,
        arrive: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """Carry something behind a hello; it arrives only if this start passes the gate (S3)."""
        assert self.gate is not None
        key, life, start = self.disk.key, self.life, self.gate.start

        def knock() -> None:
            if there.life != there_life or there.gate is None:
                lost()
                return
            if self.world.now_ms < there.paused_until_ms:
                self.world.at(there.paused_until_ms, knock)
                return
            if there.slow is not None and there.slow.stops(knock):
                return
            if there.disk_hangs and there.gate.memory.mark_of(key) is not start.mark:
                lost()  # it remembers a start durably before it answers
                return
            reason = there.gate.admit(key, start)
            if reason is None:
                arrive()
                return
            teller = there.key
            self.world.network.carry(
                teller.node_id, key.node_id, lambda: self._on_stale(life, teller, reason)
            )
            lost()

        if not self.world.network.carry(key.node_id, there.disk.key.node_id, knock):
            lost()

    def _on_stale(self, life: int, teller: ReplicaKey, reason: Staleness) -> None:
        """A peer knows more of this storage than it does: it ends, for good."""
        if life != self.life or self.gate is None or not self.gate.believes(teller):
            return
        self.world.checker.found_stale(self, teller, reason)
        self.world.faults.counts["found_stale"] += 1
        self.disk.stale = True
        self.crash()

    def _greet(self, life: int) -> None:
        """Exchange hellos with every voter from time to time, whether there is need or not.

        A single voter does so with every node that is there.
        """
        if life != self.life or self.core is None or self.gate is None:
            return
        replica = self.core.replica
        if replica.log.voters and replica.knows_no_other_voter:
            wanted = list(self.world.nodes)
        else:
            wanted = [self.world.find(self, key) for key in replica.log.voters]
        for there in wanted:
            if there is not None and there is not self:
                self._greet_one(there, there.life)
        self.world.after(1000, lambda: self._greet(life))

    def _greet_one(self, there: SimNode, there_life: int) -> None:
        life = self.life

        def nothing() -> None:
            return

        def answer() -> None:
            there.say(self, life, nothing, nothing)

        self.say(there, there_life, answer, nothing)

    def reply(self, request_id: int, response: Response) -> None:
        """Answer a peer's request, unless the process ended since."""
        respond = self.replies.pop(request_id, None)
        if respond is not None:
            respond(response)
