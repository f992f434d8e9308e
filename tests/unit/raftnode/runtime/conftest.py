"""A log on a disk in memory, a snapshotter beside it, and time that passes as told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from proofkit.faultdisk import FaultDisk
from raftnode.core.events import SnapshotLost, SnapshotTaken
from raftnode.core.log_index import LogIndex
from raftnode.core.records import Batch, LeaderChange
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey
from raftnode.logformat import Record, encode_data_batch, iter_records, stamp
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.runtime.snapshots.snapshotter import (
    AppliedState,
    SnapshotLimits,
    SnapshotStorage,
    Snapshotter,
)
from raftnode.runtime.writes.applier import Applier
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.files import File, Files
from raftnode.storage.log.log import Log, LogSettings
from raftnode.storage.snapshots.snapshot_store import Snapshots

DIRECTORY = Path("/data/__cluster_metadata-0")

LONG_S = 60
"""What nothing takes that goes well, however busy the machine."""
LONG_MS = 1000 * LONG_S


@pytest.fixture
def looped_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Awaitable[None]]:
    """Lets so many milliseconds of the loop's time pass at once."""

    async def advance(ms: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        later = now + ms / 1000
        monkeypatch.setattr(loop, "time", lambda: later)
        for _ in range(10):
            await asyncio.sleep(0)

    return advance


@dataclass
class Storage:
    """A log on a disk in memory."""

    disk: FaultDisk
    log: Log

    def batch(self, *values: bytes | None, key: bytes | None = b"key", epoch: int = 1) -> Batch:
        """A batch that follows the log's end."""
        base = self.log.end_offset
        data = encode_data_batch([Record(key, value) for value in values], 1)
        last = Offset(base + len(values) - 1)
        return Batch(base, last, Epoch(epoch), stamp(data, base, Epoch(epoch)))

    def append(self, *values: bytes | None, key: bytes | None = b"key") -> None:
        """Write one batch."""
        self.log.append([self.batch(*values, key=key)])

    def append_control(self, leader: ReplicaKey) -> None:
        """Write a control batch."""
        base = self.log.end_offset
        self.log.append([Batch(base, base, Epoch(1), b"", (LeaderChange(leader, (), ()),))])


@pytest.fixture
def unreserved(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int], File], None]:
    """Has the system say how much is free: so much, less what is reserved for a file."""

    def say(free_bytes: Callable[[], int], file: File) -> None:
        monkeypatch.setattr(
            os,
            "statvfs",
            lambda _: SimpleNamespace(
                f_bavail=free_bytes() - file.stat().spare_bytes, f_blocks=1000, f_frsize=1
            ),
        )

    return say


@pytest.fixture
def storage() -> Storage:
    """An empty log."""
    disk = FaultDisk(random.Random(0))
    disk.make_directory(DIRECTORY)
    return Storage(disk, Log.open(Files(disk), DIRECTORY, LogSettings(now_ms=lambda: 5)))


@pytest.fixture
def replica_key() -> ReplicaKey:
    """A replica."""

    return ReplicaKey(NodeId(1), uuid.UUID(int=7))


BIG = SnapshotLimits(1 << 40, 0, 0)


def folded(log: Log, end: int) -> KeyValueStore:
    """The state by the log alone."""
    store = KeyValueStore()
    while store.next_offset < end:
        for record in iter_records(log.read(store.next_offset, 1 << 20, Offset(end))):
            store.apply(record.offset, record.key, record.value, epoch=record.epoch)
    return store


def names(disk: FaultDisk) -> list[str]:
    """Files of the log's directory."""
    return disk.listdir(str(DIRECTORY))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, and not for ever."""
    async with asyncio.timeout(LONG_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


class Rig:
    """An applier and a snapshotter on a disk in memory."""

    def __init__(self, storage: Storage, limits: SnapshotLimits = BIG, free: int = 1 << 40) -> None:
        self.storage = storage
        self.files = Files(storage.disk)
        self.snapshots = Snapshots(self.files, DIRECTORY, 2, lambda: None)
        kv, last = restore_state(self.snapshots, storage.log)
        self.applier = Applier(storage.log, kv)
        self.index = LogIndex(end=storage.log.end_offset, epochs=[(Epoch(1), Offset(0))])
        self.free = free
        self.disk = DiskState(damaged_snapshots=self.snapshots.damaged)
        self.metrics = NodeMetrics(CollectorRegistry())
        self.taken: list[SnapshotTaken | SnapshotLost] = []
        self.taker = Snapshotter(
            SnapshotStorage(self.snapshots, storage.log, last),
            AppliedState(self.applier, self.index),
            limits,
            self.metrics,
            free_bytes=lambda _: self.free,
            disk=self.disk,
            on_taken=self.taken.append,
            now_ms=lambda: 5,
        )
        self.tasks = [asyncio.get_running_loop().create_task(self.applier.run())]

    @property
    def last_end(self) -> int:
        return self.taker.last.snapshot_id.end_offset if self.taker.last else 0

    async def write(self, count: int, size: int = 100) -> None:
        for number in range(count):
            self.storage.append(b"v%d" % number * size, key=b"key %d" % (number % 50))
        self.storage.log.flush()
        await self.apply(self.storage.log.end_offset)

    async def apply(self, end: Offset) -> None:
        """Commit the log up to an offset, and wait until the state has it."""
        self.applier.committed(end, end)
        assert await self.applier.wait_applied(end, timeout_ms=LONG_MS)

    async def take_two(self) -> None:
        """Two snapshots, of the first 10 records and of the first 20."""
        for _ in range(2):
            await self.write(10)
            await self.taker.take()

    async def close(self) -> None:
        await asyncio.to_thread(self.taker.close)
        for task in self.tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def make(storage: Storage) -> AsyncIterator[Callable[..., Rig]]:
    """Makes rigs on the same log, as starts one after the other do."""
    made: list[Rig] = []

    def one(**keywords) -> Rig:
        made.append(Rig(storage, **keywords))
        return made[-1]

    yield one
    for rig in made:
        await rig.close()


class Trimmed:
    """A log that begins later, as one will whose beginning was removed."""

    def __init__(self, log: Log, start: int) -> None:
        self.start_offset = Offset(start)
        self.end_offset, self.epochs = log.end_offset, log.epochs
