"""What counts as a torn tail, and what as rot in front of whole batches."""

from __future__ import annotations

import random

import pytest
from tests.unit.raftnode.storage.conftest import LOG, ROOT, control, new_log, reopen

from proofkit.faultdisk import FaultDisk
from raftnode.core.records import Batch
from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import find_log
from raftnode.storage.inspection.verification import Verification
from raftnode.storage.log.log import Log, LogSettings

PATH = LOG / f"{0:020d}.log"
ROOMY = LogSettings(segment_bytes=1 << 20, now_ms=lambda: 5)


def batch(base: int, size: int) -> Batch:
    """A batch of epoch 1 whose value is no run of zeros."""
    value = base.to_bytes(8, "big") + random.Random(base).randbytes(size)
    data = stamp(encode_data_batch([Record(None, value)], 1), Offset(base), Epoch(1))
    return Batch(Offset(base), Offset(base), Epoch(1), data)


def holding(base: int, inner: bytes) -> Batch:
    """A batch whose value holds the bytes of others."""
    noise = random.Random(base)
    value = noise.randbytes(40) + inner + noise.randbytes(300)
    data = stamp(encode_data_batch([Record(None, value)], 1), Offset(base), Epoch(1))
    return Batch(Offset(base), Offset(base), Epoch(1), data)


def ending_with(*batches: Batch) -> FaultDisk:
    """Batches behind two others, on a disk that does not know how much is durable."""
    disk, _ = new_log()
    log = Log.open(Files(disk), LOG, ROOMY)
    log.append([control(0, 1), batch(1, 50), *batches])
    log.flush()
    disk.kill()
    disk.overwrite(LOG / "flushed-offset", b"")
    return disk


def unmarked(sizes: tuple[int, ...] = (20, 20, 20, 20)) -> FaultDisk:
    """Durable batches on a disk whose power cut took `flushed-offset` back to nothing."""
    disk, _ = new_log()
    log = Log.open(Files(disk), LOG, ROOMY)
    log.append([control(0, 1)])
    for offset, size in enumerate(sizes, 1):
        log.append([batch(offset, size=size)])
    log.flush()
    disk.kill()
    disk.overwrite(LOG / "flushed-offset", b"")
    return disk


def place(disk: FaultDisk, offset: int) -> int:
    """Where the batch of an offset begins."""
    return disk.content(PATH).index(offset.to_bytes(8, "big"))


@pytest.mark.parametrize("byte", [0, 7, 9, 11, 15, 16, 18, 22, 25, 57, 61, 70])
@pytest.mark.parametrize("offset", [1, 3])
def test_rot_before_whole_batches_is_no_torn_tail(byte: int, offset: int) -> None:
    disk = unmarked()
    disk.flip_bit(PATH, place(disk, offset) + byte, 3)
    before = disk.content(PATH)
    with pytest.raises(StorageCorruptError, match=r"whole batches follow|have different epochs"):
        reopen(disk)
    assert disk.content(PATH) == before


def test_a_batch_that_is_gone_from_the_middle_is_no_torn_tail() -> None:
    disk = unmarked()
    content = disk.content(PATH)
    disk.overwrite(PATH, content[: place(disk, 2)] + content[place(disk, 3) :])
    with pytest.raises(StorageCorruptError, match="whole batches follow it"):
        reopen(disk)


def test_rot_with_nothing_whole_behind_it_is_cut() -> None:
    disk = unmarked()
    disk.flip_bit(PATH, place(disk, 4) + 30)
    log = reopen(disk)
    assert log.end_offset == 4
    assert log.torn_tail is not None


def test_batches_that_a_client_wrote_as_a_value_are_not_behind_the_torn_batch() -> None:
    """Else any client that may write could have every replica refuse its disk after a power cut."""
    disk = ending_with(holding(2, batch(3, 100).data + batch(7, 100).data))
    disk.overwrite(PATH, disk.content(PATH)[:-200])
    log = reopen(disk)
    assert (log.end_offset, log.torn_tail is not None) == (2, True)


@pytest.mark.parametrize("byte", [9, 10, 11, 17, 40, 57, 70, 200])
def test_rot_in_a_batch_that_holds_others_is_no_torn_tail(byte: int) -> None:
    disk = ending_with(holding(2, batch(3, 100).data), batch(3, 20))
    disk.flip_bit(PATH, place(disk, 2) + byte, 3)
    with pytest.raises(StorageCorruptError, match="whole batches follow it"):
        reopen(disk)


def test_a_sector_that_never_arrived_is_a_torn_tail() -> None:
    disk = unmarked((3000, 20))
    content = bytearray(disk.content(PATH))
    start = (place(disk, 1) // 512 + 1) * 512
    content[start : start + 512] = bytes(512)
    disk.overwrite(PATH, bytes(content))
    assert reopen(disk).end_offset == 1


def test_zeros_that_are_a_part_of_a_sector_excuse_no_rot() -> None:
    """Records end with a zero, and offsets begin with some."""
    disk = unmarked((600, 20))
    disk.flip_bit(PATH, place(disk, 1) + 40)
    content = bytearray(disk.content(PATH))
    end = place(disk, 2)
    content[end - 100 : end] = bytes(100)
    disk.overwrite(PATH, bytes(content))
    with pytest.raises(StorageCorruptError, match="whole batches follow it"):
        reopen(disk)


def test_the_zeros_that_an_offset_begins_with_excuse_no_rot() -> None:
    """The batch begins so near to the end of a sector that its share is zeros anyway."""
    short = place(unmarked((300, 20, 20)), 2)
    disk = unmarked((300 + 508 - short, 20, 20))
    assert place(disk, 2) % 512 == 508
    disk.flip_bit(PATH, place(disk, 2) + 70)
    with pytest.raises(StorageCorruptError, match="whole batches follow it"):
        reopen(disk)


def test_verify_tells_the_same() -> None:
    disk = unmarked()
    disk.flip_bit(PATH, place(disk, 2) + 70)
    files = Files(disk)
    kinds = [finding.kind for finding in Verification(files, find_log(files, ROOT)).run()]
    assert "damage" in kinds
    assert "tail" not in kinds


@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_power_cut_leaves_of_unsynced_writes_is_a_torn_tail(seed: int) -> None:
    """Sectors in any order, many batches at once: a start never takes them for rot."""
    rng = random.Random(seed)
    disk, _ = new_log(seed)
    log = Log.open(Files(disk), LOG, ROOMY)
    log.append([control(0, 1)])
    durable = log.flush()
    for offset in range(1, 30):
        log.append([batch(offset, size=rng.choice([1, 20, 90, 400, 1500]))])
        if rng.random() < 0.07:
            durable = log.flush()
    disk.crash()
    assert durable <= Log.open(Files(disk), LOG, ROOMY).end_offset <= 30
