from __future__ import annotations

import errno
import random
import threading
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import LOG, batch, control, new_log, reopen, segments

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.core.records import Batch, RaftVersion
from raftnode.core.types import Epoch, LogPosition, Offset
from raftnode.errors import DecodeError, StorageFailedError, StorageLostError
from raftnode.logformat import decode_batches
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings


def test_an_empty_log_has_one_segment_with_kafkas_name() -> None:
    disk, log = new_log()
    assert segments(disk) == ["00000000000000000000.log"]
    assert (log.start_offset, log.end_offset, log.position) == (
        0,
        0,
        LogPosition(Epoch(-1), Offset(0)),
    )
    assert log.read(Offset(0), 100, Offset(0)) == b""
    assert log.flush() == 0


def test_bytes_are_written_verbatim_and_control_batches_are_encoded() -> None:
    disk, log = new_log()
    log.append([control(0, 1), batch(1)])
    written = disk.content(LOG / "00000000000000000000.log")
    assert written.endswith(batch(1).data)
    assert [b.control for b in decode_batches(written)] == [(RaftVersion(2),), ()]
    assert log.position == LogPosition(Epoch(1), Offset(2))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (batch(1), ValueError),
        (batch(0, epoch=-1), ValueError),
        (Batch(Offset(0), Offset(5), Epoch(1), batch(0).data), ValueError),
        (Batch(Offset(0), Offset(0), Epoch(2), batch(0).data), ValueError),
        (Batch(Offset(0), Offset(0), Epoch(1), batch(0).data + b"x"), ValueError),
        (Batch(Offset(0), Offset(0), Epoch(1)), DecodeError),
    ],
)
def test_a_batch_out_of_place_is_refused_and_nothing_is_written(
    wrong: Batch, error: type[Exception]
) -> None:
    disk, log = new_log()
    with pytest.raises(error):
        log.append([wrong])
    assert disk.content(LOG / "00000000000000000000.log") == b""
    log.append([batch(0, 5)])
    with pytest.raises(ValueError, match="does not follow"):
        log.append([batch(1, 4)])


def test_segments_roll_by_size_and_a_roll_makes_the_old_one_durable() -> None:
    disk, log = new_log()
    log.append([batch(offset) for offset in range(12)])
    assert segments(disk) == [f"{base:020d}.log" for base in (0, 4, 8)]
    assert log.flushed_offset == 8
    log.append([batch(12, size=900)])
    log.append([batch(13)])
    assert segments(disk)[-2:] == [f"{base:020d}.log" for base in (12, 13)]
    disk.crash()
    assert reopen(disk).end_offset >= 13


def test_the_identity_of_the_directory_is_checked_before_a_segment_is_made() -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(LOG)
    calls: list[int] = []
    log = Log.open(
        Files(disk),
        LOG,
        LogSettings(segment_bytes=400, before_roll=lambda: calls.append(len(segments(disk)))),
    )
    log.append([batch(offset) for offset in range(9)])
    assert calls == [1, 2]


def test_flush_returns_what_was_written_before_the_sync_began() -> None:
    disk, log = new_log()
    log.append([batch(0)])
    sync = disk.fdatasync

    def meanwhile(fd: int) -> None:
        disk.fdatasync = sync
        log.append([batch(1)])
        sync(fd)

    disk.fdatasync = meanwhile
    assert log.flush() == 1
    assert (log.flushed_offset, log.end_offset) == (1, 2)
    assert log.flush() == 2


def test_a_second_flush_of_the_same_end_does_not_sync() -> None:
    disk, log = new_log()
    log.append([batch(0)])
    log.flush()
    before = disk.modifications
    assert log.flush() == 1
    assert disk.modifications == before


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_failure_the_log_never_says_anything_again(call: str, number: int) -> None:
    disk, log = new_log()
    log.append([batch(0)])
    log.flush()
    disk.faults.append(Fault(call, number, path_part=".log"))

    def use() -> None:
        log.append([batch(1)])
        log.flush()

    for _ in range(2):
        with pytest.raises(StorageFailedError) as caught:
            use()
        assert getattr(caught.value, "errno", None) == number
    with pytest.raises(StorageFailedError):
        log.flush()
    with pytest.raises(StorageFailedError):
        log.read(Offset(0), 10, Offset(1))
    with pytest.raises(StorageFailedError):
        log.truncate(Offset(0))
    log.close()


