"""Real processes whose logs are trimmed: who is behind comes back through a snapshot."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from proofkit.localquorum import (
    CLUSTER_ID,
    PATIENCE_S,
    LocalNode,
    LocalQuorum,
    eventually,
)
from raftnode.api.model import JoinRequest, Replica, VoterSpec
from raftnode.client.errors import NotDoneError, OutcomeUnknownError

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.rule("P22", "P24", "P25", "P40"),
    pytest.mark.extended,
]

SMALL = {
    "RAFTNODE_SEGMENT_BYTES": "16384",
    "RAFTNODE_MAX_BATCH_BYTES": "8192",
    "RAFTNODE_RECORD_MAX_BYTES": "4096",
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": "30000",
    "RAFTNODE_SNAPSHOTS_RETAINED": "1",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
}
LARGE = {
    "RAFTNODE_SEGMENT_BYTES": str(1 << 20),
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": str(6 << 20),
    "RAFTNODE_SNAPSHOTS_RETAINED": "1",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
}


class Writer:
    """Puts values until told to stop; a key is written once."""

    def __init__(self, quorum: LocalQuorum, size: int) -> None:
        self.quorum = quorum
        self.size = size
        self.acknowledged: dict[str, bytes] = {}
        self.stopped = False
        self.number = 0

    async def put(self) -> None:
        self.number += 1
        key, value = f"key-{self.number}", (b"%d " % self.number) * (self.size // 8)
        with contextlib.suppress(OutcomeUnknownError, NotDoneError):
            await self.quorum.client.put(key, value, timeout_ms=8000)
            self.acknowledged[key] = value

    async def run(self) -> None:
        while not self.stopped:
            await self.put()

    async def lost(self) -> list[str]:
        """Which acknowledged values the leader's store does not have."""
        missing: list[str] = []
        for key, value in self.acknowledged.items():
            entry = await self.quorum.client.get(key)
            if entry is None or entry.value != value:
                missing.append(key)
        return missing


async def trimmed(quorum: LocalQuorum, *nodes: LocalNode) -> None:
    """Wait until the logs of these begin after the first records."""

    async def look() -> bool | None:
        infos = [await quorum.info(node) for node in nodes]
        return True if all(info.log_start_offset > 20 for info in infos) else None

    await eventually(look, what="the logs to be trimmed")


async def wipe(quorum: LocalQuorum, node: LocalNode) -> None:
    """Kill a node, take its disk away and let it join with a new one."""
    node.kill()
    node.wipe()
    node.start()
    await quorum.wait_running([node])
    await quorum.client.join(node.api, JoinRequest(cluster_id=CLUSTER_ID))


async def come_back(quorum: LocalQuorum, node: LocalNode, old: Replica) -> None:
    """The wiped node catches up and takes the place of its old replica."""

    async def caught_up() -> Replica | None:
        info = await quorum.info(node)
        for found in (await quorum.describe()).observers:
            if found.node_id == node.node_id and found.caught_up:
                return Replica(node_id=info.node_id, directory_id=info.directory_id)
        return None

    new = await eventually(caught_up, what="the new disk to catch up")
    described = await quorum.describe()
    await quorum.client.add_voter(
        VoterSpec(**new.model_dump(), endpoint=str(node.peer)),
        described.voter_record,
        replaces=old,
    )

    async def replaced() -> bool | None:
        voters = {voter.key for voter in (await quorum.describe()).committed_voters}
        return True if len(voters) == 3 and new.key in voters else None

    await eventually(replaced, what="the old replica to be removed")


def installed(node: LocalNode) -> bool:
    """Whether any of its processes has put a snapshot in the place of its log."""
    return "snapshot_installed" in node.output()


@pytest.mark.quorum_settings(**SMALL)
async def test_a_wiped_replica_comes_back_through_a_snapshot_and_nothing_is_lost(quorum):
    await quorum.form(3)
    writer = Writer(quorum, 1000)
    for _ in range(150):
        await writer.put()
    leader = await quorum.leader()
    victim = next(node for node in quorum.nodes[:3] if node is not leader)
    await trimmed(quorum, *quorum.nodes[:3])
    info = await quorum.info(victim)
    writing = asyncio.get_running_loop().create_task(writer.run())
    await wipe(quorum, victim)
    old = Replica(node_id=info.node_id, directory_id=info.directory_id)
    await come_back(quorum, victim, old)
    writer.stopped = True
    await writing
    assert installed(victim)
    assert (await quorum.info(victim)).log_start_offset > 20
    # Its own store answers: what came in the snapshot, and what came after it.
    await quorum.lead(victim)
    assert len(writer.acknowledged) > 150
    assert await writer.lost() == []
    # And after a start on what it has now.
    victim.kill()
    victim.start()
    await quorum.wait_running([victim])
    await quorum.lead(victim)
    assert await writer.lost() == []


