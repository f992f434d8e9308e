"""One replica as a value, and what one event makes of it.

A replica's next state depends on nothing but its own state and the event. So both are
numbered, and each pair runs through the core once, however many worlds contain it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from raftnode.core.effects import (
    AppendBatches,
    Effect,
    HighWatermarkAdvanced,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    SendRequest,
    SendResponse,
    ServeFetch,
    TruncateLog,
)
from raftnode.core.events import Event, RequestReceived
from raftnode.core.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    Response,
)
from raftnode.core.raft import RaftCore
from raftnode.core.records import Batch
from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import NO_EPOCH, Epoch, Offset, ReplicaKey
from raftnode.testing.explorer.snapshot import (
    CONFIG,
    NOW_MS,
    RNG,
    Timer,
    abstract_time,
    copy_of,
    frozen,
)
from raftnode.testing.simulator.disk import SimDisk

CURRENT = -1
"""Request id of the request that is being handled; a parked Fetch has its fetcher's number."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What a disk holds; `durable` is the log as the last flush left it."""

    state: QuorumState = field(default_factory=QuorumState)
    latch: Latch | None = None
    cluster_id: str | None = None
    incarnation: int = 0
    sequence: int = 0
    """The last Fetch's number while the process is down; the next start goes on above it (S3)."""
    shown: Epoch = NO_EPOCH
    """The epoch that the last process was in, until the next start is checked against it."""
    log: tuple[Batch, ...] = ()
    durable: tuple[Batch, ...] = ()

    def disk(self, key: ReplicaKey) -> SimDisk:
        """The simulator's disk with this on it."""
        return SimDisk(
            key,
            self.state,
            self.cluster_id,
            self.latch,
            self.incarnation,
            log=list(self.log),
            durable=list(self.durable),
            ever_flushed={id(batch) for batch in self.durable},
        )

    def with_disk(self, disk: SimDisk) -> Volume:
        """After what was written to that disk."""
        return replace(
            self,
            state=disk.state,
            latch=disk.latch,
            cluster_id=disk.cluster_id,
            log=tuple(disk.log),
            durable=tuple(disk.durable),
            shown=NO_EPOCH,
        )

    def after_crash(self) -> list[Volume]:
        """All that a crash may leave: the durable log, or any part of what was written since."""
        common = 0
        for written, safe in zip(self.log, self.durable, strict=False):
            if written is not safe:
                break
            common += 1
        left = {self.log[:length] for length in range(common, len(self.log) + 1)} | {self.durable}
        logs = sorted(left, key=lambda log: [(batch.base_offset, batch.epoch) for batch in log])
        return [replace(self, log=log, durable=log) for log in logs]


