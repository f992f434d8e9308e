"""The newest batches in memory are what the segments hold, after whatever was done to the log."""

from __future__ import annotations

import random

import pytest
from tests.unit.raftnode.storage.conftest import batch, control, new_log, reopen

from proofkit.faultdisk import FaultDisk
from raftnode.core.types import LogPosition, Offset
from raftnode.logformat.snapshot import SnapshotId
from raftnode.storage.log import recent_batches as module
from raftnode.storage.log.log import Log, OffsetOutsideError
from raftnode.storage.log.recent_batches import RecentBatches


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
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(RecentBatches.__init__, "__defaults__", (2000,))
    rng = random.Random(seed)
    _, log = new_log(seed)
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


def test_the_oldest_go_first_and_memory_is_bounded() -> None:
    recent = RecentBatches(1000)
    for number in range(1000):
        recent.add(Offset(number), Offset(number + 1), b"x" * 99)
        assert recent._size == sum(map(len, recent._data)) <= 1000
    assert recent.read(Offset(0), 10_000, Offset(1000)) is None
    assert recent.read(Offset(999), 10_000, Offset(1000)) == b"x" * 99
    recent.add(Offset(1000), Offset(1001), b"y" * 5000)
    assert recent._size == 0
    assert recent.read(Offset(1000), 10_000, Offset(1001)) is None


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


def test_a_log_that_begins_at_a_snapshot_forgets_what_it_held() -> None:
    _, log = new_log()
    log.append([batch(0), batch(1)])
    log.flush()
    before = log.generation
    log.reset(SnapshotId.at(LogPosition(batch(0).epoch, Offset(10))))
    assert (log.start_offset, log.generation) == (10, before + 1)
    log.append([batch(10)])
    assert log.recent(Offset(10), 1000, Offset(11)) == batch(10).data


def test_it_reads_no_disk() -> None:
    class Deaf(FaultDisk):
        def pread(self, fd: int, length: int, position: int) -> bytes:
            raise AssertionError(f"{length} bytes were read at {position}")

    disk, log = new_log()
    disk.__class__ = Deaf
    log.append([batch(0), batch(1)])
    assert log.recent(Offset(0), 1000, Offset(2)) == batch(0).data + batch(1).data
    assert module.RECENT_BYTES >= 1 << 20
