"""Measures how long writes wait while a snapshot is made: `make bench-snapshot MIB=1024`.

A real log and a real snapshot on the disk; the writes go the way of the node, through log,
fsync thread and applier. Compared are the same writes without a snapshot.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from raftnode.api.metrics import NodeMetrics
from raftnode.core.log_index import LogIndex
from raftnode.core.records import Batch
from raftnode.core.types import Epoch, NodeId, Offset
from raftnode.runtime.applier import Applier
from raftnode.runtime.disk_state import DiskState
from raftnode.runtime.snapshotting import SnapshotLimits, Snapshotter, restore_state
from raftnode.statemachine.kv import Entry, KeyValueStore
from raftnode.storage.batch import Record, encode_data_batch, stamp
from raftnode.storage.directory import DataDirectory
from raftnode.storage.log import Log

_EPOCH = Epoch(1)
_RECORDS = 10
"""In each write."""


def _entries(count: int, size: int) -> Iterator[tuple[bytes, Entry]]:
    for number in range(count):
        yield b"key %012d" % number, Entry(random.randbytes(size), Offset(0), _EPOCH)


class _Load:
    """Writes one after another, each to its fsync and its application, and times them."""

    def __init__(self, log: Log, applier: Applier, keys: int, size: int) -> None:
        self._log, self._applier, self._keys, self._size = log, applier, keys, size
        self._thread = ThreadPoolExecutor(1)
        self.write_ms: list[float] = []
        self.lag_ms: list[float] = []
        self.stopped = False
        self._collecting = 0.0
        self.collected_ms = [0.0]
        gc.callbacks.append(self._gc)

    def _gc(self, phase: str, _info: object) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.collected_ms.append((time.perf_counter() - self._collecting) * 1000)

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
        self._log.append([Batch(base, Offset(base + _RECORDS - 1), _EPOCH, data)])
        await asyncio.get_running_loop().run_in_executor(self._thread, self._log.flush)
        end = self._log.end_offset
        self._applier.committed(end, end)
        await self._applier.wait_applied(end, timeout_ms=60_000)
        self.write_ms.append((time.perf_counter() - begun) * 1000)

    async def lag(self) -> None:
        while not self.stopped:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            self.lag_ms.append((time.perf_counter() - begun) * 1000 - 1)

    def told(self, what: str) -> None:
        for name, values in (("write", self.write_ms), ("loop", self.lag_ms)):
            ranked = sorted(values)
            print(
                f"{what:<9} {name:<5} n={len(ranked):<6} median {statistics.median(ranked):6.2f}  "
                f"p99 {ranked[int(len(ranked) * 0.99)]:6.2f}  max {ranked[-1]:6.2f} ms"
            )
        print(f"{what:<9} longest garbage collection {max(self.collected_ms):.2f} ms")
        self.write_ms, self.lag_ms, self.collected_ms = [], [], [0.0]


async def _measure(root: Path, mib: int, size: int, seconds: float) -> None:
    directory = DataDirectory.open(root, NodeId(1))
    log = directory.open_log()
    count = (mib << 20) // size
    kv = KeyValueStore.restore(Offset(0), _entries(count, size))
    applier = Applier(log, kv)
    index = LogIndex(epochs=[(_EPOCH, Offset(0))])
    snapshots = directory.open_snapshots(2)
    metrics = NodeMetrics(CollectorRegistry())
    taker = Snapshotter(
        snapshots,
        applier,
        index,
        SnapshotLimits(1 << 40, 0, 0),
        metrics,
        log=log,
        last=None,
        free_bytes=lambda: 1 << 40,
        disk=DiskState(),
    )
    load = _Load(log, applier, count, size)
    loop = asyncio.get_running_loop()
    applying = loop.create_task(applier.run())
    await load.write()
    load.write_ms.clear()
    tasks = [loop.create_task(load.writes()), loop.create_task(load.lag())]
    await asyncio.sleep(seconds)
    load.told("without")
    begun = time.perf_counter()
    made = await taker.take()
    taken_s = time.perf_counter() - begun
    load.told("snapshot")
    load.stopped = True
    await asyncio.gather(*tasks)
    applying.cancel()
    taker.close()
    if made is not None:
        mb = made.size / 1e6
        print(f"{made.records} entries, {mb:.0f} MB, {taken_s:.1f} s, {mb / taken_s:.0f} MB/s")
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
    parser.add_argument("--seconds", type=float, default=5, help="of writes without a snapshot")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(_measure(Path(root), chosen.mib, chosen.value_bytes, chosen.seconds))


if __name__ == "__main__":
    main()