@dataclass(slots=True)
class Local:
    """One numbered state of one replica; never changed.

    Attributes:
        number: equal states of one replica have one number.
        index: the replica's place in the world.
        core: None while no process runs.
        fetches: the numbers of Fetches in it, each with its fetcher's place.
        logs: a number for its log and what of it is durable.
    """

    number: int
    index: int
    key: ReplicaKey
    volume: Volume
    core: RaftCore | None
    fetches: tuple[tuple[int, int], ...] = ()
    logs: int = 0

    @property
    def replica(self) -> Replica:
        """The replica of a process that runs."""
        assert self.core is not None
        return self.core.replica


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way; `response` is None in a request.

    `target` None: any other replica that runs. `awaited` False: the process that asked is
    gone, so that nobody will take the answer.
    """

    source: int
    target: int | None
    request: Request
    response: Response | None = None
    awaited: bool = True


@dataclass(frozen=True, slots=True)
class Stimulus:
    """What one replica meets: first a timer, then an event."""

    event: Event
    timer: Timer | None = None
    letter: Letter | None = None
    flush: bool = False


@dataclass(slots=True)
class Step:
    """What a stimulus makes of a replica.

    Attributes:
        before: its state until then.
        after: its state from then on.
        sent: what it says; targets not yet looked up.
        effects: what the core wanted done, in order.
        flush: whether the log was fsynced before the event.
        watch: whether the world's invariants could be touched, not only the replica's own.
    """

    before: Local
    after: Local
    sent: tuple[tuple[ReplicaKey | None, Letter], ...]
    effects: tuple[Effect, ...]
    flush: bool
    watch: bool
    number: int


def _is_of_the_world(effect: Effect) -> bool:
    return isinstance(effect, AppendBatches | HighWatermarkAdvanced | PersistQuorumState)


class Locals:
    """All states of all replicas met so far, and all steps between them."""

    def __init__(self, keys: tuple[ReplicaKey, ...]) -> None:
        self.keys = keys
        self.index_of = {key: index for index, key in enumerate(keys)}
        self.all: list[Local] = []
        self._numbers: dict[object, int] = {}
        self._batches: dict[Batch, Batch] = {}
        self._logs: dict[tuple[tuple[Batch, ...], tuple[Batch, ...]], int] = {}
        self.core_steps = 0
        self._renumbered: dict[tuple[int, int, tuple[int, ...]], Local] = {}

    def intern(self, index: int, volume: Volume, core: RaftCore | None) -> Local:
        """The one numbered state that is equal to this."""
        key = (index, volume, frozen(core.replica) if core else None)
        number = self._numbers.setdefault(key, len(self.all))
        if number == len(self.all):
            local = Local(number, index, self.keys[index], volume, core)
            local.fetches = numbers_in(local, self.index_of)
            local.logs = self._logs.setdefault((volume.log, volume.durable), len(self._logs))
            self.all.append(local)
        return self.all[number]

    def batch(self, batch: Batch) -> Batch:
        """The one object for equal batches: the invariants compare identities."""
        return self._batches.setdefault(batch, batch)

    # -- life ------------------------------------------------------------------------

    def started(self, local: Local) -> Local:
        """A process starts on the disk; its first event comes with `step`."""
        volume = replace(local.volume, incarnation=local.volume.incarnation + 1, sequence=0)
        core = RaftCore(
            local.key,
            log=volume.disk(local.key).index(),
            state=volume.state,
            cluster_id=volume.cluster_id,
            rng=RNG,
            now_ms=NOW_MS,
            config=CONFIG,
            incarnation=volume.incarnation,
            fetch_sequence=local.volume.sequence,
        )
        abstract_time(core.replica)
        return self.intern(local.index, volume, core)

    def crashed(self, local: Local) -> list[Local]:
        """The process ends; each result is one way in which unsynced writes may be lost."""
        replica = local.replica
        return [
            self.intern(
                local.index,
                replace(volume, sequence=replica.fetch_sequence, shown=replica.epoch),
                None,
            )
            for volume in local.volume.after_crash()
        ]

    # -- events ----------------------------------------------------------------------

    def step(self, local: Local, stimulus: Stimulus) -> Step:
        """Run a stimulus through the core; `world` remembers what it did."""
        assert local.core is not None
        self.core_steps += 1
        core = copy_of(local.core)
        if stimulus.timer is not None:
            stimulus.timer(core.replica)
        askers = self._askers(core.replica, stimulus)
        effects = tuple(self._own(effect) for effect in core.handle(stimulus.event, NOW_MS))
        disk = local.volume.disk(local.key)
        if stimulus.flush:
            disk.flush(disk.end)
        sent: list[tuple[ReplicaKey | None, Letter]] = []
        for effect in effects:
            carry_out(disk, effect)
            match effect:
                case SendRequest(target, request):
                    sent.append((target, Letter(local.index, None, request)))
                case SendResponse(request_id, response) | ServeFetch(request_id, response):
                    if isinstance(effect, ServeFetch):
                        response = served(disk, effect)
                    asker = askers.get(request_id)
                    if asker is not None:
                        letter = Letter(local.index, None, asker[1], response)
                        sent.append((self.keys[asker[0]], letter))
                case _:
                    pass
        role = core.replica.role
        if isinstance(role, Leader):
            for parked in role.parked.values():
                parked.request_id = self.index_of[parked.request.replica]
        abstract_time(core.replica)
        after = self.intern(local.index, local.volume.with_disk(disk), core)
        new_leader = isinstance(role, Leader) and not isinstance(local.replica.role, Leader)
        watch = new_leader or any(_is_of_the_world(effect) for effect in effects)
        return Step(local, after, tuple(sent), effects, stimulus.flush, watch, self.core_steps)

    def _askers(self, replica: Replica, stimulus: Stimulus) -> dict[int, tuple[int, Request]]:
        """Whom each request id belongs to; nobody, where the process that asked is gone."""
        askers: dict[int, tuple[int, Request]] = {}
        if isinstance(replica.role, Leader):
            for key, parked in replica.role.parked.items():
                askers[parked.request_id] = (self.index_of[key], parked.request)
        letter = stimulus.letter
        if letter is not None and letter.awaited and isinstance(stimulus.event, RequestReceived):
            askers[CURRENT] = (letter.source, letter.request)
        return askers

    def _own(self, effect: Effect) -> Effect:
        """The effect with the one object for each batch."""
        if isinstance(effect, AppendBatches):
            return AppendBatches(tuple(self.batch(batch) for batch in effect.batches))
        return effect

    # -- numbers of Fetches ------------------------------------------------------------

    def renumbered(self, local: Local, fetcher: int, numbers: tuple[int, ...]) -> Local:
        """The same state with one replica's Fetch numbers replaced by their ranks."""
        known = self._renumbered.get((local.number, fetcher, numbers))
        if known is None:
            known = self._renumber(local, fetcher, numbers)
            self._renumbered[(local.number, fetcher, numbers)] = known
        return known

    def _renumber(self, local: Local, fetcher: int, numbers: tuple[int, ...]) -> Local:
        rank = {number: at for at, number in enumerate(numbers)}
        volume, core = local.volume, local.core
        if core is None:
            if local.index == fetcher:
                volume = replace(volume, sequence=rank[volume.sequence])
            return self.intern(local.index, volume, None)
        core = copy_of(core)
        role, key = core.replica.role, self.keys[fetcher]
        if local.index == fetcher:
            core.replica.fetch_sequence = rank[core.replica.fetch_sequence]
            fetching = getattr(role, "fetching", None)
            if fetching is not None and fetching.in_flight is not None:
                fetching.in_flight = ranked(fetching.in_flight, rank)
        if isinstance(role, Leader):
            if key in role.progress and role.progress[key].sequence >= 0:
                role.progress[key].sequence = rank[role.progress[key].sequence]
            if key in role.parked:
                role.parked[key].request = ranked(role.parked[key].request, rank)
        return self.intern(local.index, volume, core)


