"""Measures a snapshot that a blank node fetches: `make bench-install MIB=1024`.

Two real processes: a quorum of one, whose log is trimmed, and an observer with an empty disk.
A client writes all along. The bench reports how long the fetch takes until the observer has caught
up, how long writes wait meanwhile and without it, and how much memory both ends take.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from proofkit.localquorum import CLUSTER_ID, LocalNode, LocalQuorum, eventually
from proofkit.loopback import claim_loopback
from raftnode.api.model import JoinRequest

_FILLERS = 8
_KIB = 1024


def _memory_mib(node: LocalNode, what: str) -> float:
    """`VmRSS`, the current memory, or `VmHWM`, the most since its last reset."""
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(what + ":")]
    return int(line.split()[1]) / _KIB


def _forget_most(node: LocalNode) -> None:
    assert node.process is not None
    Path(f"/proc/{node.process.pid}/clear_refs").write_text("5")


async def _fill(quorum: LocalQuorum, mib: int, value_bytes: int) -> None:
    numbers = iter(range((mib << 20) // value_bytes))

    async def put() -> None:
        for number in numbers:
            await quorum.client.put(f"key-{number}", random.randbytes(value_bytes))

    await asyncio.gather(*(put() for _ in range(_FILLERS)))


class _Writes:
    """Small writes, one after another, timed."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self._quorum = quorum
        self.ms: list[float] = []
        self.stopped = False

    async def run(self) -> None:
        while not self.stopped:
            began = time.perf_counter()
            await self._quorum.client.put("small", b"v" * 100, timeout_ms=60_000)
            self.ms.append((time.perf_counter() - began) * 1000)

    def print_row(self, what: str) -> None:
        ranked = sorted(self.ms)
        print(
            f"{what:<10} writes n={len(ranked):<6} median {statistics.median(ranked):6.2f}  "
            f"p99 {ranked[int(len(ranked) * 0.99)]:6.2f}  max {ranked[-1]:6.2f} ms"
        )
        self.ms = []


async def _measure(root: Path, mib: int, value_bytes: int, seconds: float) -> None:
    between = max(mib * 9 << 20, 20 << 20) // 20  # the second covers nine tenths of the state
    settings = {
        "RAFTNODE_SEGMENT_BYTES": str(max(between // 8, 1 << 20)),
        "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": str(between),
        "RAFTNODE_MAX_SNAPSHOT_INTERVAL_MS": "0",
        "RAFTNODE_SNAPSHOTS_RETAINED": "1",
        "RAFTNODE_LOG_RETENTION_BYTES": "0",
        "RAFTNODE_SCRUB_BYTES_PER_SECOND": "0",
    }
    with claim_loopback() as network:
        await _measure_on(LocalQuorum(root, 2, network, settings), mib, value_bytes, seconds)


async def _measure_on(blank: LocalQuorum, mib: int, value_bytes: int, seconds: float) -> None:
    async with blank as quorum:
        leader, observer = quorum.nodes
        await quorum.form(1)
        await _fill(quorum, mib, value_bytes)

        puts = (mib << 20) // value_bytes

        async def trimmed() -> bool | None:
            return (await quorum.info(leader)).log_start_offset > 0.75 * puts or None

        await eventually(trimmed, within_s=600, what="snapshots, and the log trimmed")
        writes = _Writes(quorum)
        writing = asyncio.get_running_loop().create_task(writes.run())
        await asyncio.sleep(seconds)
        writes.print_row("without")
        led_mib = _memory_mib(leader, "VmRSS")
        _forget_most(leader)
        observer.start()
        await quorum.wait_running([observer])
        began = time.perf_counter()
        await quorum.client.join(observer.api, JoinRequest(cluster_id=CLUSTER_ID))

        async def caught_up() -> bool | None:
            [observer] = (await quorum.describe()).observers
            return observer.caught_up or None

        await eventually(caught_up, within_s=1200, what="the observer to catch up")
        took_s = time.perf_counter() - began
        writes.stopped = True
        await writing
        writes.print_row("fetching")
        assert "snapshot_installed" in observer.output()
        size = max(path.stat().st_size for path in observer.directory.glob("*/*.checkpoint"))
        print(f"{size / 1e6:.0f} MB in place and caught up after {took_s:.1f} s", end=", ")
        print(f"{size / 1e6 / took_s:.0f} MB/s")
        for who, node, before in (("leader", leader, led_mib), ("observer", observer, 0.0)):
            now, most = _memory_mib(node, "VmRSS"), _memory_mib(node, "VmHWM")
            print(f"{who:<10} memory before {before:.0f}, at most {most:.0f}, after {now:.0f} MiB")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the state")
    parser.add_argument("--value-bytes", type=int, default=65_536)
    parser.add_argument("--seconds", type=float, default=5, help="of writes without a fetch")
    parser.add_argument("--directory", type=Path, help="where files go; default: /tmp")
    chosen = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}")
    with tempfile.TemporaryDirectory(dir=chosen.directory) as root:
        asyncio.run(_measure(Path(root), chosen.mib, chosen.value_bytes, chosen.seconds))


if __name__ == "__main__":
    main()
