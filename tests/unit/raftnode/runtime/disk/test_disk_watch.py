"""A lost disk ends the watch; free space is told when it crosses the limits, once each."""

import asyncio
import os
import random
import threading
from types import SimpleNamespace

import pytest
from tests.unit.raftnode.runtime.conftest import LONG_S

from proofkit.faultdisk import FaultDisk
from raftnode.core.types import NodeId
from raftnode.errors import StorageLostError
from raftnode.runtime.disk.disk_watch import _check, watch_storage
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log.log import LogSettings


class Watched:
    """A watch with a disk in memory and free space as told."""

    def __init__(self, path, monkeypatch) -> None:
        self.path = path
        self.disk = FaultDisk(random.Random(0))
        self.disk.make_directory(path)
        self.directory = DataDirectory.open(path, NodeId(1), Files(self.disk))
        self.log = self.directory.open_log()
        self.told = []
        self.usage = []
        self.free = iter([])
        self.done = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        monkeypatch.setattr(os, "statvfs", self.statvfs)

    def statvfs(self, _path):
        free = next(self.free, None)
        if free is None:
            self.loop.call_soon_threadsafe(self.done.set)
            return SimpleNamespace(f_bavail=10**9, f_blocks=10**9, f_frsize=1)
        return SimpleNamespace(f_bavail=free, f_blocks=1000, f_frsize=1)

    async def run(
        self, reserve_bytes: int = 100, on_full=lambda _: None, on_usage=lambda _free, _size: None
    ) -> None:
        def looked(free: int, size: int) -> None:
            self.usage.append((free, size))
            on_usage(free, size)

        await watch_storage(
            self.directory,
            self.log,
            self.path,
            interval_ms=1,
            reserve_bytes=reserve_bytes,
            on_space=self.told.append,
            on_full=on_full,
            on_usage=looked,
        )


@pytest.fixture
async def watched(tmp_path, monkeypatch):
    return Watched(tmp_path, monkeypatch)


@pytest.mark.rule("S30")
@pytest.mark.without("runtime.disk.disk_watch:watch_storage", "on_space(low)", "pass")
async def test_low_begins_below_the_reserve_and_ends_above_twice_as_much(watched):
    watched.free = iter([100, 99, 50, 150, 200, 201, 300, 99])
    task = watched.loop.create_task(watched.run())
    await watched.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert watched.told == [True, False, True]
    assert watched.usage[:3] == [(100, 1000), (99, 1000), (50, 1000)]


async def test_full_begins_below_a_quarter_of_the_reserve_and_ends_above_half(watched):
    watched.free = iter([99, 25, 24, 30, 50, 51, 300])
    full = []
    task = watched.loop.create_task(watched.run(on_full=full.append))
    await watched.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert full == [True, False]


async def test_a_reserve_of_nothing_is_never_low(watched):
    watched.free = iter([0, 0, 0])
    task = watched.loop.create_task(watched.run(reserve_bytes=0))
    await watched.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert watched.told == []


async def test_what_the_log_has_reserved_is_given_back_before_its_disk_is_low(watched, monkeypatch):
    """Its own reservation must not have a leader refuse writes, nor votes lack room."""
    watched.log.close()
    watched.log = watched.directory.open_log(LogSettings(segment_bytes=500, preallocate=True))
    file = watched.log._segments[-1].file
    # Without the reservation so much would be free; the second look is repeated.
    unreserved = iter([700, 580, 580, 580, 90, 90])

    def statvfs(_path):
        free = next(unreserved, None)
        if free is None:
            watched.loop.call_soon_threadsafe(watched.done.set)
            free = 90
        return SimpleNamespace(f_bavail=free - file.stat().spare_bytes, f_blocks=1000, f_frsize=1)

    monkeypatch.setattr(os, "statvfs", statvfs)
    task = watched.loop.create_task(watched.run(reserve_bytes=100))
    async with asyncio.timeout(LONG_S):
        await watched.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [free for free, _ in watched.usage[:5]] == [200, 580, 580, 90, 90]
    assert watched.told == [True]


@pytest.mark.without(
    "runtime.disk.disk_watch:watch_storage", "path, wanted_bytes", "path, reserve_bytes"
)
async def test_what_is_reserved_while_the_disk_is_low_is_given_back_too(watched, unreserved):
    """Else one that would be well without it stays low."""
    watched.log.close()
    watched.log = watched.directory.open_log(LogSettings(segment_bytes=500, preallocate=True))
    segment = watched.log._segments[-1]
    free, looks = 90, []
    unreserved(lambda: free, segment.file)

    def looked(free_bytes: int, _size: int) -> None:
        nonlocal free
        looks.append(free_bytes)
        if len(looks) == 1:
            # Room for the next segment, and then another process takes some.
            assert segment.reserve(500) is None
            free = 650
        elif len(looks) == 3:
            watched.done.set()

    task = watched.loop.create_task(watched.run(on_usage=looked))
    async with asyncio.timeout(LONG_S):
        await watched.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert looks == [90, 650, 650]
    assert watched.told == [True, False]


@pytest.mark.rule("S4")
@pytest.mark.without(
    "runtime.disk.disk_watch:_check", "directory.check_identity()\n    log.check_identity()", "pass"
)
@pytest.mark.parametrize("how", ["wipe", "swap_directory"])
async def test_each_look_at_the_disk_compares_it_with_what_was_opened(watched, how):
    _check(watched.directory, watched.log, watched.path, 0)
    getattr(watched.disk, how)(watched.path)
    with pytest.raises(StorageLostError):
        _check(watched.directory, watched.log, watched.path, 0)


@pytest.mark.parametrize("how", ["wipe", "swap_directory"])
@pytest.mark.rule("S4")
async def test_a_directory_that_is_another_one_ends_the_watch(watched, how):
    getattr(watched.disk, how)(watched.path)
    async with asyncio.timeout(LONG_S):
        with pytest.raises(StorageLostError):
            await watched.run()


@pytest.mark.rule("S4")
async def test_a_path_that_is_gone_is_a_lost_disk_too(watched, monkeypatch):
    def gone(_path) -> os.statvfs_result:
        raise FileNotFoundError(2, "gone")

    monkeypatch.setattr(os, "statvfs", gone)
    async with asyncio.timeout(LONG_S):
        with pytest.raises(StorageLostError, match="cannot be reached"):
            await watched.run()


async def test_the_watch_does_not_wait_for_those_who_wait_for_names(watched):
    """Names are resolved in the common threads; a dead DNS server can hold them all."""
    stuck = threading.Event()
    for _ in range(64):
        watched.loop.run_in_executor(None, stuck.wait)
    task = watched.loop.create_task(watched.run())
    try:
        async with asyncio.timeout(LONG_S):
            await watched.done.wait()
    finally:
        stuck.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
