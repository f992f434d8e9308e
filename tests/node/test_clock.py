"""Real processes whose wall clocks jump, hours ahead and hours back, under them.

What decides goes by the monotonic clock, which no jump touches. The wall clock stamps records
and tells people when something was. Each process reads it here through a shim that adds what
stands in a file, so that one node's clock jumps alone, and no time server of the machine is lied
to.
"""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually

pytestmark = [pytest.mark.timeout(300), pytest.mark.extended]

HOUR_MS = 3_600_000
SETTINGS = {
    "RAFTNODE_SEGMENT_BYTES": "65536",
    "RAFTNODE_SEGMENT_MS": str(HOUR_MS),
    "RAFTNODE_MAX_BATCH_BYTES": "8192",
    "RAFTNODE_RECORD_MAX_BYTES": "4096",
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": "40000",
    "RAFTNODE_MAX_SNAPSHOT_INTERVAL_MS": str(HOUR_MS),
    "RAFTNODE_SCRUB_INTERVAL_MS": str(HOUR_MS),
    "RAFTNODE_LOG_RETENTION_BYTES": "-1",
    # A clock that jumps ends it at once, a machine that stands still for a while does not.
    "RAFTNODE_FETCH_TIMEOUT_MS": "10000",
}

SHIM = """
import os, time
_real, _file = time.time_ns, os.environ["CLOCK_FILE"]
def _time_ns():
    with open(_file) as file:
        return _real() + int(file.read()) * 1_000_000
time.time_ns, time.time = _time_ns, lambda: _time_ns() / 1e9
"""


class Clocks:
    """The nodes' wall clocks."""

    def __init__(self, root: Path, quorum: LocalQuorum) -> None:
        self.root = root
        (root / "sitecustomize.py").write_text(SHIM)
        for node in quorum.nodes:
            node.environment |= {"PYTHONPATH": str(root), "CLOCK_FILE": str(self._file(node))}
            self.jump(node, 0)

    def _file(self, node: LocalNode) -> Path:
        return self.root / f"clock-{node.node_id}"

    def jump(self, node: LocalNode, hours: float) -> None:
        """Put it so many hours beside the machine's."""
        replaced = self._file(node).with_suffix(".new")
        replaced.write_text(str(int(hours * HOUR_MS)))
        replaced.rename(self._file(node))


def raftnode(*words: str) -> str:
    program = Path(sys.executable).with_name("raftnode")
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def stamps(node: LocalNode) -> list[int]:
    """Of the batches of clients, as the log has them, in milliseconds."""
    lines = raftnode("log", "dump", "--json", "--batches", str(node.directory)).splitlines()
    found = [json.loads(line) for line in lines]
    return [one["max_timestamp_ms"] for one in found if not one["control"]]


def segments(node: LocalNode) -> int:
    return len(list(node.directory.glob("*/*.log")))


@pytest.mark.quorum_settings(**SETTINGS)
async def test_clocks_that_jump_by_hours_change_nothing_but_stamps(
    quorum: LocalQuorum, tmp_path: Path
) -> None:
    clocks = Clocks(tmp_path, quorum)
    await quorum.form(3)
    leader = await quorum.leader()
    followers = [node for node in quorum.nodes[:3] if node is not leader]
    epoch = (await quorum.describe()).epoch
    written: dict[str, bytes] = {}
    put_once = functools.partial(quorum.client.put, timeout_ms=30_000)

    async def write(count: int, put: Callable[[str, bytes], Awaitable[object]]) -> None:
        for _ in range(count):
            key, value = f"key-{len(written)}", b"%d " % len(written) * 100
            await put(key, value)
            written[key] = value

    await write(20, put_once)
    for hours in (7, -9, 30, 0.5, -200, 0):
        clocks.jump(leader, hours)
        clocks.jump(followers[0], -hours)
        await write(20, put_once)
        await asyncio.sleep(0.6)  # a replica that thinks that hours have gone by stands meanwhile
    described = await quorum.describe()
    assert (described.epoch, described.leader.node_id) == (epoch, leader.node_id)
    assert all(voter.caught_up for voter in described.voters)
    jumped = [(one - round(time.time() * 1000)) / HOUR_MS for one in stamps(leader)]
    assert max(jumped) > 29  # the shim was there
    assert min(jumped) < -199
    # A jump ahead of what the segment began with costs one early roll; one back costs none.
    assert 2 <= segments(leader) <= 6
    # By age no snapshot was due, and no scrub.
    for node in quorum.nodes[:3]:
        assert node.output().count("snapshot_taken") <= 140 * 300 // 40_000 + 1
        assert "storage_scrubbed" not in node.output()

    # What was stamped ahead and back is read by time index, by start and by people.
    for node in quorum.nodes[:3]:
        clocks.jump(node, -1000)
        assert node.stop() == 0
        raftnode("log", "verify", str(node.directory))
        del node.environment["RAFTNODE_FETCH_TIMEOUT_MS"]  # from here on elections are wanted
        node.start()
    await quorum.wait_running(quorum.nodes[:3])
    await quorum.leader()
    await write(5, quorum.put)
    for node in quorum.nodes[:3]:
        node.kill()
        clocks.jump(node, 1000 * node.node_id)
        node.start()
    await quorum.wait_running(quorum.nodes[:3])
    await quorum.leader()
    await write(5, quorum.put)
    for key, value in written.items():
        entry = await quorum.client.get(key)
        assert entry is not None
        assert entry.value == value

    async def same() -> bool | None:
        ends = {(await quorum.info(node)).durable_end_offset for node in quorum.nodes[:3]}
        return True if len(ends) == 1 else None

    await eventually(same, what="all to have all")
    for node in quorum.nodes[:3]:
        assert node.stop() == 0
        raftnode("log", "verify", str(node.directory))
