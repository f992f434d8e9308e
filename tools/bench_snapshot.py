"""Measures how long writes wait while snapshots are made: `make bench-snapshot MIB=1024`.

A real log and real snapshots on the disk; the writes go the way of the node, through log,
fsync thread and applier, and the interpreter is set as the node sets it. Stretches without a
snapshot and with one take turns, so that the machine's other work is in both.

Told of each: how late the event loop came round (`loop`); the same less what its thread or the
snapshot's waited for a processor that others had (`own`, so far as the kernel tells it); what the
loop itself writes into the page cache (`append`); the fsyncs (`sync`); the writes as a
client would see them (`write`); the garbage collector's turns (`collected`).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from raftnode.core.log_index import LogIndex
from raftnode.core.records import Batch
from raftnode.core.types import Epoch, NodeId, Offset
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process import interpreter
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.runtime.snapshots.snapshotter import (
    AppliedState,
    SnapshotLimits,
    SnapshotStorage,
    Snapshotter,
)
from raftnode.runtime.writes.applier import Applier
from raftnode.statemachine.kv import Entry, KeyValueStore
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log

_EPOCH = Epoch(1)
_RECORDS = 10
"""In each write."""
_TICK_S = 0.001
_ROWS = ("loop", "own", "append", "sync", "write", "collected")


def _entries(count: int, size: int) -> Iterator[tuple[bytes, Entry]]:
    for number in range(count):
        yield b"key %012d" % number, Entry(random.randbytes(size), Offset(0), _EPOCH)


@dataclass(slots=True)
class _Times:
    """Of one stretch, milliseconds."""

    loop: list[float] = field(default_factory=list[float])
    own: list[float] = field(default_factory=list[float])
    append: list[float] = field(default_factory=list[float])
    sync: list[float] = field(default_factory=list[float])
    write: list[float] = field(default_factory=list[float])
    collected: list[float] = field(default_factory=list[float])

    def print_rows(self, what: str) -> None:
        for name in _ROWS:
            ranked = sorted(getattr(self, name)) or [0.0]
            print(
                f"{what:<9} {name:<9} n={len(ranked):<6} median {statistics.median(ranked):6.2f}"
                f"  p99 {ranked[int(len(ranked) * 0.99)]:6.2f}  longest {ranked[-1]:6.2f} ms"
            )

    def add(self, other: _Times) -> None:
        for name in _ROWS:
            getattr(self, name).extend(getattr(other, name))


class _Waits:
    """What threads of this process waited for a processor, from the kernel's counts."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}

    def ms(self) -> list[float]:
        """Of the loop's thread and of the snapshot's, if there is one; in all so far."""
        for thread in threading.enumerate():
            tid = thread.native_id
            wanted = thread is threading.main_thread() or thread.name.startswith("snapshot")
            if wanted and tid is not None and tid not in self._files:
                path = f"/proc/self/task/{tid}/schedstat"
                self._files[tid] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return [int(os.pread(fd, 100, 0).split()[1]) / 1e6 for fd in self._files.values()]


