"""One replica as a value, and its next state after one event.

A replica's next state depends only on its own state and the event. So both have numbers, and
each pair runs through the core once, however many worlds contain it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile

from proofkit.explorer.snapshot import (
    CONFIG,
    NOW_MS,
    RNG,
    Timer,
    abstract_time,
    copy_of,
    frozen,
)
from proofkit.simulator.disk import Barrier, SimDisk, SimSnapshot
from raftnode.core.effects import (
    AppendBatches,
    DropSnapshot,
    Effect,
    HighWatermarkAdvanced,
    InstallSnapshot,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    SendRequest,
    SendResponse,
    ServeFetch,
    ServeSnapshot,
    StoreSnapshotPiece,
    TrimLog,
    TruncateLog,
)
from raftnode.core.events import Event, RequestReceived, SnapshotRefused, SnapshotVerified
from raftnode.core.log_head import LogHead
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
from raftnode.core.replication.fetcher import fetching_of
from raftnode.core.roles import Leader
from raftnode.core.start_state import StartState
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import (
    FIRST_OFFSET,
    NO_EPOCH,
    Epoch,
    LogPosition,
    Offset,
    ReplicaKey,
)

CURRENT = -1
"""Request id of the request that is being handled; a parked Fetch has its fetcher's number."""


PIECES = 2
"""How many pieces each snapshot comes in; a piece is one byte, which says which snapshot it is."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot, and all the batches that it covers."""

    head: LogHead
    batches: tuple[Batch, ...]

    def whole(self) -> SimSnapshot:
        """Return it as the simulator's disk has it, without a state, as nothing is applied here."""
        return SimSnapshot(self.head, self.batches)