def ranked(request: FetchRequest, rank: dict[int, int]) -> FetchRequest:
    """The same Fetch under another number."""
    return replace(request, sequence=rank[request.sequence])


def numbers_in(local: Local, index_of: dict[ReplicaKey, int]) -> tuple[tuple[int, int], ...]:
    """The numbers of Fetches that a state holds, each with its fetcher's."""
    own = local.index
    if local.core is None:
        return ((own, local.volume.sequence),)
    role = local.replica.role
    found = {(own, local.replica.fetch_sequence)}
    in_flight = in_flight_of(local)
    if in_flight is not None:
        found.add((own, in_flight.sequence))
    if isinstance(role, Leader):
        for key, progress in role.progress.items():
            if progress.sequence >= 0:
                found.add((index_of[key], progress.sequence))
        for key, parked in role.parked.items():
            found.add((index_of[key], parked.request.sequence))
    return tuple(sorted(found))


def in_flight_of(local: Local) -> FetchRequest | None:
    """The Fetch that a replica waits for; no log is trimmed here, so it is no FetchSnapshot."""
    fetching = getattr(local.replica.role, "fetching", None)
    in_flight = None if fetching is None else fetching.in_flight
    assert not isinstance(in_flight, FetchSnapshotRequest)
    return in_flight


def carry_out(disk: SimDisk, effect: Effect) -> None:
    """Do what an effect wants of the disk."""
    match effect:
        case PersistQuorumState(state):
            disk.state = state
        case PersistLatch(latch):
            disk.latch, disk.cluster_id = latch, latch.cluster_id
        case PersistClusterId(cluster_id):
            disk.cluster_id = cluster_id
        case AppendBatches(batches):
            disk.append(batches)
        case TruncateLog(end):
            disk.truncate(end)
        case _:
            pass


def served(disk: SimDisk, effect: ServeFetch) -> FetchResponse:
    """The answer with the batches that the disk holds, unsynced ones too."""
    batches = disk.log[disk.position(Offset(effect.start_offset)) :]
    return replace(effect.response, batches=tuple(batches))