def test_records_seen_again_after_a_failed_sync_are_durable_once_recovered() -> None:
    """The page cache shows what the disk never got: recovery must write it again."""
    for seed in range(10):
        disk, log = new_log(seed)
        log.append([batch(0)])
        log.flush()
        log.append([batch(1), batch(2)])
        disk.faults.append(Fault("fdatasync", path_part=".log"))
        with pytest.raises(StorageFailedError):
            log.flush()
        disk.kill()
        end = reopen(disk).end_offset
        assert end == 3
        disk.crash()
        assert reopen(disk).end_offset == 3


def test_truncation_drops_records_segments_and_epochs_durably() -> None:
    disk, log = new_log()
    log.append([batch(offset, epoch=1 + offset // 5) for offset in range(12)])
    log.flush()
    assert log.truncate(Offset(99)) == 12
    assert log.truncate(Offset(6)) == 6
    assert segments(disk) == [f"{base:020d}.log" for base in (0, 4)]
    assert [(e.epoch, e.start_offset) for e in log.epochs] == [(1, 0), (2, 5)]
    assert (log.flushed_offset, log.end_offset) == (6, 6)
    log.append([batch(6, 7)])
    log.flush()
    disk.crash()
    again = reopen(disk)
    assert again.read(Offset(6), 1, Offset(7)) == batch(6, 7).data
    assert [(e.epoch, e.start_offset) for e in again.epochs] == [(1, 0), (2, 5), (7, 6)]
    assert again.truncate(Offset(0)) == 0
    assert again.position == LogPosition(Epoch(-1), Offset(0))


def test_truncation_waits_for_a_flush_under_way() -> None:
    disk, log = new_log()
    log.append([batch(0), batch(1)])
    inside, go_on = threading.Event(), threading.Event()
    sync = disk.fdatasync

    def slow(fd: int) -> None:
        inside.set()
        assert go_on.wait(10)
        sync(fd)

    disk.fdatasync = slow
    flusher = threading.Thread(target=log.flush)
    flusher.start()
    assert inside.wait(10)
    cutter = threading.Thread(target=log.truncate, args=(Offset(1),))
    cutter.start()
    cutter.join(0.05)
    assert cutter.is_alive()
    assert log.end_offset == 2
    go_on.set()
    flusher.join(10)
    cutter.join(10)
    assert (log.end_offset, log.flushed_offset) == (1, 1)


def test_reading_while_another_thread_appends_and_truncates_gives_only_whole_batches(
    tmp_path: Path,
) -> None:
    log = Log.open(Files(), tmp_path, LogSettings(segment_bytes=2000))
    log.append([batch(0)])
    stop = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        rng = random.Random(1)
        try:
            while not stop.is_set():
                end = log.end_offset
                try:
                    data = log.read(Offset(rng.randrange(end)), 500, end)
                except ValueError:
                    continue  # truncated meanwhile
                decode_batches(data)
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    rng = random.Random(2)
    for epoch in range(1, 30):
        for _ in range(8):
            log.append([batch(log.end_offset, epoch)])
        log.truncate(Offset(max(1, log.end_offset - rng.randint(0, 12))))
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not problems
    log.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_read_that_a_truncation_overtook_is_done_again(nth: int) -> None:
    disk, log = new_log()
    log.append([batch(0), batch(1, 1), batch(2, 1)])
    read = disk.pread
    calls = 0

    def overtaken(fd: int, length: int, position: int) -> bytes:
        nonlocal calls
        calls += 1
        data = read(fd, length, position)
        if calls == nth:
            disk.pread = read
            log.truncate(Offset(1))
            log.append([batch(1, 9)])
        return data

    disk.pread = overtaken
    assert log.read(Offset(1), 10_000, Offset(3)) == batch(1, 9).data


def test_records_of_the_epoch_before_may_follow_a_truncation() -> None:
    disk, log = new_log()
    log.append([batch(0, 3), batch(1, 3), batch(2, 5)])
    log.truncate(Offset(1))
    log.append([batch(1, 3), batch(2, 3), batch(3, 3)])
    log.flush()
    disk.kill()
    assert [(e.epoch, e.start_offset) for e in reopen(disk).epochs] == [(3, 0)]


@pytest.mark.rule("S4")
def test_a_segment_whose_name_is_gone_is_noticed() -> None:
    disk, log = new_log()
    log.check_identity()
    disk.wipe(LOG)
    with pytest.raises(StorageLostError):
        log.check_identity()
    with pytest.raises(StorageLostError):
        log.append([batch(0)])
