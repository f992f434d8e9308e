"""A disk without room for a snapshot: it is told, looked for again, and costs nothing else."""

from __future__ import annotations

import errno

import pytest
from tests.unit.raftnode.runtime.conftest import DIRECTORY, folded, names

from proofkit.faultdisk import Fault
from raftnode.errors import StorageFailedError
from raftnode.runtime.disk.disk_room import make_room
from raftnode.runtime.snapshots import snapshotter
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.runtime.snapshots.snapshotter import SnapshotLimits
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings


async def test_missing_room_is_told_and_looked_for_with_pauses(make, monkeypatch):
    now = [0.0]
    rig = make(limits=SnapshotLimits(1, 0, 500), free=1000)
    monkeypatch.setattr(rig.taker._room, "_now_s", lambda: now[0])
    await rig.write(10)
    size = rig.applier.kv.size_bytes + 10 * snapshotter._RECORD_OVERHEAD_BYTES
    assert await rig.taker.take() is None
    missing = size + 1000 - 1000
    assert rig.disk.info().snapshot_room_missing_bytes == missing
    assert rig.metrics.snapshot_room_missing_bytes._value.get() == missing
    pauses = []
    for _ in range(7):
        assert not rig.taker.is_due()
        began = now[0]
        while not rig.taker.is_due():
            now[0] += 0.5
        pauses.append(now[0] - began)
        assert await rig.taker.take() is None
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    rig.free = 1 << 40
    now[0] += 30
    assert rig.taker.is_due()
    assert await rig.taker.take() is not None
    assert rig.disk.info().snapshot_room_missing_bytes == 0
    assert rig.metrics.snapshot_room_missing_bytes._value.get() == 0
    await rig.write(10)
    assert rig.taker.is_due()


async def test_where_it_lets_the_log_go_it_may_use_half_of_the_reserve(make):
    for retention, margin in ((-1, 200_000), (0, 50_000)):
        rig = make(limits=SnapshotLimits(1, 0, 100_000, retention_bytes=retention))
        await rig.write(10)
        kv = rig.applier.kv
        size = kv.size_bytes + len(kv) * snapshotter._RECORD_OVERHEAD_BYTES
        rig.free = size + margin - 1
        assert await rig.taker.take() is None
        assert rig.disk.info().snapshot_room_missing_bytes == 1
        rig.free = size + margin
        assert await rig.taker.take() is not None


async def test_a_low_disk_makes_one_due_where_the_log_goes_behind_it(make):
    interval_s = snapshotter.PRESSING_INTERVAL_MS / 1000
    for retention, due in ((-1, False), (0, True)):
        rig = make(limits=SnapshotLimits(1 << 40, 0, 0, retention_bytes=retention))
        await rig.write(10)
        rig.taker._taken_at -= interval_s
        assert not rig.taker.is_due()
        rig.disk.low = True
        assert rig.taker.is_due() is due
    assert await rig.taker.take() is not None
    assert not rig.taker.is_due()
    await rig.write(10)
    assert not rig.taker.is_due()  # not again and again
    rig.taker._taken_at -= interval_s
    assert rig.taker.is_due()


@pytest.mark.parametrize("call", ["pwrite", "fsync", "create"])
async def test_room_that_goes_while_it_is_written_costs_the_snapshot_alone(make, storage, call):
    rig = make(limits=SnapshotLimits(1, 0, 0))
    await rig.write(60)
    storage.disk.faults.append(Fault(call, errno.ENOSPC, path_part=".checkpoint.part"))
    assert await rig.taker.take() is None
    assert storage.disk.faults == []
    assert [
        name for name in names(storage.disk) if "checkpoint" in name and "offset" not in name
    ] == ["leader-epoch-checkpoint"]
    assert rig.disk.info().snapshot_room_missing_bytes > 0
    # The log goes on, and so does the store.
    await rig.write(5)
    made = await rig.taker.take()
    assert made.snapshot_id.end_offset == 65
    kv, _ = restore_state(rig.snapshots, storage.log)
    assert kv.state_hash() == folded(storage.log, 65).state_hash()


async def test_a_failing_disk_still_ends_it(make, storage):
    rig = make()
    await rig.write(60)
    storage.disk.faults.append(Fault("pwrite", errno.EIO, path_part=".checkpoint.part"))
    with pytest.raises(StorageFailedError):
        await rig.taker.take()
    assert rig.files.failure is not None


RESERVING = LogSettings(segment_bytes=1 << 20, preallocate=True)


async def test_what_the_log_has_reserved_makes_room_for_a_snapshot(
    make, storage, tmp_path, monkeypatch, unreserved
):
    storage.log.close()
    storage.log = Log.open(Files(storage.disk), DIRECTORY, RESERVING)
    file = storage.log._segments[-1].file
    rig = make(limits=SnapshotLimits(1, 0, 500))
    unreserved(lambda: rig.free, file)
    monkeypatch.setattr(
        rig.taker._room,
        "_free_bytes",
        lambda wanted: make_room(tmp_path, wanted, storage.log).free_bytes,
    )
    await rig.write(10)
    size = rig.applier.kv.size_bytes + 10 * snapshotter._RECORD_OVERHEAD_BYTES
    reserved = file.stat().spare_bytes
    assert reserved > 1 << 19
    # Enough beside it: the log keeps what it has.
    rig.free = reserved + size + 1000
    assert await rig.taker.take() is not None
    assert file.stat().spare_bytes == reserved
    await rig.write(1)
    rig.free = size + 2000
    assert await rig.taker.take() is not None
    assert file.stat().spare_bytes == 0
    assert rig.disk.info().snapshot_room_missing_bytes == 0
