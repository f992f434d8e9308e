"""The newest batches in memory are what the segments hold, after whatever was done to the log."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.unit.raftnode.storage.conftest import (
    LOG,
    SMALL,
    batch,
    control,
    new_log,
    reopen,
    segments,
)

from proofkit.faultdisk import FaultDisk
from raftnode.core.types import Epoch, LogPosition, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat import SnapshotId
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, OffsetOutsideError
from raftnode.storage.log.recent_batches import BATCH_OVERHEAD_BYTES, RecentBatches

ADD = "storage.log.recent_batches:RecentBatches.add"


def compare(log: Log, rng: random.Random) -> int:
    """Read here and there, both ways; how many answers came from memory."""
    held = 0
    for _ in range(20):
        start = Offset(rng.randint(log.start_offset, log.end_offset))
        end = Offset(rng.randint(start, log.end_offset))
        max_bytes = rng.choice([1, 100, 1000, 100_000])
        found = log.recent(start, max_bytes, end)
        if found is None:
            continue
        held += 1
        stored = log.read(start, max_bytes, end)
        # A read of the disk stops at the end of a segment, one from memory need not.
        assert found.startswith(stored)
        assert bool(found) == bool(stored)
        assert len(found) <= max(max_bytes, len(stored))
    return held


@pytest.mark.parametrize("seed", range(10))
def test_memory_and_disk_say_the_same_whatever_was_appended_and_cut(
    seed: int,
) -> None:
    rng = random.Random(seed)
    disk, _ = new_log(seed)
    log = Log.open(Files(disk), LOG, replace(SMALL, recent_bytes=4000))
    epoch, held = 1, 0
    for _ in range(60):
        if rng.random() < 0.15 and log.end_offset:
            log.truncate(Offset(rng.randint(log.start_offset, log.end_offset)))
            epoch += 1
        elif rng.random() < 0.1:
            log.append([control(log.end_offset, epoch)])
        else:
            batches, base = [], log.end_offset
            for _ in range(rng.randint(1, 3)):
                count = rng.randint(1, 3)
                batches.append(batch(base, epoch, count, rng.choice([5, 50, 500])))
                base += count
            log.append(batches)
        held += compare(log, rng)
    assert held > 100


@pytest.mark.without(ADD, "self._let_go()", "pass")
@pytest.mark.without(ADD, "len(data) + BATCH_OVERHEAD_BYTES", "len(data)")
def test_the_oldest_go_first_and_memory_is_bounded() -> None:
    recent = RecentBatches(10_000)
    for number in range(1000):
        recent.add(Offset(number), Offset(number + 1), b"x" * 99)
        held = [len(data) + BATCH_OVERHEAD_BYTES for data in recent._data]
        assert recent.size_bytes == sum(held) <= 10_000
    assert recent.read(Offset(0), 10_000, Offset(1000)) is None
    assert recent.read(Offset(999), 10_000, Offset(1000)) == b"x" * 99
    recent.add(Offset(1000), Offset(1001), b"y" * 50_000)
    assert recent.size_bytes == 0
    assert recent.read(Offset(1000), 10_000, Offset(1001)) is None


def test_no_batch_is_held_where_the_settings_allow_no_memory() -> None:
    disk, _ = new_log()
    log = Log.open(Files(disk), LOG, replace(SMALL, recent_bytes=0))
    for offset in range(5):
        log.append([batch(offset)])
        assert log.recent(Offset(offset), 1000, Offset(offset + 1)) is None
        assert log.read(Offset(offset), 1000, Offset(offset + 1)) == batch(offset).data


@pytest.mark.without("storage.log.log:Log.truncate", "self._recent.cut(end)", "pass")
def test_what_was_cut_off_is_served_by_memory_no_more() -> None:
    _, log = new_log()
    log.append([batch(0), batch(1), batch(2)])
    assert log.truncate(Offset(1)) == 1
    assert log.recent(Offset(0), 1000, Offset(3)) == batch(0).data
    log.append([batch(1, epoch=2)])
    assert log.recent(Offset(0), 1000, Offset(2)) == batch(0).data + batch(1, epoch=2).data
    assert log.recent(Offset(1), 1000, Offset(2)) == log.read(Offset(1), 1000, Offset(2))


def test_a_truncation_below_all_that_memory_holds_leaves_nothing() -> None:
    disk, log = new_log()
    log.append([batch(0), batch(1)])
    log.close()
    log = reopen(disk)
    log.append([batch(2)])
    log.truncate(Offset(1))
    assert log.recent(Offset(0), 1000, Offset(3)) is None
    log.append([batch(1, epoch=2)])
    assert log.recent(Offset(1), 1000, Offset(2)) == batch(1, epoch=2).data


def test_a_new_segment_changes_nothing_of_what_memory_holds() -> None:
    _, log = new_log()
    count = 12
    for offset in range(count):
        log.append([batch(offset)])
    assert log.segments > 2
    expected = b"".join(batch(offset).data for offset in range(count))
    assert log.recent(Offset(0), len(expected), Offset(count)) == expected


def test_what_memory_holds_no_more_is_checked_as_it_comes_from_the_disk() -> None:
    disk, _ = new_log()
    log = Log.open(Files(disk), LOG, replace(SMALL, recent_bytes=600))
    log.append([batch(0)])
    log.flush()
    disk.flip_bit(LOG / segments(disk)[0], len(batch(0).data) - 1)
    # What was appended is in memory, as it was written.
    assert log.recent(Offset(0), 1000, Offset(1)) == batch(0).data
    for offset in range(1, 4):
        log.append([batch(offset)])
    assert log.recent(Offset(0), 1000, Offset(1)) is None
    with pytest.raises(StorageCorruptError, match="checksum"):
        log.read(Offset(0), 1000, Offset(1))
    # Nor does memory take what a read has found.
    assert log.read(Offset(1), 1, Offset(2)) == batch(1).data
    assert log.recent(Offset(1), 1, Offset(2)) is None


def test_a_log_that_was_opened_holds_nothing_in_memory() -> None:
    disk, log = new_log()
    log.append([batch(0), batch(1)])
    log.close()
    again = reopen(disk)
    assert again.recent(Offset(0), 1000, Offset(2)) is None
    again.append([batch(2)])
    assert again.recent(Offset(1), 1000, Offset(3)) is None
    assert again.recent(Offset(2), 1000, Offset(3)) == batch(2).data


def test_offsets_outside_are_refused_as_by_a_read() -> None:
    _, log = new_log()
    log.append([batch(0)])
    assert log.recent(Offset(1), 1000, Offset(1)) == b""
    for offset in (-1, 2):
        with pytest.raises(OffsetOutsideError):
            log.recent(Offset(offset), 1000, Offset(2))


@pytest.mark.without("storage.log.log:Log.reset", "self._recent.clear()", "pass")
def test_a_log_that_begins_at_a_snapshot_forgets_what_it_held() -> None:
    _, log = new_log()
    for offset in range(40):
        log.append([batch(offset)])
    log.flush()
    before = log.generation
    log.reset(SnapshotId.at(LogPosition(Epoch(2), Offset(10))))
    assert (log.start_offset, log.generation) == (10, before + 1)
    for offset in range(10, 16):
        log.append([batch(offset, epoch=2)])
    for offset in range(10, 16):
        expected = batch(offset, epoch=2).data
        assert log.recent(Offset(offset), 1, Offset(16)) == expected


def test_it_reads_no_disk() -> None:
    class Deaf(FaultDisk):
        def pread(self, fd: int, length: int, position: int) -> bytes:
            raise AssertionError(f"{length} bytes were read at {position}")

    disk, log = new_log()
    disk.__class__ = Deaf
    log.append([batch(0), batch(1)])
    assert log.recent(Offset(0), 1000, Offset(2)) == batch(0).data + batch(1).data