@dataclass(frozen=True, slots=True)
class Volume:
    """The content of a disk; `durable` is the log at the last flush.

    `log` and `durable` are whole, also of what was trimmed or came in a snapshot; the replica
    can read from `start` on.
    """

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
    start: Offset = FIRST_OFFSET
    snapshot: Kept | None = None
    incoming: tuple[LogPosition, bytes] | None = None

    def disk(self, key: ReplicaKey) -> SimDisk:
        """Return a disk of the simulator with this content."""
        return SimDisk(
            key,
            self.state,
            self.cluster_id,
            self.latch,
            self.incarnation,
            log=list(self.log),
            durable=list(self.durable),
            ever_flushed={id(batch) for batch in self.durable},
            start=self.start,
            snapshots=[self.snapshot.whole()] if self.snapshot else [],
            incoming=self.incoming,
        )

    def with_disk(self, disk: SimDisk) -> Volume:
        """Return this content after the writes to that disk."""
        return replace(
            self,
            state=disk.state,
            latch=disk.latch,
            cluster_id=disk.cluster_id,
            log=tuple(disk.log),
            durable=tuple(disk.durable),
            start=disk.start,
            snapshot=kept_of(disk),
            incoming=disk.incoming,
            shown=NO_EPOCH,
        )

    def after_crash(self) -> list[Volume]:
        """Return each content that a crash may leave: the durable log, or more of the writes."""
        common = 0
        for written, safe in zip(self.log, self.durable, strict=False):
            if written is not safe:
                break
            common += 1
        left = {self.log[:length] for length in range(common, len(self.log) + 1)} | {self.durable}
        logs = sorted(left, key=lambda log: [(batch.base_offset, batch.epoch) for batch in log])
        return [replace(self, log=log, durable=log, incoming=None) for log in logs]


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
    gone, so that no process will take the answer.
    """

    source: int
    target: int | None
    request: Request
    response: Response | None = None
    awaited: bool = True


@dataclass(frozen=True, slots=True)
class Stimulus:
    """The input of one replica: first a timer, then an event."""

    event: Event
    timer: Timer | None = None
    letter: Letter | None = None
    flush: Offset | None = None
    """Up to where the log was fsynced before the event."""
    made: Kept | None = None


@dataclass(slots=True)
class Step:
    """The result of a stimulus.

    Attributes:
        before: its state until then.
        after: its state from then on.
        sent: what it says; targets not yet looked up.
        effects: what the core wanted done, in order.
        flush: up to where the log was fsynced before the event; None: it was not.
        installed: the snapshot that was put in the place of the log.
        watch: whether the world's invariants could be touched, not only the replica's own.
    """

    before: Local
    after: Local
    sent: tuple[tuple[ReplicaKey | None, Letter], ...]
    effects: tuple[Effect, ...]
    flush: Offset | None
    watch: bool
    number: int
    installed: SimSnapshot | None = None


def _is_of_the_world(effect: Effect) -> bool:
    return isinstance(effect, AppendBatches | HighWatermarkAdvanced | PersistQuorumState)


class Locals:
    """All states of all replicas so far, and all steps between them."""

    def __init__(self, keys: tuple[ReplicaKey, ...], fetches: int = 1) -> None:
        self.keys = keys
        self.config = replace(CONFIG, fetches_in_flight_max=fetches)
        self.index_of = {key: index for index, key in enumerate(keys)}
        self.all: list[Local] = []
        self._numbers: dict[object, int] = {}
        self._batches: dict[Batch, Batch] = {}
        self._logs: dict[tuple[tuple[Batch, ...], tuple[Batch, ...]], int] = {}
        self.core_steps = 0
        self._files: list[Kept] = []
        self._renumbered: dict[tuple[int, int, tuple[int, ...]], Local] = {}

    def intern(self, index: int, volume: Volume, core: RaftCore | None) -> Local:
        """Return the numbered state that equals this one."""
        key = (index, volume, frozen(core.replica) if core else None)
        number = self._numbers.setdefault(key, len(self.all))
        if number == len(self.all):
            local = Local(number, index, self.keys[index], volume, core)
            local.fetches = numbers_in(local, self.index_of)
            local.logs = self._logs.setdefault((volume.log, volume.durable), len(self._logs))
            self.all.append(local)
        return self.all[number]

    def batch(self, batch: Batch) -> Batch:
        """Return the same object for equal batches, since the invariants compare identities."""
        return self._batches.setdefault(batch, batch)

    # -- snapshots ---------------------------------------------------------------------

    def taken(self, local: Local) -> Kept | None:
        """Return the snapshot that a replica could take now; None: it would hold nothing new."""
        replica, end = local.replica, local.replica.applicable
        before = local.volume.snapshot
        if not replica.log.has_voter_record or end <= (
            before.head.position.end_offset if before else 0
        ):
            return None
        disk = local.volume.disk(local.key)
        return Kept(replica.log.head_at(end), tuple(disk.log[: disk.position(end)]))

    def _piece(self, disk: SimDisk, effect: ServeSnapshot) -> Response:
        """One byte of a snapshot: its number among all that were ever given out."""
        snapshot = disk.snapshot(effect.response.snapshot)
        if snapshot is None:
            return effect.with_piece(None, b"")
        kept = Kept(snapshot.head, snapshot.batches)
        if kept not in self._files:
            self._files.append(kept)
        return effect.with_piece(PIECES, bytes([self._files.index(kept)]))

    def fetched(self, local: Local) -> SimSnapshot | None:
        """Return the snapshot that a replica has fetched; None: it is incomplete or mixed."""
        incoming = local.volume.incoming
        if incoming is None or len(incoming[1]) != PIECES or len(set(incoming[1])) > 1:
            return None
        snapshot = self._files[incoming[1][0]].whole()
        return snapshot if snapshot.position == incoming[0] else None

    def read(self, local: Local) -> Event:
        """Return the event that follows the read of the fetched snapshot."""
        snapshot, download = self.fetched(local), local.replica.download
        assert download is not None
        if snapshot is None:
            return SnapshotRefused(download.snapshot, "damaged")
        return SnapshotVerified(snapshot.head)

    # -- life ------------------------------------------------------------------------

    def started(self, local: Local) -> Local:
        """Start a process on the disk; its first event comes with `step`."""
        volume = replace(local.volume, incarnation=local.volume.incarnation + 1, sequence=0)
        core = RaftCore(
            StartState(
                local.key,
                log=volume.disk(local.key).index(),
                state=volume.state,
                cluster_id=volume.cluster_id,
                incarnation=volume.incarnation,
                fetch_sequence=local.volume.sequence,
            ),
            rng=RNG,
            now_ms=NOW_MS,
            config=self.config,
        )
        abstract_time(core.replica)
        return self.intern(local.index, volume, core)

    def crashed(self, local: Local) -> list[Local]:
        """End the process; each result is one way to lose unsynced writes."""
        replica = local.replica
        return [
            self.intern(
                local.index,
                replace(volume, sequence=replica.fetch_sequence, shown=replica.epoch),
                None,
            )
            for volume in local.volume.after_crash()
        ]

    def silent(self, local: Local, volume: Volume | None = None) -> Local:
        """Silence the process, which waits for its disk or was killed during the wait."""
        replica, volume = local.replica, volume or local.volume
        left = replace(volume, sequence=replica.fetch_sequence, shown=replica.epoch)
        return self.intern(local.index, left, None)

    # -- events ----------------------------------------------------------------------

    def step(self, local: Local, stimulus: Stimulus, *, hangs: bool = False) -> Step:
        """Run a stimulus through the core; `world` remembers what it did.

        With a disk that `hangs`, nothing is done from the first effect on that has to become
        durable before the next, and the replica is silent from there on.
        """
        assert local.core is not None
        self.core_steps += 1
        core = copy_of(local.core)
        if stimulus.timer is not None:
            stimulus.timer(core.replica)
        askers = self._askers(core.replica, stimulus)
        effects = tuple(self._own(effect) for effect in core.handle(stimulus.event, NOW_MS))
        waits = hangs and any(isinstance(effect, Barrier) for effect in effects)
        if waits:
            effects = tuple(takewhile(lambda effect: not isinstance(effect, Barrier), effects))
        disk = local.volume.disk(local.key)
        if stimulus.flush is not None:
            disk.flush(stimulus.flush)
        if stimulus.made is not None:
            disk.snapshots = [stimulus.made.whole()]
        installed = self.fetched(local)
        sent: list[tuple[ReplicaKey | None, Letter]] = []
        for effect in effects:
            carry_out(disk, effect, installed)
            match effect:
                case SendRequest(target, request):
                    sent.append((target, Letter(local.index, None, request)))
                case (
                    SendResponse(request_id, response)
                    | ServeFetch(request_id, response)
                    | ServeSnapshot(request_id, response)
                ):
                    if isinstance(effect, ServeFetch):
                        response = served(disk, effect)
                    elif isinstance(effect, ServeSnapshot):
                        response = self._piece(disk, effect)
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
        volume = local.volume.with_disk(disk)
        after = self.silent(local, volume) if waits else self.intern(local.index, volume, core)
        new_leader = isinstance(role, Leader) and not isinstance(local.replica.role, Leader)
        watch = new_leader or any(_is_of_the_world(effect) for effect in effects)
        return Step(
            local, after, tuple(sent), effects, stimulus.flush, watch, self.core_steps, installed
        )

    def _askers(self, replica: Replica, stimulus: Stimulus) -> dict[int, tuple[int, Request]]:
        """The sender of each request id; absent if the process that asked is gone."""
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
        """Return the state with one replica's Fetch numbers replaced by their ranks."""
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
            if fetching is not None and isinstance(fetching.in_flight, FetchRequest):
                fetching.in_flight = ranked(fetching.in_flight, rank)
                fetching.before = [ranked(request, rank) for request in fetching.before]
        if isinstance(role, Leader):
            if key in role.progress and role.progress[key].sequence >= 0:
                role.progress[key].sequence = rank[role.progress[key].sequence]
            if key in role.parked:
                role.parked[key].request = ranked(role.parked[key].request, rank)
        return self.intern(local.index, volume, core)


