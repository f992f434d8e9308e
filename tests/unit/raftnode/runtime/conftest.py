"""A log on a disk in memory, and time that passes as told."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from raftnode.core.records import Batch, LeaderChange
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey
from raftnode.storage.batch import Record, encode_data_batch, stamp
from raftnode.storage.files import Files
from raftnode.storage.log import Log, LogSettings
from raftnode.testing.faultdisk import FaultDisk

DIRECTORY = Path("/data/__cluster_metadata-0")


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
def storage() -> Storage:
    """An empty log."""
    disk = FaultDisk(random.Random(0))
    disk.make_directory(DIRECTORY)
    return Storage(disk, Log.open(Files(disk), DIRECTORY, LogSettings(now_ms=lambda: 5)))


@pytest.fixture
def replica_key() -> ReplicaKey:
    """Somebody."""

    return ReplicaKey(NodeId(1), uuid.UUID(int=7))
