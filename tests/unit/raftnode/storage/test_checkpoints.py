from __future__ import annotations

import random
from pathlib import Path

import pytest

from raftnode.core.records import Batch, RaftVersion
from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageCorruptError
from raftnode.storage.batch import Record, encode_data_batch, stamp
from raftnode.storage.files import Files
from raftnode.storage.log import Log, LogSettings
from raftnode.testing.faultdisk import FaultDisk

DIR = Path("/data/__cluster_metadata-0")


SMALL = LogSettings(segment_bytes=400, now_ms=lambda: 5)


def batch(base: int, epoch: int = 1, count: int = 1, size: int = 20) -> Batch:
    records = [Record(None, base.to_bytes(8, "big") + bytes(size))] * count
    data = stamp(encode_data_batch(records, 1), Offset(base), Epoch(epoch))
    return Batch(Offset(base), Offset(base + count - 1), Epoch(epoch), data)


def control(base: int, epoch: int) -> Batch:
    return Batch(Offset(base), Offset(base), Epoch(epoch), b"", (RaftVersion(2),))


def make(seed: int = 0) -> tuple[FaultDisk, Log]:
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(DIR)
    return disk, Log.open(Files(disk), DIR, SMALL)


def reopen(disk: FaultDisk) -> Log:
    return Log.open(Files(disk), DIR, SMALL)


def flushed(count: int = 3, seed: int = 0) -> FaultDisk:
    disk, log = make(seed)
    log.append([control(0, 1)])
    for offset in range(1, count):
        log.append([batch(offset)])
    log.flush()
    disk.kill()
    return disk


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n__cluster_metadata 0 -1\n",
        b"0\n2\n1 0\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n1\n-1 0\n",
        b"\xff\n",
    ],
)
def test_a_damaged_checkpoint_is_refused(name: str, content: bytes) -> None:
    disk = flushed()
    disk.overwrite(DIR / name, content)
    with pytest.raises(StorageCorruptError):
        reopen(disk)


@pytest.mark.parametrize("content", [b"", b"x" * 12, b"\xff" * 12, b"y" * 13])
def test_a_damaged_flushed_offset_counts_as_none(content: bytes) -> None:
    disk = flushed()
    disk.overwrite(DIR / "flushed-offset", content)
    assert reopen(disk).end_offset == 3


def test_checkpoints_have_kafkas_text_form() -> None:
    disk, log = make()
    log.append([control(0, 3), batch(1, 3), batch(2, 8)])
    log.close()
    assert disk.content(DIR / "leader-epoch-checkpoint") == b"0\n2\n3 0\n8 2\n"
    assert (
        disk.content(DIR / "recovery-point-offset-checkpoint") == b"0\n1\n__cluster_metadata 0 3\n"
    )
