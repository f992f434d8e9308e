"""Measures how much a node writes for what clients write: `make bench-amplification`.

A real node, a quorum of one, on the disk of `--directory`. The bench reports for each byte of keys
and values: the bytes that its log has grown by, the bytes that the process gave to the file layer,
and those that the kernel sent to the device (`/proc/<pid>/io`), with and without snapshots.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from proofkit.localquorum import LocalNode, LocalQuorum
from proofkit.loopback import claim_loopback

_LOADS = ((1, 100), (64, 100), (1, 1024), (64, 1024), (64, 65_536))
"""Writers side by side, and bytes of a value."""


def _io(node: LocalNode) -> tuple[int, int]:
    """Bytes written by calls, and bytes sent to the device, so far."""
    assert node.process is not None
    lines = Path(f"/proc/{node.process.pid}/io").read_text().splitlines()
    counters = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return counters["wchar"], counters["write_bytes"]


def _log_bytes(node: LocalNode) -> int:
    return sum(path.stat().st_size for path in node.directory.glob("*/*.log"))


async def _load(quorum: LocalQuorum, writers: int, value_bytes: int, total: int) -> int:
    """Write about so many bytes; returns how many of keys and values they were."""
    numbers = iter(range(max(total // value_bytes, writers)))
    value, written = os.urandom(value_bytes), 0

    async def put() -> None:
        nonlocal written
        for number in numbers:
            key = f"key-{number:08d}"
            await quorum.client.put(key, value)
            written += len(key) + len(value)

    await asyncio.gather(*(put() for _ in range(writers)))
    return written


async def _measure(root: Path, count: int, between: int) -> None:
    settings = {
        "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": str(between),
        "RAFTNODE_SCRUB_BYTES_PER_SECOND": "0",
    }
    with claim_loopback() as network:
        await _measure_on(LocalQuorum(root, 1, network, settings), count)


async def _measure_on(blank: LocalQuorum, count: int) -> None:
    async with blank as quorum:
        await quorum.form(1)
        [node] = quorum.nodes
        for writers, value_bytes in _LOADS:
            calls, device, log = *_io(node), _log_bytes(node)
            total = min(count * value_bytes * (1 if writers == 1 else 8), 64 << 20)
            payload = await _load(quorum, writers, value_bytes, total)
            await asyncio.sleep(1)  # a snapshot that is under way
            calls_now, device_now = _io(node)
            ratios = (_log_bytes(node) - log, calls_now - calls, device_now - device)
            print(
                f"{writers:>3} writers  {value_bytes:>6} B  payload {payload:>9}  "
                + "  ".join(
                    f"{name} {ratio / payload:6.2f}"
                    for name, ratio in zip(("log", "calls", "device"), ratios, strict=True)
                ),
                flush=True,
            )
        snapshots = node.output().count("snapshot_taken")
        print(f"snapshots taken: {snapshots}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="writes of one writer in a row")
    parser.add_argument("--directory", type=Path, help="where files go; default: /tmp")
    chosen = parser.parse_args()
    for what, between in (("without snapshots", 1 << 40), ("a snapshot each 8 MiB", 8 << 20)):
        print(what)
        with tempfile.TemporaryDirectory(dir=chosen.directory) as root:
            asyncio.run(_measure(Path(root), chosen.count, between))


if __name__ == "__main__":
    main()
