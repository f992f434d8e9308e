"""The snapshots of a simulated process: it takes, serves, fetches and installs them.

What the runtime's `snapshotter` and `transfer` and the storage's `snapshots` do, in their order,
on a disk that is simulated. One snapshot is written at a time. What concerns a fetched one and
the trims are jobs of one thread, done one after the other; an install waits for those before it.
Each takes its time, and a crash may come at any point between them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofkit.simulator.disk import SimSnapshot
from raftnode.core.effects import (
    DropSnapshot,
    InstallSnapshot,
    ServeSnapshot,
    StoreSnapshotPiece,
    TrimLog,
    VerifySnapshot,
)
from raftnode.core.events import (
    Event,
    SnapshotLost,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotVerified,
)
from raftnode.core.log_head import LogHead
from raftnode.core.messages import FetchSnapshotResponse
from raftnode.core.types import BASE_VOTER_RECORD, FIRST_OFFSET, LogPosition, Offset

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode

SnapshotEffect = (
    ServeSnapshot | StoreSnapshotPiece | VerifySnapshot | InstallSnapshot | DropSnapshot | TrimLog
)

IN_USE_MS = 30_000
"""A snapshot of which a piece was read that lately is kept (`Snapshots`)."""
SLOW_MS = 1500
"""How long each job may take on a slow disk."""
LOOK_AGAIN_MS = 50
"""How soon after a disk or a process goes on a job that it held up comes to its end."""


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """How the replicas of one world take snapshots and trim.

    Attributes:
        rng: where all that is random about them comes from.
        interval_ms: least and most between two of one replica.
        write_ms_max: how long the writing of one takes at most.
        job_ms_max: the same for each job of a fetch or a trim, on a disk that is not slow.
        retained: how many are kept.
        kept_batches: of the log's end, however far the snapshots reach.
        segment_batches: so many batches are a segment: a trim takes whole ones.
        piece_bytes: how much of a snapshot goes into one answer.
        keepers: which replicas keep every record (S32), by the remainder of their id by two:
            they never trim.
    """

    rng: random.Random
    interval_ms: tuple[int, int] = (300, 3000)
    write_ms_max: int = 200
    job_ms_max: int = 10
    retained: int = 2
    kept_batches: int = 0
    segment_batches: int = 1
    piece_bytes: int = 100
    keepers: frozenset[int] = frozenset()

    @classmethod
    def of_seed(cls, seed: int) -> SnapshotPlan:
        """Another for each seed."""
        rng = random.Random(f"snapshots of {seed}")
        return cls(
            rng,
            interval_ms=rng.choice([(100, 800), (300, 3000), (2000, 10_000)]),
            write_ms_max=rng.choice([5, 200, 1500]),
            job_ms_max=rng.choice([0, 10, 100]),
            retained=rng.choice([1, 2, 2, 3]),
            kept_batches=rng.choice([0, 0, 5, 40]),
            segment_batches=rng.choice([1, 4, 15]),
            piece_bytes=rng.choice([10, 30, 100, 1000]),
            keepers=frozenset(rng.choice([(), (), (), (0,), (1,), (0, 1), (0, 1)])),
        )

    def keeps_every_record(self, node_id: int) -> bool:
        """Whether that replica is set to."""
        return node_id % 2 in self.keepers

    @property
    def all_keep(self) -> bool:
        """Whether every replica keeps every record: no snapshot may then replace any."""
        return len(self.keepers) == 2


@dataclass(slots=True)
class SimSnapshots:
    """The snapshot work of one process; it is lost with the process."""

    node: SimNode
    plan: SnapshotPlan
    life: int
    rng: random.Random = field(init=False)
    whole: dict[LogPosition, SimSnapshot] = field(default_factory=dict[LogPosition, SimSnapshot])
    """Those that this process wrote or read from end to end."""
    read_at_ms: dict[LogPosition, int] = field(default_factory=dict[LogPosition, int])
    loaded: SimSnapshot | None = None
    """The one that was fetched and read whole."""
    is_writing: bool = False
    has_room: bool = True
    has_set_aside: bool = False
    """A damaged one was found; until there is another there are fewer than are to be kept."""
    slow_until_ms: int = 0
    die_after_jobs: int | None = None
    """The process ends once so many more jobs are done, before the core hears of the last."""
    die_after_install: bool = False
    """The process ends between two of the effects that follow the next install."""
    die_after_pieces: int | None = None
    """The process ends once it has given out so many more pieces."""
    jobs: deque[Callable[[], Event | None]] = field(
        default_factory=deque[Callable[[], Event | None]]
    )

    def __post_init__(self) -> None:
        self.rng = random.Random(self.plan.rng.getrandbits(64))
        self.node.world.after(self.rng.randint(0, self.plan.interval_ms[1]), self._take_in_turn)

    def _lives(self) -> bool:
        return self.node.life == self.life and self.node.core is not None

    def _is_paused(self) -> bool:
        return self.node.world.now_ms < self.node.paused_until_ms or self._is_stuck()

    def _is_stuck(self) -> bool:
        return self.node.stands_still or self.node.disk_hangs

    def _later(self, work: Callable[[], None]) -> None:
        """Once the process goes on and its disk answers."""
        node = self.node
        again_ms = node.world.now_ms + LOOK_AGAIN_MS
        node.world.at(again_ms if self._is_stuck() else node.paused_until_ms, work)

    def carry_out(self, effect: SnapshotEffect) -> None:
        """Carry out an effect on snapshots."""
        match effect:
            case ServeSnapshot():
                self._serve(effect)
            case StoreSnapshotPiece():
                self._store(effect)
            case VerifySnapshot(snapshot):
                self._verify(snapshot)
            case InstallSnapshot(head):
                self._install(head)
            case DropSnapshot():
                self._drop()
            case TrimLog(start):
                self._trim(start)

    # -- taking them -------------------------------------------------------------------

    def _take_in_turn(self) -> None:
        if self._lives():
            self.take()
            self.node.world.after(self.rng.randint(*self.plan.interval_ms), self._take_in_turn)

    def take(self) -> None:
        """Begin a snapshot of the applied state, if it is new and no other is under way."""
        node = self.node
        if not self._lives() or self._is_paused() or self.is_writing or not self.has_room:
            return
        assert node.core is not None
        index, end = node.core.replica.log, node.machine.end
        newest = node.disk.snapshots[-1].end if node.disk.snapshots else FIRST_OFFSET
        if end <= newest or end < index.start:
            return
        head = index.head_at(end)
        if head.voter_record == BASE_VOTER_RECORD:
            return  # raft.version 0: it could not tell who votes
        covered = tuple(node.disk.log[: node.disk.position(end)])
        made = SimSnapshot(head, covered, node.machine.copy())
        self.is_writing = True
        delay_ms = self.rng.randint(0, self.plan.write_ms_max)
        node.world.after(delay_ms, lambda: self._written(made))

    def _written(self, made: SimSnapshot) -> None:
        """It has its name: remove what it makes superfluous, then tell the core."""
        if not self._lives():
            return  # half a file, which the next start removes
        node = self.node
        if self._is_paused():
            self._later(lambda: self._written(made))
            return
        self.is_writing = False
        node.world.snapshot_files[made.position, made.content] = made
        node.world.checker.snapshots.made(node, made)
        node.disk.keep_snapshot(made)
        self.whole[made.position] = made
        self._remove_superfluous()
        node.world.faults.counts["snapshot"] += 1
        event = SnapshotTaken(made.position, self._trim_target())
        node.world.after(self.rng.randint(0, 3), lambda: node.deliver(self.life, event))

    def _remove_superfluous(self) -> None:
        kept = sorted(self.whole.values(), key=lambda snapshot: snapshot.end)[-self.plan.retained :]
        if len(kept) < self.plan.retained:
            return
        for snapshot in list(self.node.disk.snapshots):
            read_ms = self.read_at_ms.get(snapshot.position, -IN_USE_MS)
            if snapshot.end < kept[0].end and self.node.world.now_ms - read_ms >= IN_USE_MS:
                self.node.disk.drop_snapshot(snapshot.position)
                self.whole.pop(snapshot.position, None)

    def _trim_target(self) -> Offset:
        """The start of a segment up to which snapshots cover the log; else the log's own."""
        disk = self.node.disk
        if self.plan.keeps_every_record(disk.key.node_id) or len(self.whole) < self.plan.retained:
            return disk.start
        covered = min(snapshot.end for snapshot in self.whole.values())
        last = min(len(disk.log) - self.plan.kept_batches, disk.position(covered))
        place = last - last % self.plan.segment_batches
        return disk.log[place].base_offset if 0 <= place < len(disk.log) else disk.start

    # -- giving them out ---------------------------------------------------------------

    def _serve(self, effect: ServeSnapshot) -> None:
        """Answer with a piece, which another thread reads."""

        def answer() -> None:
            if not self._lives():
                return
            self.node.reply(effect.request_id, self._piece(effect))
            if effect.response.position == 0:
                self._check_later(effect.response.snapshot)
            if self.die_after_pieces is not None:
                self.die_after_pieces -= 1
                if self.die_after_pieces <= 0:
                    self.node.world.faults.counts["source_lost"] += 1
                    self.node.crash()

        self.node.world.after(self.rng.randint(0, 3), answer)

    def _check_later(self, which: LogPosition) -> None:
        """A fetch of it begins: check meanwhile whether it is sound, and else make another."""

        def check() -> None:
            node = self.node
            if self._lives() and which in node.disk.rotten:
                node.disk.drop_snapshot(which)
                self.whole.pop(which, None)
                self.has_set_aside = True
                node.world.faults.counts["set_aside"] += 1
                self.take()
                self._offer_older(which)

        self.node.world.after(self.rng.randint(0, self.plan.write_ms_max), check)

    def _offer_older(self, lost: LogPosition) -> None:
        """No other could be begun in the place of a damaged one: an older, sound one serves."""
        if self.is_writing:
            return
        node = self.node
        older = [
            snapshot
            for snapshot in node.disk.snapshots
            if snapshot.end < lost.end_offset and snapshot.position not in node.disk.rotten
        ]
        instead = older[-1] if older else None
        if instead is not None:
            self.whole[instead.position] = instead
        node.world.faults.counts["offered_older" if instead else "offered_none"] += 1
        event = SnapshotLost(lost, instead.position if instead else None)
        node.world.after(self.rng.randint(0, 3), lambda: node.deliver(self.life, event))

    def _piece(self, effect: ServeSnapshot) -> FetchSnapshotResponse:
        snapshot = self.whole.get(effect.response.snapshot)
        if snapshot is None:
            return effect.with_piece(None, b"")
        self.read_at_ms[snapshot.position] = self.node.world.now_ms
        content, at = snapshot.content, effect.response.position
        if snapshot.position in self.node.disk.rotten:
            content = b"?" + content[1:]
        limit = min(effect.max_bytes, self.plan.piece_bytes)
        return effect.with_piece(len(content), content[at : at + limit])

    # -- fetching one ------------------------------------------------------------------

    def _store(self, effect: StoreSnapshotPiece) -> None:
        """Write a piece; the first only if there is room."""
        snapshot = effect.snapshot

        def write() -> Event:
            if effect.position == 0:
                self.loaded = None
                self.node.world.faults.counts["fetch_begun"] += 1
                if not self.has_room:
                    return SnapshotRefused(snapshot, "no room")
            end = self.node.disk.store_piece(snapshot, effect.position, effect.data)
            if end is None:
                return SnapshotRefused(snapshot, "it does not follow")
            return SnapshotPieceStored(snapshot, end)

        self._beside(write)

    def _verify(self, snapshot: LogPosition) -> None:
        """Read the whole and make the state of it."""

        def read() -> Event:
            self.loaded = None
            incoming = self.node.disk.incoming
            fetched = self.node.world.snapshot_files.get(incoming) if incoming else None
            if fetched is None or fetched.position != snapshot:
                self.node.world.faults.counts["fetched_damaged"] += 1
                return SnapshotRefused(snapshot, "damaged")
            self.loaded = fetched
            return SnapshotVerified(fetched.head)

        self._beside(read)

    def _install(self, head: LogHead) -> None:
        """Put the one that was read whole in the place of log and state, after all jobs before."""
        while self.jobs:
            event = self.jobs.popleft()()
            if event is not None:
                self._deliver_later(event)
        node, loaded, self.loaded = self.node, self.loaded, None
        assert loaded is not None, "nothing was read whole"
        assert loaded.head == head, (loaded.head, head)
        node.world.checker.snapshots.installing(node, loaded)
        node.disk.install(loaded)
        node.machine = loaded.state.copy()
        self.whole[loaded.position] = loaded
        node.world.faults.counts["installed"] += 1
        if self.die_after_install:
            node.world.faults.counts["died_at_an_install"] += 1
            node.die_after_effects = self.rng.randint(0, 3)

    def _deliver_later(self, event: Event) -> None:
        self.node.world.after(0, lambda: self.node.deliver(self.life, event))

    def _drop(self) -> None:
        """Let go of what was fetched."""

        def drop() -> None:
            self.loaded = self.node.disk.incoming = None

        self._beside(drop)

    def _trim(self, start: Offset) -> None:
        """Remove what is below; another may have been put in place since that was wanted."""

        def trim() -> None:
            node = self.node
            if start > node.disk.start:
                node.world.checker.snapshots.trimming(node, start, self.whole)
                node.disk.trim(start)
                node.world.faults.counts["trimmed"] += 1

        self._beside(trim)

    # -- the thread --------------------------------------------------------------------

    def _beside(self, job: Callable[[], Event | None]) -> None:
        self.jobs.append(job)
        if len(self.jobs) == 1:
            self._next_job_later()

    def _next_job_later(self) -> None:
        is_slow = self.node.world.now_ms < self.slow_until_ms
        delay_ms = self.rng.randint(0, SLOW_MS if is_slow else self.plan.job_ms_max)
        self.node.world.after(delay_ms, self._work)

    def _work(self) -> None:
        if not self._lives() or not self.jobs:
            return
        if self._is_paused():
            self._later(self._work)
            return
        job = self.jobs.popleft()
        if self.jobs:
            self._next_job_later()
        event = job()
        if self.die_after_jobs is not None:
            self.die_after_jobs -= 1
            if self.die_after_jobs <= 0:
                self.node.world.faults.counts["died_at_a_job"] += 1
                self.node.crash()
                return
        if event is not None:
            self.node.deliver(self.life, event)