class _Load:
    """Writes one after another, each to its fsync and its application, and times them."""

    def __init__(self, log: Log, applier: Applier, keys: int, size: int) -> None:
        self._log, self._applier, self._keys, self._size = log, applier, keys, size
        self._thread = ThreadPoolExecutor(1)
        self.times = _Times()
        self.stopped = False
        self._collecting = 0.0
        gc.callbacks.append(self._gc)

    def _gc(self, phase: str, _info: object) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.times.collected.append((time.perf_counter() - self._collecting) * 1000)

    async def writes(self) -> None:
        while not self.stopped:
            await self.write()

    async def write(self) -> None:
        records = [
            Record(b"key %012d" % random.randrange(self._keys), bytes(self._size))
            for _ in range(_RECORDS)
        ]
        base = self._log.end_offset
        data = stamp(encode_data_batch(records, 1), base, _EPOCH)
        begun = time.perf_counter()
        batches = [Batch(base, Offset(base + _RECORDS - 1), _EPOCH, data)]
        loop = asyncio.get_running_loop()
        if self._log.append_syncs(batches):  # as the driver does it
            await loop.run_in_executor(self._thread, self._log.append, batches)
        else:
            self._log.append(batches)
            self.times.append.append((time.perf_counter() - begun) * 1000)
        await loop.run_in_executor(self._thread, self._flush)
        end = self._log.end_offset
        self._applier.committed(end, end)
        await self._applier.wait_applied(end, timeout_ms=60_000)
        self.times.write.append((time.perf_counter() - begun) * 1000)

    def _flush(self) -> None:
        begun = time.perf_counter()
        self._log.flush()
        self.times.sync.append((time.perf_counter() - begun) * 1000)

    async def lag(self) -> None:
        waits = _Waits()
        before = waits.ms()
        while not self.stopped:
            begun = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            delay_ms = (time.perf_counter() - begun - _TICK_S) * 1000
            now = waits.ms()
            waited = max(b - a for a, b in zip(before, now, strict=False))
            before = now
            self.times.loop.append(delay_ms)
            self.times.own.append(max(delay_ms - waited, 0))

    def stretch(self) -> _Times:
        """The times since the last call."""
        times, self.times = self.times, _Times()
        return times


async def _measure(root: Path, mib: int, size: int, seconds: float, rounds: int) -> None:
    importlib.import_module("raftnode.runtime.server")  # the collector has a node's objects
    interpreter.take_turns()
    directory = DataDirectory.open(root, NodeId(1))
    log = directory.open_log()
    count = (mib << 20) // size
    kv = KeyValueStore.restore(Offset(0), _entries(count, size))
    applier = Applier(log, kv)
    index = LogIndex(epochs=[(_EPOCH, Offset(0))])
    snapshots = directory.open_snapshots(2)
    taker = Snapshotter(
        SnapshotStorage(snapshots, log, None),
        AppliedState(applier, index),
        SnapshotLimits(1 << 40, 0, 0),
        NodeMetrics(CollectorRegistry()),
        free_bytes=lambda _: 1 << 40,
        disk=DiskState(),
    )
    load = _Load(log, applier, count, size)
    loop = asyncio.get_running_loop()
    applying = loop.create_task(applier.run())
    interpreter.settle()
    await load.write()
    load.stretch()
    tasks = [loop.create_task(load.writes()), loop.create_task(load.lag())]
    alone, beside = _Times(), _Times()
    for number in range(1, rounds + 1):
        await asyncio.sleep(seconds)
        alone.add(load.stretch())
        begun = time.perf_counter()
        made = await taker.take()
        taken_s = time.perf_counter() - begun
        times = load.stretch()
        beside.add(times)
        assert made is not None
        mb = made.size / 1e6
        print(
            f"snapshot {number}: {made.records} entries, {mb:.0f} MB, {taken_s:.1f} s, "
            f"{mb / taken_s:.0f} MB/s; longest: loop {max(times.loop):.1f}, own "
            f"{max(times.own):.1f}, append {max(times.append):.1f}, sync {max(times.sync):.1f}, "
            f"write {max(times.write):.1f} ms"
        )
    load.stopped = True
    await asyncio.gather(*tasks)
    applying.cancel()
    taker.close()
    alone.print_rows("without")
    beside.print_rows("snapshot")
    begun = time.perf_counter()
    again, _ = restore_state(snapshots, log)
    print(f"loaded {len(again)} entries in {time.perf_counter() - begun:.1f} s")
    log.close()
    directory.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the state")
    parser.add_argument("--value-bytes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=10, help="of writes before each snapshot")
    parser.add_argument("--rounds", type=int, default=4, help="snapshots")
    parser.add_argument("--directory", type=Path, help="where files go; default: /tmp")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}")
    with tempfile.TemporaryDirectory(dir=chosen.directory) as root:
        asyncio.run(
            _measure(Path(root), chosen.mib, chosen.value_bytes, chosen.seconds, chosen.rounds)
        )


if __name__ == "__main__":
    main()
