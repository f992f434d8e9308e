"""A start begins with the newest snapshot that can be read, or refuses what lost something."""

from __future__ import annotations

import errno

import pytest
from tests.unit.raftnode.runtime.conftest import DIRECTORY, Trimmed, folded, names

from proofkit.faultdisk import Fault
from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageCorruptError, StorageFailedError
from raftnode.logformat import SnapshotId
from raftnode.runtime.snapshots.restore import covered_end, restore_state
from raftnode.storage.files import Files
from raftnode.storage.snapshots.damaged_snapshots import DAMAGED_SUFFIX
from raftnode.storage.snapshots.snapshot_store import Snapshots


async def test_a_start_from_a_snapshot_gives_the_state_of_the_log(make, storage):
    rig = make()
    await rig.write(120)
    made = await rig.taker.take()
    assert (made.snapshot_id, made.records) == (SnapshotId(Offset(120), Epoch(1)), 50)
    await rig.write(7)
    storage.log.flush()
    kv, found = restore_state(
        Snapshots(Files(storage.disk), DIRECTORY, 2, lambda: None), storage.log
    )
    assert (found.snapshot_id, kv.next_offset) == (made.snapshot_id, 120)
    assert kv.state_hash() == folded(storage.log, 120).state_hash()
    again = make()
    await again.apply(Offset(127))
    assert again.applier.kv.state_hash() == rig.applier.kv.state_hash()


async def test_a_damaged_one_is_set_aside_and_the_older_one_taken(make, storage):
    rig = make()
    await rig.take_two()
    newest = DIRECTORY / rig.snapshots.ids()[-1].file_name
    storage.disk.flip_bit(newest, 200)
    again = make()
    assert again.applier.kv.next_offset == 10
    assert again.taker.last.snapshot_id.end_offset == 10
    assert newest.name + DAMAGED_SUFFIX in names(storage.disk)
    storage.disk.flip_bit(DIRECTORY / again.snapshots.ids()[0].file_name, 100)
    third = make()
    assert (third.applier.kv.next_offset, third.taker.last) == (0, None)
    await third.apply(Offset(20))
    assert third.applier.kv.state_hash() == rig.applier.kv.state_hash()


@pytest.mark.parametrize("start", [11, 15])
async def test_a_log_that_does_not_reach_back_to_a_whole_one_is_refused(make, storage, start):
    rig = make()
    await rig.take_two()
    storage.disk.flip_bit(DIRECTORY / rig.snapshots.ids()[-1].file_name, 200)
    with pytest.raises(StorageCorruptError, match=f"begins at offset {start}"):
        restore_state(rig.snapshots, Trimmed(storage.log, start))
    kv, _ = restore_state(rig.snapshots, Trimmed(storage.log, 10))
    assert kv.next_offset == 10


def unreadable(storage, one: SnapshotId, nth: int = 1) -> None:
    storage.disk.faults.append(Fault("pread", errno.EIO, nth, path_part=one.file_name))


@pytest.mark.parametrize("start", [0, 10])
async def test_a_newest_one_that_cannot_be_read_costs_a_start_nothing(make, storage, start):
    rig = make()
    await rig.take_two()
    await rig.write(3)
    older, newest = rig.snapshots.ids()
    unreadable(storage, newest)
    files = Files(storage.disk)
    log = Trimmed(storage.log, start)
    kv, last = restore_state(Snapshots(files, DIRECTORY, 2, lambda: None), log)
    assert storage.disk.faults == []
    assert (kv.next_offset, last.snapshot_id) == (10, older)
    assert files.failure is None
    assert newest.file_name + DAMAGED_SUFFIX in names(storage.disk)
    # What the log says behind it makes the same state, and says so.
    again = make()
    await again.apply(Offset(23))
    assert again.applier.kv.state_hash() == rig.applier.kv.state_hash()


async def test_none_that_can_be_read_and_the_log_is_whole(make, storage):
    rig = make()
    await rig.take_two()
    for one in rig.snapshots.ids():
        unreadable(storage, one)
    again = make()
    assert (again.applier.kv.next_offset, again.taker.last) == (0, None)
    assert len(again.disk.info().damage) == 2
    await again.apply(Offset(20))
    assert again.applier.kv.state_hash() == rig.applier.kv.state_hash()


@pytest.mark.parametrize("start", [11, 20])
async def test_one_that_alone_reaches_the_log_and_cannot_be_read_ends_the_start(
    make, storage, start
):
    """The disk may read it at the next start: nothing is renamed, nothing quarantined."""
    rig = make()
    await rig.take_two()
    newest = rig.snapshots.ids()[-1]
    before = names(storage.disk)
    unreadable(storage, newest)
    with pytest.raises(StorageFailedError, match="Input/output error"):
        restore_state(rig.snapshots, Trimmed(storage.log, start))
    assert names(storage.disk) == before
    kv, _ = restore_state(rig.snapshots, Trimmed(storage.log, start))
    assert kv.next_offset == 20


async def test_one_that_cannot_be_read_still_says_what_the_log_must_hold(make, storage):
    """An older one and a log that ends too early would be less than was committed."""
    rig = make()
    await rig.take_two()
    storage.log.truncate(Offset(15))
    unreadable(storage, rig.snapshots.ids()[-1])
    with pytest.raises(StorageCorruptError, match="records were lost"):
        restore_state(rig.snapshots, storage.log)


async def test_one_that_is_damaged_still_says_how_far_all_was_committed(make, storage):
    rig = make()
    assert covered_end(rig.snapshots) == 0
    await rig.take_two()
    unreadable(storage, rig.snapshots.ids()[-1])
    start = Snapshots(Files(storage.disk), DIRECTORY, 2, lambda: None)
    assert covered_end(start) == 20
    kv, _ = restore_state(start, storage.log)
    assert kv.next_offset == 10
    assert any(name.endswith(".damaged") for name in names(storage.disk))
    later = Snapshots(Files(storage.disk), DIRECTORY, 2, lambda: None)
    assert len(later.ids()) == 1
    assert covered_end(later) == 20
    storage.log.truncate(Offset(15))
    with pytest.raises(StorageCorruptError, match="records were lost"):
        restore_state(later, storage.log)


async def test_want_of_descriptors_at_a_start_is_no_damage(make, storage):
    rig = make()
    await rig.write(10)
    newest = (await rig.taker.take()).snapshot_id
    storage.disk.faults.append(Fault("open", errno.EMFILE, path_part=newest.file_name))
    with pytest.raises(StorageFailedError, match="Too many open files"):
        restore_state(rig.snapshots, storage.log)
    assert rig.snapshots.ids() == [newest]


async def test_a_log_that_lacks_what_a_snapshot_covers_is_refused(make, storage):
    rig = make()
    await rig.write(10)
    await rig.taker.take()
    storage.log.truncate(Offset(9))
    with pytest.raises(StorageCorruptError, match="records were lost"):
        restore_state(rig.snapshots, storage.log)
    other = storage.batch(b"other", epoch=2)
    storage.log.append([other])
    with pytest.raises(StorageCorruptError, match="has epoch 2 there"):
        restore_state(rig.snapshots, storage.log)
