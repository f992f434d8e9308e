"""Room that is reserved for the segment that grows: when, how much, and that it goes again."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import LOG, SMALL, batch, control, segments

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.core.types import Epoch, Offset
from raftnode.errors import ExitCode, StorageFailedError
from raftnode.logformat import SnapshotId
from raftnode.storage.files import FileOperationError, Files
from raftnode.storage.log.log import Log, LogSettings

RESERVING = replace(SMALL, preallocate=True)
ROOM = SMALL.segment_bytes


def empty() -> FaultDisk:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(LOG)
    return disk


def open_log(disk: FaultDisk, settings: LogSettings = RESERVING) -> Log:
    return Log.open(Files(disk), LOG, settings)


def rooms(disk: FaultDisk) -> list[tuple[int, int]]:
    """Of each segment: where it ends, and up to where the disk keeps room for it."""
    found = [disk.stat(str(LOG / name)) for name in segments(disk)]
    return [(one.size, one.size + one.spare_bytes) for one in found]


def write(log: Log, count: int, epoch: int = 1) -> None:
    for _ in range(count):
        log.append([batch(log.end_offset, epoch)])
    log.flush()


def is_reserved(disk: FaultDisk) -> bool:
    """Whether the last segment, and no other, has room beyond its end: all that it may need."""
    *full, (size, room) = rooms(disk)
    return size < ROOM == room and all(end == up_to for end, up_to in full)


def test_the_segment_that_grows_has_its_whole_room_and_ends_where_its_records_end():
    disk = empty()
    log = open_log(disk)
    assert rooms(disk) == [(0, ROOM)]
    write(log, 2)
    assert rooms(disk) == [(log.size_bytes, ROOM)]


def test_without_the_setting_nothing_is_reserved_or_asked_for():
    disk = empty()
    disk.faults = [Fault("fallocate"), Fault("fstatvfs")]
    log = open_log(disk, SMALL)
    write(log, 30)
    log.truncate(Offset(3))
    log.close()
    assert len(disk.faults) == 2
    assert all(size == room for size, room in rooms(disk))


def test_a_segment_that_is_full_gives_back_what_is_left_over():
    disk = empty()
    log = open_log(disk)
    write(log, 10)
    assert len(rooms(disk)) > 2
    assert is_reserved(disk)


def test_what_a_full_segment_gives_back_is_gone_for_good_before_there_is_a_next_one():
    """No later start looks at it."""
    for seed in range(30):
        disk = FaultDisk(random.Random(seed))
        disk.make_directory(LOG)
        log = open_log(disk)
        while len(segments(disk)) == 1:
            write(log, 1)
        disk.crash()
        if len(segments(disk)) == 2:
            size, room = rooms(disk)[0]
            assert size == room


@pytest.mark.parametrize("how", ["asked for", "refused"])
@pytest.mark.without(
    "storage.segments.segment:Segment.give_back_durably", "if self._given_back", "if False"
)
@pytest.mark.without(
    "storage.segments.segment:Segment._cut_room", "_given_back = True", "_given_back = False"
)
def test_what_it_gave_back_before_is_gone_for_good_too(how: str):
    """Also where no flush comes between."""
    for seed in range(10):
        disk = FaultDisk(random.Random(seed))
        disk.make_directory(LOG)
        log = open_log(disk, RESERVING if how == "asked for" else SMALL)
        while log.size_bytes + len(batch(0).data) <= ROOM:
            write(log, 1)
        if how == "asked for":
            assert log.give_back()
        else:
            log.close()
            disk.fallocate = _partly(disk, errno.ENOSPC)
            log = open_log(disk)
        write(log, 1)
        assert len(segments(disk)) == 2
        disk.crash()
        size, room = rooms(disk)[0]
        assert size == room, seed


def test_a_clean_stop_gives_it_back():
    disk = empty()
    log = open_log(disk)
    write(log, 2)
    log.close()
    disk.crash()
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]
    # Also one that has written nothing.
    log = open_log(disk)
    assert is_reserved(disk)
    log.close()
    disk.crash()
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]


def killed() -> FaultDisk:
    disk = empty()
    write(open_log(disk), 10)
    disk.kill()
    assert is_reserved(disk)
    return disk


def test_a_start_gives_back_what_a_crash_has_left():
    disk = killed()
    log = open_log(disk, SMALL)
    assert (log.end_offset, log.torn_tail) == (10, None)
    assert all(size == room for size, room in rooms(disk))


def test_a_start_behind_a_torn_tail_gives_back_both():
    disk = killed()
    path = LOG / segments(disk)[-1]
    files = Files(disk)
    file = files.open(path)
    end = file.stat().size
    file.pwrite(batch(10).data[:40], end)
    disk.kill()
    log = open_log(disk, SMALL)
    assert log.torn_tail is not None
    assert rooms(disk)[-1] == (end, end)


def test_a_start_reserves_again():
    """Not what was left: a crash may have put bytes there that no longer count."""
    disk = killed()
    cut: list[int] = []
    ftruncate = disk.ftruncate

    def watched(fd: int, length: int) -> None:
        ftruncate(fd, length)
        cut.append(rooms(disk)[-1][1])

    disk.ftruncate = watched
    log = open_log(disk)
    assert set(cut) == {rooms(disk)[-1][0]}
    assert is_reserved(disk)
    write(log, 10)
    assert is_reserved(disk)


def test_a_truncated_log_reserves_for_the_segment_that_it_then_ends_with():
    for end in (9, 1):
        disk = empty()
        log = open_log(disk)
        write(log, 10)
        before = len(segments(disk))
        log.truncate(Offset(end))
        assert (len(segments(disk)) < before) == (end == 1)
        assert is_reserved(disk)
        write(log, 10, epoch=2)
        assert is_reserved(disk)


def test_a_truncation_frees_the_room_also_where_there_is_too_little_to_reserve_it_again():
    disk = empty()
    log = open_log(disk, replace(RESERVING, free_bytes_kept=1 << 20))
    write(log, 2)
    disk.capacity_bytes = 1 << 20
    log.truncate(Offset(1))
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]
    before = disk.modifications
    assert not log.give_back()
    assert disk.modifications == before


def test_a_log_that_a_snapshot_replaces_reserves_too():
    disk = empty()
    log = open_log(disk)
    write(log, 10)
    log.reset(SnapshotId(Offset(50), Epoch(2)))
    assert rooms(disk) == [(0, ROOM)]


def test_a_batch_that_is_larger_than_a_segment_takes_its_room_as_before():
    disk = empty()
    log = open_log(disk)
    log.append([batch(0, size=3 * ROOM)])
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]
    disk.kill()
    log = open_log(disk)
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]
    assert not log.give_back()
    write(log, 1)
    assert is_reserved(disk)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_cannot_is_told_once_and_not_asked_again(number: int):
    disk, told = empty(), []
    disk.faults = [Fault("fallocate", number), Fault("fallocate", errno.EIO)]
    log = open_log(disk, replace(RESERVING, on_not_reserved=told.append))
    write(log, 30)
    log.close()
    assert len(told) == 1
    assert len(disk.faults) == 1
    assert all(size == room for size, room in rooms(disk))
    assert open_log(disk, SMALL).end_offset == 30


def test_too_little_room_is_told_until_there_is_some_and_appends_go_on():
    disk, told = empty(), []
    disk.capacity_bytes = 6000
    log = open_log(disk, replace(RESERVING, free_bytes_kept=5600, on_not_reserved=told.append))
    assert rooms(disk) == [(0, 0)]
    write(log, 10)
    assert len(rooms(disk)) > 2
    assert all(size == room for size, room in rooms(disk))
    (reason,) = told
    assert reason.endswith("bytes are free, 6000 are needed")
    disk.capacity_bytes = 20_000
    write(log, 10)
    assert is_reserved(disk)
    disk.capacity_bytes = 8000
    write(log, 10)
    assert len(told) == 2


@pytest.mark.parametrize("lacking", [0, 1])
def test_so_much_stays_free_as_is_to_be_kept(lacking: int):
    """Else a reservation by itself would make a disk low."""
    disk = empty()
    used = _used_by_an_empty_log()
    disk.capacity_bytes = used + ROOM + 1000 - lacking
    open_log(disk, replace(RESERVING, free_bytes_kept=1000))
    assert rooms(disk) == [(0, 0 if lacking else ROOM)]


def _used_by_an_empty_log() -> int:
    disk = empty()
    disk.capacity_bytes = 1 << 20
    log = open_log(disk, SMALL)
    return (1 << 20) - log._segments[0].file.free_bytes()


def test_what_is_there_already_counts_for_a_segment_that_goes_on():
    disk = empty()
    log = open_log(disk, SMALL)
    write(log, 2)
    log.close()
    disk.capacity_bytes = 1 << 20
    log = open_log(disk, SMALL)
    used = (1 << 20) - log._segments[0].file.free_bytes()
    log.close()
    disk.capacity_bytes = used + ROOM - log.size_bytes
    open_log(disk)
    assert is_reserved(disk)


def _partly(disk: FaultDisk, number: int) -> Callable[[int, int], None]:
    """Reserves all but a byte, and then finds no more room."""
    fallocate = disk.fallocate

    def partly(fd: int, length: int) -> None:
        fallocate(fd, length - 1)
        raise OSError(number, "as ext4 does")

    return partly


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_room_that_is_not_found_after_all_is_no_failure_and_none_of_it_is_kept(number: int):
    disk, told = empty(), []
    fallocate = disk.fallocate
    disk.fallocate = _partly(disk, number)
    log = open_log(disk, replace(RESERVING, on_not_reserved=told.append))
    assert rooms(disk) == [(0, 0)]
    write(log, 10)
    assert all(size == room for size, room in rooms(disk))
    assert len(told) == 1
    disk.fallocate = fallocate
    write(log, 5)
    assert is_reserved(disk)
    assert open_log(killed()).end_offset == 10


@pytest.mark.parametrize("call", ["fallocate", "fstatvfs"])
def test_a_disk_that_fails_on_it_ends_the_log(call: str):
    disk = empty()
    log = open_log(disk)
    disk.faults = [Fault(call)]
    with pytest.raises(FileOperationError) as raised:
        write(log, 10)
    assert raised.value.exit_code is ExitCode.STORAGE_FAILED
    modifications = disk.modifications
    for attempt in (log.flush, log.give_back, lambda: write(log, 1)):
        with pytest.raises(StorageFailedError):
            attempt()
    assert disk.modifications == modifications
    disk.kill()
    assert open_log(disk).torn_tail is None


def test_it_is_given_back_when_it_is_asked_for_and_the_next_segment_reserves_again():
    disk = empty()
    log = open_log(disk)
    write(log, 1)
    assert log.give_back()
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]
    before = disk.modifications
    assert not log.give_back()
    assert disk.modifications == before
    write(log, 1)
    assert rooms(disk) == [(log.size_bytes, log.size_bytes)]
    write(log, 10)
    assert is_reserved(disk)
    assert log.read(Offset(0), 1, Offset(12)) == batch(0).data


def test_nothing_is_given_back_in_the_middle_of_an_append():
    """It cuts the file where it ends."""
    disk = empty()
    log = open_log(disk)
    pwrite = disk.pwrite
    free: list[bool] = []

    def watched(fd: int, data: bytes | memoryview, position: int) -> int:
        free.append(log._write_lock.locked())
        return pwrite(fd, data, position)

    ftruncate = disk.ftruncate

    def cut(fd: int, length: int) -> None:
        free.append(log._write_lock.locked())
        ftruncate(fd, length)

    disk.pwrite, disk.ftruncate = watched, cut
    log.append([batch(0)])
    assert log.give_back()
    assert len(free) >= 2
    assert all(free)


def test_a_power_cut_at_every_call_loses_nothing_and_leaves_room_nowhere():
    """What is left is of the last segment, and the next start gives it back."""

    def live(disk: FaultDisk) -> None:
        log = open_log(disk)
        log.append([control(0, 1)])
        write(log, 8)
        log.give_back()
        write(log, 8)
        log.truncate(Offset(12))
        write(log, 8, epoch=2)
        log.close()
        write(open_log(disk), 3, epoch=2)

    disk = empty()
    live(disk)
    assert disk.modifications > 100
    for point in range(disk.modifications):
        disk = FaultDisk(random.Random(point))
        disk.make_directory(LOG)
        disk.cut_power_at = point
        with pytest.raises(PowerCutError):
            live(disk)
        disk.crash()
        log = open_log(disk)
        end = log.end_offset
        assert is_reserved(disk), point
        disk.kill()
        log = open_log(disk, SMALL)
        assert log.end_offset == end
        assert all(size == room for size, room in rooms(disk)), point


MIB = 1 << 20


def test_a_real_file_system_keeps_the_room_and_takes_it_back(tmp_path: Path) -> None:
    """`st_blocks` tells."""
    settings = LogSettings(segment_bytes=4 * MIB, preallocate=True)

    def taken() -> list[tuple[int, int]]:
        found = [path.stat() for path in sorted(tmp_path.glob("*.log"))]
        return [(one.st_size, one.st_blocks * 512) for one in found]

    log = Log.open(Files(), tmp_path, settings)
    log.append([batch(0, size=100_000)])
    log.flush()
    [(size, room)] = taken()
    assert size < 200_000
    assert room >= 4 * MIB
    assert (tmp_path / f"{0:020d}.log").read_bytes() == batch(0, size=100_000).data
    # A roll.
    log.append([batch(1, size=4 * MIB)])
    log.flush()
    [(size, room), (last_size, last_room)] = taken()
    assert room < size + MIB
    assert last_room >= last_size > 4 * MIB
    log.append([batch(2, size=100_000)])
    log.flush()
    assert taken()[-1][1] >= 4 * MIB
    log.give_back()
    size, room = taken()[-1]
    assert room < size + MIB
    log.close()
    log = Log.open(Files(), tmp_path, settings)
    assert taken()[-1][1] >= 4 * MIB
    # Another start, as after a kill: nothing was given back.
    log = Log.open(Files(), tmp_path, replace(settings, preallocate=False))
    size, room = taken()[-1]
    assert room < size + MIB
    assert (log.end_offset, log.torn_tail, log.rebuilt) == (3, None, ())
    log.close()
    # A clean stop.
    log = Log.open(Files(), tmp_path, settings)
    assert taken()[-1][1] >= 4 * MIB
    log.close()
    size, room = taken()[-1]
    assert room < size + MIB


def test_free_room_is_what_the_system_says(tmp_path: Path) -> None:
    file = Files().open(tmp_path / "a", create=True)
    assert abs(file.free_bytes() - shutil.disk_usage(tmp_path).free) < 64 * MIB
    file.close()