def incoming(node: LocalNode) -> list[Path]:
    return list(node.directory.glob("*/*.incoming"))


@pytest.mark.quorum_settings(**LARGE)
async def test_killed_in_the_middle_of_a_transfer_it_begins_again_and_nothing_is_lost(quorum):
    await quorum.form(3)
    writer = Writer(quorum, 700_000)
    for _ in range(36):
        await writer.put()
    leader = await quorum.leader()
    victim = next(node for node in quorum.nodes[:3] if node is not leader)
    await trimmed_large(quorum)
    info = await quorum.info(victim)
    # All of it may have come before `wipe` returns, and killed it cannot answer to the end.
    killing = asyncio.get_running_loop().create_task(killed_in_transfer(victim, 1))
    with contextlib.suppress(NotDoneError, OutcomeUnknownError):
        await wipe(quorum, victim)
    assert await killing
    for bytes_there in (3 << 20, 8 << 20, None):
        victim.start()
        await quorum.wait_running([victim])
        assert (await quorum.info(victim)).log_end_offset == 0 or installed(victim)
        if bytes_there is None or not await killed_in_transfer(victim, bytes_there):
            break
    old = Replica(node_id=info.node_id, directory_id=info.directory_id)
    await come_back(quorum, victim, old)
    assert incoming(victim) == []
    assert installed(victim)
    await quorum.lead(victim)
    assert len(writer.acknowledged) >= 36
    assert await writer.lost() == []


async def killed_in_transfer(node: LocalNode, bytes_there: int) -> bool:
    """Kill a node once so much of a snapshot has come; not if it has all of it by then."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while not any(_size(path) >= bytes_there for path in incoming(node)):
            if installed(node):
                return False
            await asyncio.sleep(0.002)
    node.kill()
    return True


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


async def trimmed_large(quorum: LocalQuorum) -> None:
    async def look() -> bool | None:
        infos = [await quorum.info(node) for node in quorum.nodes[:3]]
        return True if all(info.log_start_offset > 10 for info in infos) else None

    await eventually(look, what="the logs to be trimmed")


@pytest.mark.quorum_settings(RAFTNODE_LOG_RETENTION_BYTES=str(100 << 20))
async def test_a_log_stops_growing_and_what_is_gone_stands_in_the_state(quorum):
    """100 MiB stay, a segment more, and what comes between two snapshots."""
    await quorum.form(1)
    [node] = quorum.nodes[:1]
    value = b"x" * (900 << 10)
    for number in range(60):
        await quorum.client.put(f"key-{number % 7}", b"%d " % number + value, timeout_ms=30_000)
    assert (await quorum.info(node)).log_start_offset == 0, "a log of 50 MiB is whole"
    for number in range(60, 330):
        await quorum.client.put(f"key-{number % 7}", b"%d " % number + value, timeout_ms=30_000)
    await trimmed(quorum, node)

    async def small() -> bool | None:
        size = sum(one.stat().st_size for one in node.directory.rglob("*.log"))
        return True if size < 200 << 20 else None

    await eventually(small, what="the log to be as small as is said")
    node.kill()
    node.start()
    await quorum.wait_running([node])
    for number in range(323, 330):
        entry = await quorum.client.get(f"key-{number % 7}")
        assert entry is not None
        assert entry.value == b"%d " % number + value


@pytest.mark.rule("S32")
@pytest.mark.quorum_settings(**{k: v for k, v in SMALL.items() if "RETENTION" not in k})
async def test_by_default_a_new_disk_gets_every_record_those_in_no_snapshot_too(quorum):
    await quorum.form(3)
    raw = [b"no key, %d" % number for number in range(5)]
    await quorum.client.append(raw)
    writer = Writer(quorum, 1000)
    for _ in range(100):
        await writer.put()
    leader = await quorum.leader()
    victim = next(node for node in quorum.nodes[:3] if node is not leader)

    async def taken() -> bool | None:
        return True if list(leader.directory.rglob("*.checkpoint")) else None

    await eventually(taken, what="the leader to have a snapshot")
    info = await quorum.info(victim)
    await wipe(quorum, victim)
    old = Replica(node_id=info.node_id, directory_id=info.directory_id)
    await come_back(quorum, victim, old)
    assert not installed(victim)
    assert (await quorum.info(victim)).log_start_offset == 0
    await quorum.lead(victim)
    page = await quorum.client.read(0, max_bytes=1 << 20)
    assert set(raw) <= {record.value for record in page.records}
    assert await writer.lost() == []
