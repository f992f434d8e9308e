"""Takes snapshots beside the running node.

The loop freezes the state in no time, between two applied batches. A thread of its own (never a
fork, S29) writes the snapshot and yields after each piece. Only records that are committed and
durable here are applied (S10), so no other record gets into a snapshot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from raftnode.core.events import SnapshotLost, SnapshotTaken
from raftnode.core.log_index import LogIndex
from raftnode.core.types import Offset
from raftnode.logformat.snapshot import SnapshotHead, SnapshotId, StateRecord
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process.pause import Pause, StoppedError
from raftnode.runtime.snapshots.snapshot_room import SnapshotRoom
from raftnode.runtime.writes.applier import Applier
from raftnode.statemachine.kv import Entry, KeyValueStore
from raftnode.storage.files import FileOperationError
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.snapshot_file import SnapshotFile
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage, Snapshots

_log = structlog.get_logger("raftnode")

CHECK_INTERVAL_S = 1.0
PRESSING_INTERVAL_MS = 60_000
"""The time between two snapshots that are made because the disk runs low."""
_MERGE_ENTRIES = 2000
"""How many entries are merged in one go after a snapshot: about a millisecond."""
_RECORD_OVERHEAD_BYTES = 64
"""The overhead of a record in a snapshot, at most: lengths, the header `kq`, its share of the
batch."""


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """When a snapshot is due.

    Attributes:
        record_bytes: of the log applied since the last snapshot.
        interval_ms: since the last snapshot, if anything is new; 0: never for its age.
        reserve_bytes: how much must stay free on the disk.
        retention_bytes: of the log's end, kept though snapshots cover it; -1: all of it.
    """

    record_bytes: int
    interval_ms: int
    reserve_bytes: int
    retention_bytes: int = -1


@dataclass(frozen=True, slots=True)
class AppliedState:
    """What a snapshot is taken of.

    Attributes:
        applier: has the state.
        index: the core's, for the log's state of the quorum.
    """

    applier: Applier
    index: LogIndex


@dataclass(frozen=True, slots=True)
class SnapshotStorage:
    """What lies on the disk.

    Attributes:
        snapshots: the snapshots beside the log.
        log: the log that is trimmed behind snapshots.
        last: the snapshot that the start began with.
    """

    snapshots: Snapshots
    log: Log
    last: SnapshotFile | None


class Snapshotter:
    """Takes snapshots when they are due.

    Args:
        storage: the snapshots, and the log behind them.
        state: what a snapshot is taken of.
        limits: when a snapshot is due.
        metrics: count each snapshot.
        free_bytes: returns the free bytes of the disk, given the wanted bytes; it may block.
        disk: gets damage and missing room.
        on_taken: called with each snapshot, and up to where the log may be trimmed behind it; or
            with a damaged one, and the older one that can be offered in its place.
        now_ms: Unix time in milliseconds.
    """

    def __init__(
        self,
        storage: SnapshotStorage,
        state: AppliedState,
        limits: SnapshotLimits,
        metrics: NodeMetrics,
        *,
        free_bytes: Callable[[int], int],
        disk: DiskState,
        on_taken: Callable[[SnapshotTaken | SnapshotLost], None] = lambda _: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._snapshots = storage.snapshots
        self._applier = state.applier
        self._index = state.index
        self._log = storage.log
        self._limits = limits
        self._metrics = metrics
        self._disk = disk
        self._room = SnapshotRoom(
            free_bytes,
            limits.reserve_bytes,
            trims=limits.retention_bytes >= 0,
            disk=disk,
            metrics=metrics,
        )
        self._on_taken = on_taken
        self._now_ms = now_ms
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        self._pause = Pause()
        self._bytes_at = self._applier.applied_bytes
        self._taken_at = time.monotonic()
        self._damaged: dict[SnapshotId, SnapshotDamage] = {}
        """The damaged snapshots that are not set aside yet."""
        self._wanted = False
        """Whether the newest snapshot was damaged, so that the next is due at once."""
        self._lost: SnapshotId | None = None
        """The damaged newest snapshot, until another can be offered in its place."""
        self.last = storage.last
        """The newest snapshot."""
        self._made_ms = storage.last.made_ms if storage.last else -1
        metrics.snapshots_damaged.inc(len(self._snapshots.damaged))  # which the start has found
        self._show()

    def is_due(self) -> bool:
        """Whether the next snapshot should be taken now."""
        end = self._applier.kv.next_offset
        if end <= (self.last.snapshot_id.end_offset if self.last else 0):
            return False
        if not self._room.may_look:
            return False
        age_ms = (time.monotonic() - self._taken_at) * 1000
        if self._wanted or (self._room.pressing and age_ms >= PRESSING_INTERVAL_MS):
            return True
        needed = max(self._limits.record_bytes, self.last.size // 2 if self.last else 0)
        if self._applier.applied_bytes - self._bytes_at >= needed:
            return True
        return 0 < self._limits.interval_ms <= age_ms

    async def run(self) -> None:
        """Take snapshots for ever; a failing disk ends the task, and with it the process.

        Raises:
            StorageError: the disk failed.
        """
        while not self._pause.stopped:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await self._set_aside_damaged()
            try:
                if self.is_due():
                    await self.take()
                if self._lost is not None:
                    await self._offer_older(self._lost)
            except StoppedError:
                return

    def damaged(self, damage: SnapshotDamage) -> None:
        """Note a damaged snapshot: set it aside soon, and take another one for the newest."""
        if self._snapshots.doubt(damage):
            self._damaged[damage.snapshot_id] = damage

    async def _set_aside_damaged(self) -> None:
        loop = asyncio.get_running_loop()
        while self._damaged:
            snapshot_id, damage = self._damaged.popitem()
            if not await loop.run_in_executor(
                self._thread, self._snapshots.set_aside, damage, self._log.start_offset
            ):
                continue
            newest = self._snapshots.newest()
            if self.last is not None and self.last.snapshot_id == snapshot_id:
                # Unless a snapshot with its name has been fetched meanwhile.
                if newest is None or newest.snapshot_id < snapshot_id:
                    self._wanted, self._lost = True, snapshot_id
                self.last = newest
            self._tell(damage)

    def _tell(self, damage: SnapshotDamage) -> None:
        """Report that a snapshot was set aside."""
        _log.error("snapshot_damaged", snapshot=str(damage.snapshot_id), problem=damage.problem)
        self._metrics.snapshots_damaged.inc()
        self._show()

    async def _offer_older(self, lost: SnapshotId) -> None:
        """Offer an older snapshot, if the log is there, as there is no room to make a new one."""
        damaged: list[SnapshotDamage] = []

        def find() -> SnapshotFile | None:
            for snapshot_id in reversed(self._older(lost)):
                outcome = self._snapshots.prove(snapshot_id, self._pause)
                if isinstance(outcome, SnapshotFile):
                    return outcome
                if outcome is not None and self._snapshots.set_aside(
                    outcome, self._log.start_offset
                ):
                    damaged.append(outcome)
            return None

        snapshot = await asyncio.get_running_loop().run_in_executor(self._thread, find)
        for damage in damaged:
            self._tell(damage)
        if self._lost != lost:
            return  # One was fetched meanwhile and has taken its place.
        self._lost = None
        if snapshot is None or snapshot.log_head is None:
            self._on_taken(SnapshotLost(lost.position, None))
            return
        if self.last is None:
            self.last = snapshot
            self._show()
        self._on_taken(SnapshotLost(lost.position, snapshot.snapshot_id.position))

    def _older(self, lost: SnapshotId) -> list[SnapshotId]:
        return [snapshot_id for snapshot_id in self._snapshots.ids() if snapshot_id < lost]

    async def take(self) -> SnapshotFile | None:
        """Take a snapshot now; None: the disk has no room, or a fetched one is being installed.

        Raises:
            StorageError: the disk failed.
        """
        loop, kv = asyncio.get_running_loop(), self._applier.kv
        size = kv.size_bytes + len(kv) * _RECORD_OVERHEAD_BYTES
        free = await loop.run_in_executor(self._thread, self._room.free, size)
        if not self._room.suffices(free, size):
            return None
        await _merged(kv)
        await self._applier.between_batches()
        # From here to the next await nothing is applied.
        end = kv.next_offset
        if kv is not self._applier.kv or end < self._index.start:
            # A fetched snapshot replaces the log: the core goes on from it first, the state later.
            return None
        snapshot_id, head = self._identified(end)
        bytes_at, started = self._applier.applied_bytes, time.monotonic()
        entries = kv.freeze(self._pause)
        try:
            made = await loop.run_in_executor(
                self._thread, lambda: self._write(snapshot_id, head, entries)
            )
        except FileOperationError as error:
            kv.release()
            if not error.is_full:
                raise
            # Another file has taken the room meanwhile. Nothing of the snapshot is left.
            self._room.lacks(size)
            return None
        except Exception:
            kv.release()
            raise
        # After a cancellation the store stays frozen: the thread may still be reading.
        kv.release()
        self._room.taken()
        self._newest(made, bytes_at)
        seconds = time.monotonic() - started
        self._metrics.snapshot_seconds.observe(seconds)
        trim_to = await loop.run_in_executor(self._thread, self._trim_to)
        if made.log_head is not None:
            self._on_taken(SnapshotTaken(snapshot_id.position, trim_to))
        _log.info(
            "snapshot_taken",
            snapshot=str(snapshot_id),
            entries=made.records,
            bytes=made.size,
            seconds=round(seconds, 3),
        )
        await _merged(kv)
        return made

    def _newest(self, made: SnapshotFile, bytes_at: int) -> None:
        self._bytes_at, self._taken_at, self._wanted = bytes_at, time.monotonic(), False
        self._lost = None
        if self.last is None or made.snapshot_id > self.last.snapshot_id:
            self.last, self._made_ms = made, self._now_ms()
        self._show()

    def installed(self, snapshot: SnapshotFile) -> None:
        """Note that a snapshot, and the state with it, came from the leader."""
        self._newest(snapshot, self._applier.applied_bytes)

    def _trim_to(self) -> Offset:
        retention = self._limits.retention_bytes
        if retention < 0:
            return Offset(0)
        return self._log.trim_target(self._snapshots.covered(), retention)

    def _identified(self, end: Offset) -> tuple[SnapshotId, SnapshotHead]:
        log_head = self._index.head_at(end)
        head = SnapshotHead(
            log_head.voters,
            log_head.raft_version,
            log_head.formation_completed,
            self._applier.last_timestamp_ms,
            log_head.target_voters,
            voter_record=log_head.voter_record,
            target_record=log_head.target_record,
        )
        return SnapshotId.at(log_head.position), head

    def _write(
        self, snapshot_id: SnapshotId, head: SnapshotHead, entries: Iterator[tuple[bytes, Entry]]
    ) -> SnapshotFile:
        records = (
            StateRecord(key, entry.value, entry.offset, entry.epoch) for key, entry in entries
        )
        # The same state makes the same bytes, whichever replica writes it and when.
        return self._snapshots.write(
            snapshot_id, head, records, now_ms=head.last_timestamp_ms, pause=self._pause
        )

    def _show(self) -> None:
        self._metrics.storage_damaged.set(len(self._disk.all_damage))
        if self.last is not None:
            self._metrics.snapshot_end_offset.set(self.last.snapshot_id.end_offset)
            self._metrics.snapshot_size_bytes.set(self.last.size)
            self._metrics.snapshot_made_timestamp_seconds.set(max(self._made_ms, 0) / 1000)

    def close(self) -> None:
        """Give up a snapshot that is being written and wait for its thread; blocks."""
        self._pause.stop()
        self._thread.shutdown(wait=True)


async def _merged(kv: KeyValueStore) -> None:
    """Merge all that was written while the store was frozen, with turns for other tasks."""
    while True:
        if kv.merge(_MERGE_ENTRIES):
            return
        await asyncio.sleep(0)
