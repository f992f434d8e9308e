"""A damaged snapshot gets another name: nothing of it is lost, and no start is left without one."""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import LOG, batch, control, new_log, reopen

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageError, StorageFailedError
from raftnode.logformat import SnapshotHead, SnapshotId, StateRecord
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.damaged_snapshots import (
    DAMAGED_SUFFIX,
    link_aside,
    list_damaged,
    rename_aside,
)
from raftnode.storage.snapshots.snapshot_file import write_snapshot
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage, Snapshots

FIRST = SnapshotId(Offset(25), Epoch(1))
LATER = SnapshotId(Offset(35), Epoch(1))
Put = Callable[[Snapshots, Log, SnapshotId], None]


def state(which: SnapshotId, value: bytes = b"v") -> list[StateRecord]:
    return [StateRecord(b"key %d" % n, value, Offset(n), Epoch(1)) for n in range(which.end_offset)]


def snapshots_of(disk: FaultDisk) -> Snapshots:
    return Snapshots(Files(disk), LOG, 2, lambda: None)


@cache
def image(*, trim: bool) -> object:
    """A log of 40 records and a snapshot, behind which it may have been trimmed."""
    disk, log = new_log()
    log.append([control(0, 1)])
    for offset in range(1, 40):
        log.append([batch(offset)])
    log.flush()
    write_snapshot(Files(disk), LOG, FIRST, SnapshotHead(), state(FIRST), now_ms=5)
    if trim:
        log.trim(log.trim_target(FIRST.end_offset, 0))
        assert log.start_offset > 0
    log.close()
    return disk.snapshot()


def opened(seed: int, *, trim: bool) -> tuple[FaultDisk, Log, Snapshots]:
    disk = FaultDisk(random.Random(seed))
    disk.restore(image(trim=trim))
    return disk, reopen(disk), snapshots_of(disk)


def trimmed(seed: int) -> tuple[FaultDisk, Log, Snapshots]:
    """A log that begins behind the only snapshot, of which a read has failed for once."""
    disk, log, snapshots = opened(seed, trim=True)
    found = SnapshotDamage(FIRST, "Input/output error", snapshots.now_s())
    assert snapshots.set_aside(found, log.start_offset)
    assert snapshots.ids() == [FIRST]
    return disk, log, snapshots


def make(snapshots: Snapshots, log: Log, which: SnapshotId) -> None:
    del log
    snapshots.write(which, SnapshotHead(), state(which), now_ms=6, pause=lambda: None)


def install(snapshots: Snapshots, log: Log, which: SnapshotId) -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(LOG)
    write_snapshot(Files(disk), LOG, which, SnapshotHead(), state(which), now_ms=6)
    snapshots.incoming.store(which, 0, disk.content(LOG / which.file_name))
    reader = snapshots.incoming.reader(which)
    assert list(reader.records()) == state(which)
    assert reader.snapshot is not None
    snapshots.install(log, reader.snapshot)


@pytest.mark.parametrize("which", [FIRST, LATER], ids=["same name", "another name"])
@pytest.mark.parametrize("put", [make, install])
def test_a_power_cut_at_any_call_leaves_a_state_to_start_from(put: Put, which: SnapshotId):
    taken: set[int] = set()
    for seed in range(3):
        for nth in range(300):
            disk, log, snapshots = trimmed(seed * 1000 + nth)
            before = disk.content(LOG / FIRST.file_name)
            disk.cut_power_at = disk.modifications + nth
            done = False
            with contextlib.suppress(PowerCutError):
                put(snapshots, log, which)
                done = True
            disk.crash()
            # The very file that was found damaged is there, by whichever name.
            names = {FIRST.file_name, FIRST.file_name + DAMAGED_SUFFIX}
            there = names & set(disk.listdir(str(LOG)))
            assert before in {disk.content(LOG / name) for name in there}
            kv, found = restore_state(snapshots_of(disk), reopen(disk))
            assert found is not None
            taken.add(found.snapshot_id.end_offset)
            assert len(kv) == found.snapshot_id.end_offset
            if done:
                assert found.snapshot_id == which
                break
        else:
            pytest.fail("it never ended")
        assert disk.content(LOG / (FIRST.file_name + DAMAGED_SUFFIX)) == before
        assert (disk.content(LOG / which.file_name) != before) or which != FIRST
    assert taken == {FIRST.end_offset, which.end_offset}


def test_a_start_between_marker_and_name_takes_no_rotten_file_for_the_fetched_one():
    """Not found damaged yet; nothing of the log may go for it."""
    outcomes: set[int] = set()
    for nth in range(300):
        disk, log, snapshots = opened(nth, trim=False)
        disk.flip_bit(LOG / FIRST.file_name, 200)
        disk.cut_power_at = disk.modifications + nth
        done = False
        with contextlib.suppress(PowerCutError):
            install(snapshots, log, FIRST)
            done = True
        disk.crash()
        again = reopen(disk)
        kv, _ = restore_state(snapshots_of(disk), again)
        assert again.start_offset in {0, kv.next_offset}
        outcomes.add(again.start_offset)
        if done:
            break
    assert outcomes == {0, FIRST.end_offset}


