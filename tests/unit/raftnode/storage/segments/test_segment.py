from __future__ import annotations

import random

import pytest
from tests.unit.raftnode.storage.conftest import LOG, batch, new_log

from proofkit.faultdisk import FaultDisk
from raftnode.core.records import Batch
from raftnode.core.types import Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat import decode_batches
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings
from raftnode.storage.segments.segment import Segment, segment_base_offset, segment_path


def test_reading_gives_whole_batches_from_the_one_that_holds_the_offset() -> None:
    _, log = new_log()
    log.append([batch(0, count=3), batch(3, count=2), batch(5)])
    size = len(batch(3, count=2).data)

    def bases(start: int, max_bytes: int, end: int) -> list[int]:
        data = log.read(Offset(start), max_bytes, Offset(end))
        return [b.base_offset for b in decode_batches(data)]

    assert bases(0, 10_000, 6) == [0, 3, 5]
    assert bases(2, 10_000, 6) == [0, 3, 5]
    assert bases(4, 1, 6) == [3]
    assert bases(3, size + 1, 6) == [3]
    assert bases(0, 10_000, 5) == [0, 3]
    assert bases(0, 10_000, 4) == [0]
    assert bases(0, 10_000, 2) == []
    assert bases(6, 10_000, 6) == []
    assert bases(5, 10_000, 99) == [5]
    for outside in (-1, 7):
        with pytest.raises(ValueError, match="outside"):
            log.read(Offset(outside), 10, Offset(99))


def test_every_batch_is_found_from_every_offset_also_after_a_reopen() -> None:
    rng = random.Random(4)
    disk = FaultDisk(rng)
    disk.make_directory(LOG)
    settings = LogSettings(segment_bytes=20_000)
    log = Log.open(Files(disk), LOG, settings)
    batches: list[Batch] = []
    end = 0
    for _ in range(150):
        batches.append(batch(end, count=rng.randint(1, 4), size=rng.choice([1, 300, 2000])))
        end = batches[-1].end_offset
    log.append(batches)
    log.flush()
    for current in (log, Log.open(Files(disk), LOG, settings)):
        for expected in batches:
            for offset in (expected.base_offset, expected.last_offset):
                assert current.read(offset, 1, Offset(end)) == expected.data


def test_truncation_inside_a_batch_goes_back_to_its_start() -> None:
    _, log = new_log()
    log.append([batch(0, count=3), batch(3, count=3)])
    assert log.truncate(Offset(5)) == 3
    with pytest.raises(ValueError, match="below the log start 0"):
        log.truncate(Offset(-1))


def test_only_kafkas_names_are_segments() -> None:
    assert segment_path(LOG, Offset(7)).name == "00000000000000000007.log"
    assert segment_base_offset("00000000000000000007.log") == 7
    for name in (
        "7.log",
        "00000000000000000007.log.tmp",
        "0000000000000000000x.log",
        "quorum-state",
    ):
        assert segment_base_offset(name) is None


def test_a_new_segment_is_never_made_over_records() -> None:
    disk, log = new_log()
    log.append([batch(0)])
    with pytest.raises(StorageCorruptError, match="not empty"):
        Segment.create(Files(disk), LOG, Offset(0))
