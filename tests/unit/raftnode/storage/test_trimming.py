"""A log that is trimmed behind a snapshot: what goes, in which order, what a start makes of it."""

from __future__ import annotations

import contextlib
import errno
import random
import threading

import pytest

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageCorruptError, StorageFailedError
from raftnode.logformat import SnapshotHead, SnapshotId, decode_batches
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import LogReader, find_log
from raftnode.storage.inspection.verification import Verification
from raftnode.storage.log.checkpoints import LOG_START_FILE, read_log_start, write_log_start
from raftnode.storage.log.log import Log, OffsetOutsideError
from raftnode.storage.snapshots.snapshot_file import write_snapshot

from .conftest import LOG, batch, control, new_log, reopen, segments

pytestmark = pytest.mark.rule("P48")


def filled(seed: int = 0, count: int = 40) -> tuple[FaultDisk, Log]:
    """Four epochs of ten records each, three or so in a segment, the first a control record."""
    disk, log = new_log(seed)
    for offset in range(count):
        epoch = offset // 10 + 1
        log.append([control(offset, epoch) if offset % 10 == 0 else batch(offset, epoch)])
    log.flush()
    return disk, log


def covered(disk: FaultDisk, end: int) -> None:
    """A snapshot beside it."""
    which = SnapshotId(Offset(end), Epoch((end - 1) // 10 + 1))
    write_snapshot(Files(disk), LOG, which, SnapshotHead(), [], now_ms=5)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log._segments]


def offsets(log: Log) -> list[int]:
    found, at = [], log.start_offset
    while at < log.end_offset:
        read = decode_batches(log.read(at, 1 << 20, log.end_offset))
        found += [one.base_offset for one in read]
        at = read[-1].end_offset
    return found


def findings(disk: FaultDisk) -> list[str]:
    files = Files(disk)
    return [str(finding) for finding in Verification(files, find_log(files, LOG)).run()]


def test_a_start_that_no_snapshot_reaches_is_damage_and_removes_nothing():
    """The file has no checksum: a flipped bit can name the base of another segment."""
    disk, log = filled()
    target = log.trim_target(Offset(25), 0)
    covered(disk, 25)
    log.trim(target)
    log.close()
    later = min(base for base in map(int, (name[:20] for name in segments(disk))) if base > 25)
    write_log_start(Files(disk), LOG / LOG_START_FILE, Offset(later))
    before = segments(disk)
    with pytest.raises(
        StorageCorruptError, match=f"begins at {later}.*snapshots reach only up to 25"
    ):
        reopen(disk)
    assert segments(disk) == before


def test_what_is_below_goes_and_the_rest_stays_over_a_start():
    disk, log = filled()
    target = log.trim_target(Offset(25), 0)
    assert 20 < target <= 25
    log.trim(target)
    assert log.start_offset == target
    assert offsets(log) == list(range(target, 40))
    assert min(int(name[:20]) for name in segments(disk)) == target
    assert [entry.epoch for entry in log.epochs] == [3, 4]
    with pytest.raises(OffsetOutsideError) as outside:
        log.read(Offset(target - 1), 100, log.end_offset)
    assert outside.value.start_offset == target
    log.append([batch(40, 4)])
    log.append([control(41, 7)])
    log.flush()
    covered(disk, 25)
    assert findings(disk) == []
    disk.crash()
    again = reopen(disk)
    assert offsets(again) == list(range(target, 42))
    assert again.rebuilt == ()
    # The epoch of the record before the start is known still: a fetcher may end there.
    assert [(e.epoch, e.start_offset) for e in again.epochs] == [(3, 20), (4, 30), (7, 41)]
    assert [one.base_offset for one in again.recovered] == [30, 41]
    assert findings(disk) == []


@pytest.mark.parametrize(("below", "keep", "most"), [(0, 0, 0), (25, 0, 25), (40, 10**9, 0)])
def test_target_is_a_segment_that_is_covered_and_leaves_what_is_to_be_kept(below, keep, most):
    _, log = filled()
    target = log.trim_target(Offset(below), keep)
    assert target in bases(log)
    assert target <= most
    following = [base for base in bases(log) if target < base <= below]
    if not keep:
        assert following == []


def test_target_counts_bytes_from_the_end():
    _, log = filled()
    sizes = {segment.base_offset: segment.size for segment in log._segments}
    for keep in range(0, sum(sizes.values()), 97):
        target = log.trim_target(Offset(40), keep)
        kept = sum(size for base, size in sizes.items() if base >= target)
        assert kept >= keep
        later = [base for base in sizes if base > target]
        if later:
            assert sum(size for base, size in sizes.items() if base >= later[0]) < keep


def test_a_trim_that_a_start_finishes_is_told():
    disk, log = filled()
    covered(disk, 25)
    target = log.trim_target(Offset(25), 0)
    log.close()
    write_log_start(Files(disk), LOG / LOG_START_FILE, target)
    again = reopen(disk)
    assert (again.trimmed_from, again.start_offset) == (0, target)
    again.close()
    assert reopen(disk).trimmed_from is None


def test_the_segment_that_grows_stays():
    disk, log = filled()
    target = log.trim_target(Offset(40), 0)
    assert target == bases(log)[-1]
    log.trim(target)
    log.append([batch(40, 4)])
    log.flush()
    covered(disk, 40)
    disk.crash()
    assert offsets(reopen(disk)) == list(range(target, 41))


def test_an_offset_at_which_no_segment_begins_is_refused_and_nothing_goes():
    disk, log = filled()
    before = segments(disk)
    with pytest.raises(ValueError, match="no segment begins"):
        log.trim(Offset(bases(log)[2] + 1))
    log.trim(log.start_offset)
    assert segments(disk) == before


def test_truncation_after_a_trim_keeps_the_places_of_control_batches():
    disk, log = filled()
    log.trim(log.trim_target(Offset(15), 0))
    start = log.start_offset
    log.truncate(Offset(30))
    log.append([control(30, 9)])
    log.flush()
    covered(disk, 15)
    assert findings(disk) == []
    disk.crash()
    again = reopen(disk)
    assert again.rebuilt == ()
    assert [one.base_offset for one in again.recovered] == [20, 30]
    assert again.start_offset == start


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_every_call_of_a_trim_loses_nothing_that_is_to_stay(seed: int):
    starts: set[int] = set()
    for nth in range(200):
        disk, log = filled(seed * 1000 + nth)
        covered(disk, 25)
        target = log.trim_target(Offset(25), 0)
        disk.cut_power_at = disk.modifications + nth
        done = False
        with contextlib.suppress(PowerCutError):
            log.trim(target)
            done = True
        disk.crash()
        # Recovery is cut too before it is let through.
        disk.cut_power_at = disk.modifications + nth % 5
        with contextlib.suppress(PowerCutError):
            reopen(disk)
        disk.crash()
        again = reopen(disk)
        assert again.trimmed_from is None or again.trimmed_from < again.start_offset == target
        assert again.start_offset in {0, target}
        assert offsets(again) == list(range(again.start_offset, 40))
        assert again.rebuilt == ()
        assert findings(disk) == []
        left = {name for name in disk.listdir(str(LOG)) if name[:20].isdigit()}
        logs = {name[:20] for name in left if name.endswith(".log")}
        assert {name[:20] for name in left if "index" in name} == logs
        starts.add(again.start_offset)
        if done:
            break
    else:
        pytest.fail("it never ended")
    assert starts == {0, target}


def test_a_first_segment_that_is_missing_is_no_trim():
    disk, log = filled()
    first = segments(disk)[0]
    log.close()
    disk.remove(LOG / first)
    with pytest.raises(StorageCorruptError, match=rf"{first} is missing"):
        reopen(disk)
    assert any("is missing" in one or "begins at" in one for one in findings(disk))


def test_epochs_that_are_missing_are_not_made_up_in_a_trimmed_log():
    disk, log = filled()
    log.trim(log.trim_target(Offset(35), 0))
    log.close()
    disk.remove(LOG / "leader-epoch-checkpoint")
    with pytest.raises(StorageCorruptError, match="leader-epoch-checkpoint"):
        reopen(disk)


def test_verify_wants_a_snapshot_that_reaches_the_start():
    disk, log = filled()
    log.trim(log.trim_target(Offset(25), 0))
    covered(disk, 10)
    assert any("no snapshot reaches that offset" in one for one in findings(disk))
    covered(disk, 25)
    assert findings(disk) == []


def test_a_tool_goes_on_behind_segments_that_were_trimmed_since_it_looked():
    disk, log = filled()
    files = Files(disk)
    listed = find_log(files, LOG)
    covered(disk, 25)
    log.trim(log.trim_target(Offset(25), 0))
    read = [found.header.base_offset for _, found in LogReader(files, listed).batches()]
    assert read == list(range(log.start_offset, 40))
    assert [str(one) for one in Verification(files, listed).run()] == []


@pytest.mark.parametrize("call", ["unlink", "rename", "fsync"])
def test_a_failing_disk_ends_the_log(call: str):
    disk, log = filled()
    disk.faults.append(Fault(call, errno.EIO))
    with pytest.raises(StorageFailedError):
        log.trim(log.trim_target(Offset(25), 0))
    with pytest.raises(StorageFailedError):
        log.append([batch(40, 4)])


def test_readers_and_writers_go_on_while_the_log_is_trimmed():
    _, log = filled(count=60)
    stop, problems = threading.Event(), []

    def read() -> None:
        rng = random.Random(1)
        while not stop.is_set():
            try:
                at = rng.randrange(log.start_offset, 60)
                data = decode_batches(log.read(Offset(at), 300, log.end_offset))
                assert data[0].base_offset == at
            except OffsetOutsideError:
                pass  # trimmed between the two looks
            except Exception as error:  # noqa: BLE001
                problems.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number, base in enumerate(bases(log)[1:-1]):
        log.trim(Offset(base))
        log.append([batch(60 + number, 6)])
        log.flush()
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert log._dropped == []  # closed, so that their room is free


@pytest.mark.without(
    "storage.log.checkpoints:write_log_start",
    "write_recovery_point(files, path, offset)",
    "write_recovery_point(files, path, FIRST_OFFSET)",
)
def test_the_checkpoint_is_kafkas_text():
    disk, log = filled()
    target = log.trim_target(Offset(25), 0)
    log.trim(target)
    path = LOG / LOG_START_FILE
    assert disk.content(path) == f"0\n1\n__cluster_metadata 0 {target}\n".encode()
    assert read_log_start(Files(disk), path) == target
    disk.overwrite(path, b"0\n1\n__cluster_metadata 0 x\n")
    with pytest.raises(StorageCorruptError):
        reopen(disk)


def test_a_reader_whose_index_goes_as_it_is_opened_reads_on(monkeypatch: pytest.MonkeyPatch):
    """The look and the opening are two calls, and a trim on another thread may come between."""
    disk, _ = filled()
    disk.crash()
    log = reopen(disk)
    first = LOG / f"{0:020d}.index"
    opened = disk.open

    def open_late(path: str, flags: int, mode: int) -> int:
        if path == str(first) and disk.listdir(str(LOG)).count(first.name):
            log.trim(log.trim_target(Offset(25), 0))
        return opened(path, flags, mode)

    monkeypatch.setattr(disk, "open", open_late)
    read = decode_batches(log.read(Offset(1), 100, log.end_offset))
    assert read[0].base_offset == 1
    assert log.start_offset > 20
    log.append([batch(40, 4)])
    assert log.flush() == 41