def test_one_that_is_linked_has_both_names_until_another_takes_its_own(tmp_path: Path):
    """On a real file system."""
    files, path = Files(), tmp_path / "a.checkpoint"
    aside = tmp_path / ("a.checkpoint" + DAMAGED_SUFFIX)
    path.write_bytes(b"damaged")
    link_aside(files, path)
    assert (path.read_bytes(), aside.read_bytes()) == (b"damaged", b"damaged")
    # A crash here, and the same once more.
    link_aside(files, path)
    assert path.stat().st_nlink == 2
    (tmp_path / "new").write_bytes(b"whole")
    (tmp_path / "new").rename(path)
    assert (path.read_bytes(), aside.read_bytes()) == (b"whole", b"damaged")


@pytest.mark.parametrize("linked", [False, True])
def test_one_that_is_renamed_loses_its_name_also_after_a_crash_between_two(
    tmp_path: Path, linked: bool
):
    files, path = Files(), tmp_path / "a.checkpoint"
    path.write_bytes(b"damaged")
    if linked:
        link_aside(files, path)
    rename_aside(files, path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.checkpoint" + DAMAGED_SUFFIX]
    # And one that is gone is nobody's loss.
    rename_aside(files, path)
    link_aside(files, path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.checkpoint" + DAMAGED_SUFFIX]


@pytest.mark.without(
    "storage.snapshots.damaged_snapshots:_freed", "and status.is_directory", "and False"
)
@pytest.mark.parametrize("aside_by", [rename_aside, link_aside])
def test_a_directory_of_the_other_name_stays_and_the_file_gets_a_number(aside_by):
    disk, log, _ = opened(1, trim=False)
    path = LOG / FIRST.file_name
    for suffix in (DAMAGED_SUFFIX, f"{DAMAGED_SUFFIX}-2"):
        disk.make_directory(path.with_name(path.name + suffix))
    content = disk.content(path)
    with contextlib.suppress(StorageError):
        aside_by(Files(disk), path)
    numbered = path.with_name(f"{path.name}{DAMAGED_SUFFIX}-3")
    assert numbered.name in disk.listdir(str(LOG))
    assert disk.content(numbered) == content
    assert list_damaged(Files(disk), LOG) == {FIRST: numbered}
    # It says what was committed like any other.
    log.truncate(Offset(20))
    with pytest.raises(StorageError, match="records were lost"):
        restore_state(snapshots_of(disk), log)


def test_what_only_looks_like_a_damaged_snapshot_says_nothing(tmp_path: Path):
    """On a real file system."""
    other = SnapshotId(Offset(10**6), Epoch(1)).file_name
    (tmp_path / (other + DAMAGED_SUFFIX)).mkdir()
    (tmp_path / (other + DAMAGED_SUFFIX + "-2")).symlink_to("nowhere")
    for name in ("x.damaged", ".damaged", f"{other}.damaged.damaged", f"{other}.damaged-0"):
        (tmp_path / name).write_bytes(b"x")
    assert list_damaged(Files(), tmp_path) == {}


def test_a_refusal_names_the_file_because_of_which_a_log_is_refused():
    disk, log, snapshots = opened(1, trim=False)
    assert snapshots.set_aside(SnapshotDamage(FIRST, "rot", snapshots.now_s()), Offset(0))
    log.truncate(Offset(20))
    with pytest.raises(StorageError, match=rf"{FIRST.file_name}{DAMAGED_SUFFIX} covers committed"):
        restore_state(snapshots_of(disk), log)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSPC])
def test_without_second_names_the_whole_one_takes_the_place_all_the_same(number: int):
    disk, log, snapshots = trimmed(1)
    before = disk.content(LOG / FIRST.file_name)
    disk.faults.append(Fault("link", number))
    make(snapshots, log, FIRST)
    assert not disk.faults
    assert disk.content(LOG / FIRST.file_name) != before
    assert FIRST.file_name + DAMAGED_SUFFIX not in disk.listdir(str(LOG))
    disk.crash()
    kv, _ = restore_state(snapshots_of(disk), reopen(disk))
    assert len(kv) == FIRST.end_offset


def test_a_disk_that_fails_a_link_ends_the_node():
    disk, log, snapshots = trimmed(1)
    disk.faults.append(Fault("link", errno.EIO))
    with pytest.raises(StorageFailedError, match=r"link of .* failed: Input/output error"):
        make(snapshots, log, FIRST)
    with pytest.raises(StorageError):
        snapshots._files.check()
