"""When a pass is made, how fast it is, and what is told of it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from raftnode.core.records import Batch
from raftnode.core.types import Epoch, NodeId, Offset
from raftnode.logformat import (
    Record,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    encode_data_batch,
    stamp,
)
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.disk.scrubber import Scrubber, ScrubPace
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process.idle import make_thread_idle
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log.log import LogSettings
from raftnode.storage.snapshots.snapshot_file import write_snapshot
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage

pytestmark = pytest.mark.timeout(400)

AHEAD_S = 1e9
"""The clock of the passes, before the machine's."""
PATIENCE_S = 100
"""The scrub's thread is the least urgent one: whatever else is at work goes first."""


def flip(path: Path, byte: int) -> None:
    """Flip a bit of a file, where it stands."""
    with path.open("r+b") as file:
        file.seek(byte)
        found = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([found ^ 4]))


class Rig:
    """A data directory with some segments, and its scrubber."""

    def __init__(self, root: Path, rate: int = 1 << 30, interval_ms: int = 100) -> None:
        directory = DataDirectory.open(root, NodeId(1))
        log = directory.open_log(LogSettings(segment_bytes=50_000))
        for base in range(8):
            data = encode_data_batch([Record(None, os.urandom(30_000))], 1)
            data = stamp(data, Offset(base), Epoch(1))
            log.append([Batch(Offset(base), Offset(base), Epoch(1), data)])
        log.close()
        directory.close()
        self.log = directory.log_directory
        self.registry = CollectorRegistry()
        self.disk = DiskState()
        self.scrubber = Scrubber(
            self.log,
            self.disk,
            NodeMetrics(self.registry),
            ScrubPace(rate, interval_ms),
            in_use=lambda: None,
            now_s=lambda: time.monotonic() + AHEAD_S,
        )

    def metric(self, name: str) -> float:
        found = self.registry.get_sample_value(f"raftnode_{name}")
        assert found is not None
        return found

    async def passes(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.metric("scrub_passes_total") < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
async def make(tmp_path):
    made: list[tuple[Rig, asyncio.Task[None]]] = []

    def one(**keywords) -> Rig:
        rig = Rig(tmp_path, **keywords)
        made.append((rig, asyncio.get_running_loop().create_task(rig.scrubber.run())))
        return rig

    yield one
    for rig, task in made:
        await asyncio.to_thread(rig.scrubber.close)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_damage_is_told_once_and_shown_until_it_is_gone(make, capsys):
    rig = make()
    await rig.passes(1)
    assert rig.disk.damage == ()
    assert rig.metric("storage_damaged") == 0
    path = rig.log / f"{0:020d}.log"
    flip(path, 5000)
    await rig.passes(4)
    [damage] = rig.disk.info().damage
    assert f"{path} at byte 0 (offset 0)" in damage
    assert rig.metric("storage_damaged") == 1
    assert rig.metric("scrub_corrupt_batches_total") == 1
    assert capsys.readouterr().out.count("storage_damaged") == 1
    flip(path, 5000)
    await rig.passes(7)
    assert rig.disk.info().damage == ()
    assert rig.metric("storage_damaged") == 0


async def test_a_pass_is_no_faster_than_its_rate(make):
    rig = make(rate=500_000, interval_ms=200)
    await rig.passes(1)
    assert rig.metric("scrub_read_bytes_total") >= 240_000
    assert rig.metric("scrub_last_pass_seconds") >= 240_000 / 500_000
    assert 0 < rig.metric("scrub_progress_ratio") <= 1  # perhaps of the next pass already
    assert rig.disk.info().scrubbed_ms is not None
    assert rig.metric("scrub_last_pass_timestamp_seconds") == pytest.approx(time.time(), abs=30)


async def test_a_node_that_stops_does_not_wait_for_a_slow_pass(make):
    rig = make(rate=1000)  # a pass of 240 s
    async with asyncio.timeout(PATIENCE_S):
        while not rig.metric("scrub_read_bytes_total"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    began = time.monotonic()
    await asyncio.to_thread(rig.scrubber.close)
    assert time.monotonic() - began < PATIENCE_S


async def test_a_rate_of_nothing_makes_no_pass(make):
    rig = make(rate=0)
    await asyncio.sleep(0.3)
    assert rig.metric("scrub_passes_total") == 0


def test_an_idle_thread_is_the_least_urgent_one() -> None:
    found: list[int] = []

    def work() -> None:
        make_thread_idle()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [19]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < 19


async def test_a_damaged_snapshot_is_told_by_its_name(make, tmp_path):
    rig = make()
    which = SnapshotId(Offset(4), Epoch(1))
    told: list[SnapshotDamage] = []
    rig.scrubber._on_damaged_snapshot = told.append
    records = [StateRecord(b"key", b"v" * 500, Offset(2), Epoch(1))]
    write_snapshot(Files(), rig.log, which, SnapshotHead(), records, now_ms=1)
    await rig.passes(2)
    assert told == []
    flip(rig.log / which.file_name, 400)
    flipped_s = time.monotonic() + AHEAD_S
    await rig.passes(4)
    assert told[0].snapshot_id == which
    assert which.file_name in told[0].problem
    # It says as of when, by the given clock: a file that gets the name later is another one.
    assert flipped_s < told[0].since_s < time.monotonic() + AHEAD_S
    assert 0 < rig.metric("scrub_last_pass_seconds") < AHEAD_S / 2
    assert rig.metric("storage_damaged") == 1