def ranked(request: FetchRequest, rank: dict[int, int]) -> FetchRequest:
    """Return the Fetch with another number."""
    return replace(request, sequence=rank[request.sequence])


def numbers_in(local: Local, index_of: dict[ReplicaKey, int]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the Fetches in a state, each with its fetcher's number."""
    own = local.index
    if local.core is None:
        return ((own, local.volume.sequence),)
    role = local.replica.role
    numbers = {(own, local.replica.fetch_sequence)}
    numbers |= {
        (own, request.sequence)
        for request in under_way_at(local)
        if isinstance(request, FetchRequest)
    }
    if isinstance(role, Leader):
        for key, progress in role.progress.items():
            if progress.sequence >= 0:
                numbers.add((index_of[key], progress.sequence))
        for key, parked in role.parked.items():
            numbers.add((index_of[key], parked.request.sequence))
    return tuple(sorted(numbers))


def in_flight_of(local: Local) -> FetchRequest | FetchSnapshotRequest | None:
    """Return the newest request that a replica waits for."""
    fetching = fetching_of(local.replica)
    return None if fetching is None else fetching.in_flight


def under_way_at(local: Local) -> list[FetchRequest | FetchSnapshotRequest]:
    """Return all requests that a replica waits for."""
    fetching = fetching_of(local.replica)
    if fetching is None or fetching.in_flight is None:
        return []
    return [*fetching.before, fetching.in_flight]


def kept_of(disk: SimDisk) -> Kept | None:
    """Return the newest snapshot on a disk."""
    if not disk.snapshots:
        return None
    return Kept(disk.snapshots[-1].head, disk.snapshots[-1].batches)


def carry_out(disk: SimDisk, effect: Effect, fetched: SimSnapshot | None) -> None:
    """Carry out an effect on the disk; `fetched` is the snapshot that an install puts in place."""
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
        case StoreSnapshotPiece(snapshot, position, _, data):
            disk.store_piece(snapshot, position, data)
        case DropSnapshot():
            disk.incoming = None
        case InstallSnapshot():
            assert fetched is not None, "nothing was read whole"
            disk.snapshots = []
            disk.install(fetched)
        case TrimLog(start):
            disk.trim(start)
        case _:
            pass


def served(disk: SimDisk, effect: ServeFetch) -> FetchResponse:
    """Return the answer with the batches on the disk, unsynced batches included."""
    batches = disk.log[disk.position(Offset(effect.start_offset)) :]
    return replace(effect.response, batches=tuple(batches))
