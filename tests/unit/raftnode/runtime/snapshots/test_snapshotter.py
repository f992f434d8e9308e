"""Snapshots are taken beside the node and hold what was applied; damaged ones are made again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import threading
import uuid

import pytest
from structlog.testing import capture_logs
from tests.unit.raftnode.runtime.conftest import (
    DIRECTORY,
    LONG_S,
    Rig,
    Trimmed,
    folded,
    names,
    until,
)

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.core.events import SnapshotLost
from raftnode.core.log_head import LogHead
from raftnode.core.types import (
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
)
from raftnode.errors import StorageFailedError, StorageLostError
from raftnode.logformat import SnapshotHead, SnapshotId, StateRecord
from raftnode.runtime.process import pause
from raftnode.runtime.process.pause import Pause
from raftnode.runtime.snapshots import snapshotter
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.runtime.snapshots.snapshotter import SnapshotLimits
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.files import Files
from raftnode.storage.snapshots import snapshot_file as snapshot_module
from raftnode.storage.snapshots.damaged_snapshots import DAMAGED_SUFFIX
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage, Snapshots


async def test_what_is_written_meanwhile_is_not_in_it(make, storage, monkeypatch):
    go, begun = threading.Event(), threading.Event()

    class Slow(Pause):
        def __call__(self, seconds: float | None = None) -> None:
            begun.set()
            assert go.wait(LONG_S)

    monkeypatch.setattr(snapshot_module, "_BATCH_RECORDS", 10)
    rig = make()
    rig.taker._pause = Slow()
    await rig.write(60)
    taking = asyncio.get_running_loop().create_task(rig.taker.take())
    await until(begun.is_set)
    await rig.write(40, size=3)
    storage.append(None, key=b"key 49")
    storage.append(b"x", key=b"another")
    await rig.write(1)
    assert not taking.done()
    go.set()
    made = await taking
    assert made.snapshot_id.end_offset == 60
    kv, _ = restore_state(rig.snapshots, storage.log)
    assert kv.state_hash() == folded(storage.log, 60).state_hash()
    assert rig.applier.kv.state_hash() == folded(storage.log, 103).state_hash()
    assert len(rig.applier.kv) == 50
    await rig.write(1)
    assert (await rig.taker.take()).snapshot_id.end_offset == 104


async def test_it_ends_between_two_batches(make, storage):
    rig = make()
    storage.append(*[b"v"] * 20_000)
    rig.applier.committed(Offset(20_000), Offset(20_000))
    await until(lambda: rig.applier.kv.next_offset > 0)
    assert rig.applier.kv.next_offset < 20_000
    made = await rig.taker.take()
    assert made.snapshot_id.end_offset == 20_000


async def test_due_by_bytes_and_by_age_and_never_without_anything_new(make):
    rig = make(limits=SnapshotLimits(5000, 0, 0))
    assert not rig.taker.is_due()
    await rig.write(10)
    assert not rig.taker.is_due()
    await rig.write(40)
    assert rig.taker.is_due()
    await rig.taker.take()
    assert not rig.taker.is_due()
    aged = make(limits=SnapshotLimits(1 << 40, 1, 0))
    await asyncio.sleep(0.01)
    assert not aged.taker.is_due()
    await aged.write(1)
    assert aged.taker.is_due()


async def test_a_large_state_is_not_written_over_and_over(make):
    rig = make(limits=SnapshotLimits(1, 0, 0))
    await rig.write(50, size=1000)
    made = await rig.taker.take()
    assert made.size > 100_000
    await rig.write(5)
    assert not rig.taker.is_due()
    await rig.write(50, size=1000)
    assert rig.taker.is_due()


async def test_without_room_none_is_taken_and_the_node_goes_on(make):
    rig = make(free=1000)
    await rig.write(10)
    assert await rig.taker.take() is None
    assert rig.snapshots.ids() == []
    rig.free = 1 << 40
    assert await rig.taker.take() is not None


async def test_the_task_takes_them(make, monkeypatch):
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.001)
    rig = make(limits=SnapshotLimits(100, 0, 0))
    rig.tasks.append(asyncio.get_running_loop().create_task(rig.taker.run()))
    async with asyncio.timeout(LONG_S):
        for end in (30, 130, 330, 730):
            await rig.write(end - rig.last_end)
            await until(lambda end=end: rig.last_end == end)
    assert [one.end_offset for one in rig.snapshots.ids()] == [330, 730]


async def test_a_failing_disk_ends_the_task(make, storage, monkeypatch):
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.001)
    rig = make(limits=SnapshotLimits(100, 0, 0))
    await rig.write(30)
    storage.disk.faults.append(Fault("pwrite", errno.EIO, path_part=".checkpoint.part"))
    with pytest.raises(StorageFailedError):
        await rig.taker.run()


async def test_a_stop_gives_up_and_leaves_none(make, storage, monkeypatch):
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(pause, "PAUSE_S", 0.3)
    monkeypatch.setattr(snapshot_module, "_BATCH_RECORDS", 10)
    rig = make(limits=SnapshotLimits(100, 0, 0))
    await rig.write(30)
    running = asyncio.get_running_loop().create_task(rig.taker.run())
    await until(lambda: any(name.endswith(".part") for name in names(storage.disk)))
    await asyncio.to_thread(rig.taker.close)
    await running
    assert not any("checkpoint." in name for name in names(storage.disk))
    assert rig.snapshots.ids() == []


async def test_an_older_one_goes_only_when_enough_are_known_whole(make, storage):
    rig = make()
    for _ in range(4):
        await rig.write(10)
        await rig.taker.take()
    assert [one.end_offset for one in rig.snapshots.ids()] == [30, 40]
    again = make()
    await again.write(10)
    assert [one.end_offset for one in again.snapshots.ids()] == [30, 40]
    await again.taker.take()
    # 30 was not read at this start: what is kept are two that are known whole.
    assert [one.end_offset for one in again.snapshots.ids()] == [40, 50]


async def test_none_goes_before_as_many_as_are_kept_are_known_whole(make, storage):
    rig = make()
    rig.snapshots._retained = 3
    for _ in range(3):
        await rig.write(10)
        await rig.taker.take()
    again = make()
    again.snapshots._retained = 3
    for expected in ([10, 20, 30, 40], [30, 40, 50]):
        await again.write(10)
        await again.taker.take()
        assert [one.end_offset for one in again.snapshots.ids()] == expected


async def test_an_unfinished_one_is_removed(make, storage):
    path = DIRECTORY / (SnapshotId(Offset(5), Epoch(1)).file_name + ".part")
    Files(storage.disk).open(path, create=True).close()
    make()
    assert path.name not in names(storage.disk)


@pytest.mark.rule("S4")
async def test_another_directory_is_not_written_to(storage):
    def lost() -> None:
        raise StorageLostError("gone")

    rig = Rig(storage)
    await rig.write(10)
    rig.snapshots._before_write = lost
    with pytest.raises(StorageLostError):
        await rig.taker.take()
    assert rig.snapshots.ids() == []
    await rig.close()


def test_a_power_cut_at_any_call_leaves_the_last_one_whole() -> None:
    """Whatever is taken away goes only once a newer one is durable."""
    outcomes = set()
    for seed in range(4):
        for nth in range(200):
            disk = FaultDisk(random.Random(seed * 1000 + nth))
            disk.make_directory(DIRECTORY)
            durable = 0

            def take(snapshots: Snapshots, end: int) -> None:
                entries = [StateRecord(b"k", b"v%d" % end, Offset(0), Epoch(1))]
                which = SnapshotId(Offset(end), Epoch(1))
                snapshots.write(which, SnapshotHead(), entries, now_ms=1, pause=lambda: None)

            disk.cut_power_at = nth
            with contextlib.suppress(PowerCutError):
                snapshots = Snapshots(Files(disk), DIRECTORY, 1, lambda: None)
                for end in (1, 2, 3):
                    take(snapshots, end)
                    durable = end
            disk.crash()
            if durable == 3:
                break
            found = Snapshots(Files(disk), DIRECTORY, 1, lambda: None)
            assert not any(name.endswith(".part") for name in names(disk))
            for one in found.ids():
                assert [r.value for r in found.reader(one).records()] == [b"v%d" % one.end_offset]
            newest = max((one.end_offset for one in found.ids()), default=0)
            assert durable <= newest <= durable + 1
            outcomes.add(newest - durable)
        else:
            pytest.fail("it never ended")
    assert outcomes == {0, 1}


def fetched(end: int, epoch: int) -> LogHead:
    """What a snapshot from the leader says."""
    voter = Voter(ReplicaKey(NodeId(1), uuid.UUID(int=1)))
    place = LogPosition(Epoch(epoch), Offset(end))
    return LogHead(place, VoterSet.of([voter]), VoterRecordId(Offset(1), Epoch(1)), 2, True)


async def test_none_is_taken_of_a_state_that_the_core_has_left_for_a_fetched_one(make, storage):
    """The log's index is the snapshot's at once, the state only when it is in place."""
    rig = make()
    await rig.write(10)
    rig.index.install(fetched(500, 3))
    before = names(storage.disk)
    assert await rig.taker.take() is None
    assert (names(storage.disk), rig.last_end) == (before, 0)


async def test_none_is_taken_of_a_state_that_is_replaced_meanwhile(make, storage, monkeypatch):
    rig = make()
    await rig.write(10)

    def look(_: int) -> int:
        rig.index.install(fetched(500, 3))
        rig.applier.kv = KeyValueStore.restore(Offset(500), [])
        return 1 << 40

    monkeypatch.setattr(rig.taker._room, "_free_bytes", look)
    before = names(storage.disk)
    assert await rig.taker.take() is None
    assert names(storage.disk) == before


# -- a snapshot that is found damaged ----------------------------------------------------


def run_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.001)
    rig.tasks.append(asyncio.get_running_loop().create_task(rig.taker.run()))


def damage(rig: Rig, one: SnapshotId, problem: str = "rotten") -> SnapshotDamage:
    """As a reader finds it now."""
    return SnapshotDamage(one, problem, rig.snapshots.now_s())


def say_who_votes(rig: Rig) -> None:
    """Else none of its snapshots may stand for the log."""
    record = VoterRecordId(Offset(0), Epoch(1))
    rig.index._begin_with(LogHead(LogPosition(Epoch(1), Offset(1)), VoterSet(), record, 2, True))


async def test_a_damaged_newest_one_is_set_aside_and_made_again_at_once(make, storage, monkeypatch):
    rig = make()
    say_who_votes(rig)
    await rig.write(30)
    first = await rig.taker.take()
    await rig.write(30)
    second = (await rig.taker.take()).snapshot_id
    before = storage.disk.content(DIRECTORY / second.file_name)
    storage.disk.flip_bit(DIRECTORY / second.file_name, 300, 1)
    found = rig.snapshots.damage_of(second, lambda: None)
    assert found is not None
    run_it(rig, monkeypatch)
    rig.taker.damaged(found)
    # Nothing new was written: the same state at the same place, the same bytes.
    await until(lambda: len(rig.taken) == 3)
    assert second.file_name + DAMAGED_SUFFIX in names(storage.disk)
    assert storage.disk.content(DIRECTORY / second.file_name) == before
    assert rig.snapshots.ids() == [first.snapshot_id, second]
    assert rig.last_end == 60
    assert rig.taken[2].snapshot.end_offset == 60
    # The disk is corrupt all the same.
    assert rig.disk.info().damage == (found.problem,)
    assert rig.metrics.storage_damaged._value.get() == 1
    assert rig.metrics.snapshots_damaged._value.get() == 1
    assert rig.metrics.snapshot_end_offset._value.get() == 60


async def test_a_damaged_older_one_is_set_aside_and_stands_for_nothing(make, storage, monkeypatch):
    rig = make()
    say_who_votes(rig)
    await rig.write(30)
    first = (await rig.taker.take()).snapshot_id
    await rig.write(30)
    await rig.taker.take()
    assert rig.snapshots.covered() == 30
    run_it(rig, monkeypatch)
    rig.taker.damaged(damage(rig, first))
    await until(lambda: bool(rig.snapshots.damaged))
    await asyncio.sleep(0.01)
    assert (len(rig.taken), rig.snapshots.covered()) == (2, 0)
    assert first.file_name + DAMAGED_SUFFIX in names(storage.disk)


async def test_a_damaged_one_stands_for_nothing_from_the_moment_that_it_is_found(make):
    rig = make()
    say_who_votes(rig)
    for _ in range(2):
        await rig.write(30)
        await rig.taker.take()
    assert rig.snapshots.covered() == 30
    rig.taker.damaged(damage(rig, rig.snapshots.ids()[0]))
    assert rig.snapshots.covered() == 0
    assert len(rig.snapshots.ids()) == 2


async def test_the_only_one_that_reaches_the_log_keeps_its_name_until_there_is_another(
    make, storage
):
    """What could not be read once is sound at the next start, which would have nothing else."""
    rig = make()
    await rig.write(10)
    only = (await rig.taker.take()).snapshot_id
    rig.snapshots.set_aside(damage(rig, only, "Input/output error"), Offset(5))
    assert (rig.snapshots.newest(), rig.snapshots.ids()) == (None, [only])
    assert rig.disk.info().damage == ("Input/output error",)
    next_start = Snapshots(rig.files, DIRECTORY, 2, lambda: None)
    kv, last = restore_state(next_start, Trimmed(storage.log, 5))
    assert (kv.next_offset, last.snapshot_id) == (10, only)
    await rig.write(10)
    made = (await rig.taker.take()).snapshot_id
    assert rig.snapshots.ids() == [made]
    assert only.file_name + DAMAGED_SUFFIX in names(storage.disk)


async def test_one_that_a_start_finds_damaged_is_told_of_too(make, storage):
    rig = make()
    await rig.write(30)
    made = (await rig.taker.take()).snapshot_id
    storage.disk.flip_bit(DIRECTORY / made.file_name, 300, 1)
    again = make()
    (told,) = again.disk.info().damage
    assert made.file_name in told
    assert again.metrics.storage_damaged._value.get() == 1
    assert again.metrics.snapshots_damaged._value.get() == 1


async def test_without_room_for_another_an_older_one_is_read_and_offered(
    make, storage, monkeypatch
):
    rig = make()
    say_who_votes(rig)
    ends = []
    for _ in range(3):
        await rig.write(30)
        ends.append((await rig.taker.take()).snapshot_id)
    await rig.close()
    # A start reads the newest alone, and two are kept.
    rig = make(limits=SnapshotLimits(1 << 40, 0, 1000), free=1000)
    say_who_votes(rig)
    assert rig.snapshots.ids() == ends[1:]
    assert rig.snapshots.newest().snapshot_id == ends[2]
    storage.disk.flip_bit(DIRECTORY / ends[2].file_name, 300, 1)
    run_it(rig, monkeypatch)
    rig.taker.damaged(damage(rig, ends[2]))
    await until(lambda: bool(rig.taken))
    assert rig.taken == [SnapshotLost(ends[2].position, ends[1].position)]
    assert rig.last_end == 60
    assert rig.disk.snapshot_room_missing_bytes > 0
    assert rig.snapshots.read_piece(ends[1], 0, 10) is not None
    # Another one is made once there is room, though nothing new was written.
    rig.free = 1 << 40
    rig.taker._room.taken()
    await until(lambda: len(rig.taken) == 2)
    assert rig.taken[1].snapshot == ends[2].position


async def test_an_older_one_that_is_damaged_too_is_set_aside_and_none_is_offered(
    make, storage, monkeypatch
):
    rig = make()
    say_who_votes(rig)
    ends = []
    for _ in range(2):
        await rig.write(30)
        ends.append((await rig.taker.take()).snapshot_id)
    await rig.close()
    rig = make(limits=SnapshotLimits(1 << 40, 0, 1000), free=1000)
    for one in ends:
        storage.disk.flip_bit(DIRECTORY / one.file_name, 300, 1)
    with capture_logs() as logged:
        run_it(rig, monkeypatch)
        rig.taker.damaged(damage(rig, ends[1]))
        await until(lambda: len(rig.snapshots.damaged) == 2)
        await until(lambda: bool(rig.taken))
    assert rig.taken == [SnapshotLost(ends[1].position, None)]
    assert rig.snapshots.ids() == []
    # Each is reported, whichever part found it.
    assert rig.metrics.snapshots_damaged._value.get() == 2
    assert [one["snapshot"] for one in logged if one["event"] == "snapshot_damaged"] == [
        str(ends[1]),
        str(ends[0]),
    ]


async def test_one_that_was_fetched_meanwhile_is_not_said_to_be_lost(make, monkeypatch):
    """The older one is read for seconds; the newest has a whole file again before that ends."""
    rig = make()
    say_who_votes(rig)
    ends = []
    for _ in range(2):
        await rig.write(30)
        ends.append(await rig.taker.take())
    rig.taken.clear()
    rig.taker._limits = SnapshotLimits(1 << 40, 0, 0)
    rig.free = 0
    prove, loop, read = rig.snapshots.prove, asyncio.get_running_loop(), threading.Event()

    def prove_late(one, pause):
        done = threading.Event()
        loop.call_soon_threadsafe(lambda: (rig.taker.installed(ends[1]), done.set()))
        assert done.wait(LONG_S)
        read.set()
        return prove(one, pause)

    monkeypatch.setattr(rig.snapshots, "prove", prove_late)
    run_it(rig, monkeypatch)
    rig.taker.damaged(damage(rig, ends[1].snapshot_id))
    await until(read.is_set)
    await asyncio.sleep(0.02)
    assert rig.taken == []
    assert rig.taker.last == ends[1]


async def test_a_late_finding_says_nothing_of_the_file_that_was_made_since(
    make, storage, monkeypatch
):
    """A pass of the scrub takes hours; what it read has been set aside and made again by then."""
    rig = make()
    say_who_votes(rig)
    await rig.write(30)
    which = (await rig.taker.take()).snapshot_id
    late = damage(rig, which, "found by a slow pass")
    run_it(rig, monkeypatch)
    rig.taker.damaged(damage(rig, which))
    await until(lambda: len(rig.taken) == 2)
    made = rig.taker.last
    before = names(storage.disk)
    rig.taker.damaged(late)
    assert not rig.snapshots.doubt(late)
    assert not rig.snapshots.set_aside(late, Offset(0))
    await asyncio.sleep(0.02)
    assert (rig.snapshots.newest(), rig.taker.last, names(storage.disk)) == (made, made, before)
    assert rig.metrics.snapshots_damaged._value.get() == 1
    # A look from now on is at this one.
    rig.taker.damaged(damage(rig, which))
    await until(lambda: len(rig.taken) == 3)
    assert rig.metrics.snapshots_damaged._value.get() == 2


@pytest.mark.parametrize("call", ["pread", "unlink", "rename", "fsync"])
async def test_the_loop_never_waits_for_a_disk_that_hangs(make, storage, monkeypatch, call):
    rig = make()
    say_who_votes(rig)
    made = []
    for _ in range(2):
        await rig.write(30)
        made.append((await rig.taker.take()).snapshot_id)
    go, hangs, done = threading.Event(), threading.Event(), getattr(storage.disk, call)

    def hang(*given):
        hangs.set()
        assert go.wait(LONG_S)
        return done(*given)

    def work() -> None:
        if call == "pread":
            rig.snapshots.read_piece(made[0], 0, 100)
        elif call == "unlink":
            rig.snapshots._retained = 1
            entry = StateRecord(b"k", b"v", Offset(0), Epoch(1))
            which = SnapshotId(Offset(60), Epoch(2))
            rig.snapshots.write(which, SnapshotHead(), [entry], now_ms=1, pause=lambda: None)
        else:
            rig.snapshots.set_aside(damage(rig, made[0]), Offset(0))

    monkeypatch.setattr(storage.disk, call, hang)
    working = asyncio.get_running_loop().create_task(asyncio.to_thread(work))
    try:
        await until(hangs.is_set)

        def as_the_loop_does() -> None:
            assert rig.snapshots.newest() is not None
            assert rig.snapshots.doubt(damage(rig, made[1]))

        async with asyncio.timeout(LONG_S / 2):
            await asyncio.to_thread(as_the_loop_does)
        assert not working.done()
    finally:
        go.set()
    await working
