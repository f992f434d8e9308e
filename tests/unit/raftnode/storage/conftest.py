"""What the storage tests start from: a simulated disk with a log or a data directory on it."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

from proofkit.faultdisk import FaultDisk
from raftnode.core.records import Batch, RaftVersion
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings

ROOT = Path("/data")
LOG = ROOT / "__cluster_metadata-0"
SMALL = LogSettings(segment_bytes=400, now_ms=lambda: 5)
"""Segments of a few batches each."""

ONE = NodeId(1)
KEY = ReplicaKey(ONE, uuid.UUID(int=0x1234))
LATCH = Latch("cluster", VoterSet.of([Voter(KEY)]))


def batch(base: int, epoch: int = 1, count: int = 1, size: int = 20) -> Batch:
    """A stamped batch whose values begin with its base offset."""
    records = [Record(None, base.to_bytes(8, "big") + bytes(size))] * count
    data = stamp(encode_data_batch(records, 1), Offset(base), Epoch(epoch))
    return Batch(Offset(base), Offset(base + count - 1), Epoch(epoch), data)


def control(base: int, epoch: int) -> Batch:
    """A control batch without its bytes, as the core appends it."""
    return Batch(Offset(base), Offset(base), Epoch(epoch), b"", (RaftVersion(2),))


def new_log(seed: int = 0) -> tuple[FaultDisk, Log]:
    """An empty log on a fresh disk."""
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(LOG)
    return disk, reopen(disk)


def reopen(disk: FaultDisk) -> Log:
    """The log that stands on a disk."""
    return Log.open(Files(disk), LOG, SMALL)


def flushed(count: int = 3, seed: int = 0) -> FaultDisk:
    """The disk of a process that was killed once `count` records were durable."""
    disk, log = new_log(seed)
    log.append([control(0, 1)])
    for offset in range(1, count):
        log.append([batch(offset)])
    log.flush()
    disk.kill()
    return disk


def segments(disk: FaultDisk) -> list[str]:
    """Names of the log's segments, in order."""
    return [name for name in sorted(disk.listdir(str(LOG))) if name.endswith(".log")]


def blank(seed: int = 0) -> FaultDisk:
    """A disk with an empty data directory."""
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(ROOT)
    return disk


def open_on(disk: FaultDisk) -> DataDirectory:
    """Replica 1's data directory on a disk."""
    return DataDirectory.open(ROOT, ONE, Files(disk))


def used() -> FaultDisk:
    """A disk whose directory was formatted and has voted and written once."""
    disk = blank()
    directory = open_on(disk)
    directory.write_quorum_state(QuorumState(Epoch(3), None, KEY))
    log = directory.open_log()
    log.append([control(0, 3)])
    log.close()
    directory.close()
    return disk
