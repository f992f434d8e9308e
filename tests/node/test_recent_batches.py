"""Writes are served to followers and applied from memory: no node reads its disk for them."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually

PUTS = 50

_PROGRAM = """
import mmap, os, struct
from raftnode.cli import main

file = open(os.environ["PREADS"], "r+b")
counter, pread, calls = mmap.mmap(file.fileno(), 8), os.pread, 0

def counted(descriptor, length, position):
    global calls
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".log"):
        calls += 1
        counter[:] = struct.pack("<q", calls)
    return pread(descriptor, length, position)

os.pread = counted
main()
"""


def _counted(node: LocalNode) -> Path:
    """Let its process count, in a file, its `pread` calls of segments."""
    path = node.directory.with_suffix(".preads")
    path.write_bytes(bytes(8))
    node.command = (sys.executable, "-c", _PROGRAM, "run")
    node.environment["PREADS"] = str(path)
    return path


def _sum(counters: list[Path]) -> int:
    return sum(struct.unpack("<q", path.read_bytes())[0] for path in counters)


async def _preads(quorum: LocalQuorum) -> int:
    """The reads of three nodes' logs during so many puts, once all have applied them."""
    nodes = quorum.nodes[:3]
    counters = [_counted(node) for node in nodes]
    await quorum.form(3)
    await quorum.put("first", b"value")
    await _applied(quorum, nodes)
    before = _sum(counters)
    for number in range(PUTS):
        await quorum.put(f"key-{number}", os.urandom(1024))
    await _applied(quorum, nodes)
    return _sum(counters) - before


async def _applied(quorum: LocalQuorum, nodes: list[LocalNode]) -> None:
    """Return once all nodes have applied all that the leader has committed."""

    async def equal() -> bool | None:
        infos = [await quorum.info(node) for node in nodes]
        ends = {info.log_end_offset for info in infos} | {info.high_watermark for info in infos}
        return len(ends) == 1 or None

    await eventually(equal, what="all nodes to have the same committed log")


@pytest.mark.quorum_settings(RAFTNODE_SCRUB_BYTES_PER_SECOND="0")
async def test_a_write_costs_no_read_of_a_disk(quorum: LocalQuorum):
    assert await _preads(quorum) == 0


@pytest.mark.quorum_settings(RAFTNODE_SCRUB_BYTES_PER_SECOND="0", RAFTNODE_RECENT_BATCHES_BYTES="0")
async def test_without_memory_for_it_each_write_is_read_from_the_disk(quorum: LocalQuorum):
    # By two followers and three stores.
    assert await _preads(quorum) >= 5 * PUTS // 2
