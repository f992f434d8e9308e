"""Real processes: a leader whose snapshot is corrupt, and a wiped replica that needs it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from proofkit.localquorum import CLUSTER_ID, LocalNode, LocalQuorum, eventually
from raftnode.api.model import JoinRequest, VoterSpec
from raftnode.storage.snapshots.damaged_snapshots import DAMAGED_SUFFIX

from .scrapes import scrape
from .test_ends import command

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("P24", "P25"), pytest.mark.extended]

SETTINGS = {
    "RAFTNODE_SEGMENT_BYTES": "16384",
    "RAFTNODE_MAX_BATCH_BYTES": "8192",
    "RAFTNODE_RECORD_MAX_BYTES": "4096",
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": "60000",
    "RAFTNODE_SNAPSHOTS_RETAINED": "1",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
    "RAFTNODE_FETCH_TIMEOUT_MS": "10000",  # it leads on, though a busy machine stands still
}


def snapshots(node: LocalNode) -> list[Path]:
    return sorted(node.directory.glob("*/*-*.checkpoint"))


def rot(path: Path) -> None:
    """Flip a bit as rot does it: in its place, while the node runs."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 8
    with path.open("r+b") as file:
        file.write(content)


async def wiped_and_back(quorum: LocalQuorum, victim: LocalNode) -> None:
    """Lose its disk, and let it catch up."""
    victim.kill()
    victim.wipe()
    victim.start()
    await quorum.wait_running([victim])
    await quorum.client.join(victim.api, JoinRequest(cluster_id=CLUSTER_ID))

    async def caught_up() -> VoterSpec | None:
        for found in (await quorum.describe()).observers:
            if found.node_id == victim.node_id and found.caught_up:
                return VoterSpec(node_id=found.node_id, directory_id=found.directory_id)
        return None

    await eventually(caught_up, what="the wiped replica to catch up")


async def trimmed(quorum: LocalQuorum) -> None:
    async def look() -> bool | None:
        starts = [(await quorum.info(node)).log_start_offset for node in quorum.nodes[:3]]
        return True if min(starts) > 20 else None

    await eventually(look, what="the logs to be trimmed")


@pytest.mark.quorum_settings(**SETTINGS)
async def test_a_leader_whose_snapshot_is_corrupt_makes_another_and_brings_a_wiped_replica_back(
    quorum: LocalQuorum,
) -> None:
    await quorum.form(3)
    for number in range(120):
        await quorum.client.put(f"key-{number}", b"%d " % number * 250, timeout_ms=30_000)
    await trimmed(quorum)
    leader = await quorum.leader()
    victim = next(node for node in quorum.nodes[:3] if node is not leader)
    rotten = snapshots(leader)[-1]
    rot(rotten)
    described = await quorum.describe()
    start = described.log_start_offset
    assert start > 20
    await wiped_and_back(quorum, victim)
    assert "snapshot_installed" in victim.output()
    assert rotten.with_name(rotten.name + DAMAGED_SUFFIX).exists()
    assert "snapshot_damaged" in leader.output()
    info = await quorum.info(leader)
    assert any(rotten.name in one for one in info.storage.damage)
    shown = await scrape(leader)
    assert shown.value("snapshots_damaged_total") == 1
    sent = shown.value("snapshot_piece_bytes_total", direction="sent")
    fetched = (await scrape(victim)).value("snapshot_piece_bytes_total", direction="fetched")
    values = sum(len(b"%d " % number * 250) for number in range(120))
    assert sent >= fetched > values
    # It led on all the while, and what the wiped one has is what was written.
    assert (await quorum.leader()) is leader
    for number in range(120):
        entry = await quorum.client.get(f"key-{number}")
        assert entry is not None
        assert entry.value == b"%d " % number * 250


SMALL_MB = 40
SMALL_DISKS = {
    "RAFTNODE_SEGMENT_BYTES": str(1 << 20),
    "RAFTNODE_MAX_BATCH_BYTES": str(512 << 10),
    "RAFTNODE_RECORD_MAX_BYTES": str(256 << 10),
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": str(2 << 20),
    "RAFTNODE_SNAPSHOTS_RETAINED": "2",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
    "RAFTNODE_DISK_RESERVE_BYTES": str(2 << 20),
    "RAFTNODE_FETCH_TIMEOUT_MS": "10000",
}


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[None]:
    """A disk of its own for each node."""
    directories = [tmp_path / f"node-{number}" for number in range(3)]
    try:
        for directory in directories:
            directory.mkdir()
            size = f"size={SMALL_MB}m"
            if command("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(directory)):
                pytest.skip("may not mount")
        yield
    finally:
        for directory in directories:
            command("umount", "-l", str(directory))


def resize(node: LocalNode, size_bytes: int) -> None:
    assert not command("mount", "-o", f"remount,size={size_bytes}", str(node.directory))


async def two_snapshots(quorum: LocalQuorum, node: LocalNode, count: int) -> list[Path]:
    """Write until it has two, and a log that was trimmed behind the older; then it is at rest."""

    async def look() -> list[Path] | None:
        there = snapshots(node)
        if len(there) < 2 or (await quorum.info(node)).log_start_offset == 0:
            for number in range(count // 4):
                await quorum.client.put(f"key-{number}", value(number), timeout_ms=30_000)
        await asyncio.sleep(3)  # one that is due is made within one
        settled = len(there) == 2 and there == snapshots(node)
        return there if settled and (await quorum.info(node)).log_start_offset > 0 else None

    return await eventually(look, what="two snapshots, and a log that is trimmed")


def value(number: int) -> bytes:
    return b"%06d" % number * 16_000


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
@pytest.mark.usefixtures("small_disks")
@pytest.mark.quorum_settings(**SMALL_DISKS)
async def test_without_room_for_another_the_older_one_brings_a_wiped_replica_back(
    quorum: LocalQuorum,
) -> None:
    await quorum.form(3)
    count = 60
    for number in range(count):
        await quorum.client.put(f"key-{number}", value(number), timeout_ms=30_000)
    leader = await quorum.leader()
    older, newest = await two_snapshots(quorum, leader, count)
    size = newest.stat().st_size
    assert size > 3 << 20
    # It is not low, but has no room for another of that size.
    used = shutil.disk_usage(leader.directory).used
    resize(leader, used + size // 2 + (2 << 20))
    rot(newest)
    victim = next(node for node in quorum.nodes[:3] if node is not leader)
    await wiped_and_back(quorum, victim)
    assert (await quorum.leader()) is leader
    # The older one came, and what is behind it by the log.
    assert older.name in {path.name for path in snapshots(victim)}
    assert newest.with_name(newest.name + DAMAGED_SUFFIX).exists()
    info = await quorum.info(leader)
    assert info.storage.snapshot_room_missing_bytes > 0
    assert not info.storage.low
    assert any(newest.name in one for one in info.storage.damage)
    assert "snapshot_lost" in leader.output()
    for number in range(count):
        entry = await quorum.client.get(f"key-{number}")
        assert entry is not None
        assert entry.value == value(number)
    # Once there is room another one is made, though nothing was written.
    resize(leader, SMALL_MB << 20)

    async def made() -> bool | None:
        whole = [path.name for path in snapshots(leader)]
        missing = (await quorum.info(leader)).storage.snapshot_room_missing_bytes
        return True if max(whole) >= newest.name and not missing else None

    await eventually(made, what="another one in its place")
