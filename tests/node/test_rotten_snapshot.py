"""Real processes: a leader whose snapshot has rotted, and a wiped replica that needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftnode.api.model import JoinRequest, VoterSpec
from raftnode.storage.snapshots import DAMAGED_SUFFIX
from raftnode.testing.localquorum import CLUSTER_ID, LocalNode, LocalQuorum, eventually

pytestmark = [pytest.mark.timeout(170), pytest.mark.rule("P24", "P25"), pytest.mark.extended]

SETTINGS = {
    "RAFTNODE_SEGMENT_BYTES": "16384",
    "RAFTNODE_MAX_BATCH_BYTES": "8192",
    "RAFTNODE_RECORD_MAX_BYTES": "4096",
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": "60000",
    "RAFTNODE_SNAPSHOTS_RETAINED": "1",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
}


def snapshots(node: LocalNode) -> list[Path]:
    return sorted(node.directory.glob("*/*-*.checkpoint"))


async def trimmed(quorum: LocalQuorum) -> None:
    async def look() -> bool | None:
        starts = [(await quorum.info(node)).log_start_offset for node in quorum.nodes[:3]]
        return True if min(starts) > 20 else None

    await eventually(look, within_s=40, what="the logs to be trimmed")


@pytest.mark.quorum_settings(**SETTINGS)
async def test_a_leader_whose_snapshot_has_rotted_makes_another_and_brings_a_wiped_replica_back(
    quorum: LocalQuorum,
) -> None:
    await quorum.form(3)
    for number in range(120):
        await quorum.client.put(f"key-{number}", b"%d " % number * 250, timeout_ms=8000)
    await trimmed(quorum)
    leader = await quorum.leader()
    victim = next(node for node in quorum.nodes[:3] if node is not leader)
    rotten = snapshots(leader)[-1]
    content = bytearray(rotten.read_bytes())
    content[len(content) // 2] ^= 8
    # As rot does it: in its place, while the node runs.
    with rotten.open("r+b") as file:
        file.write(content)
    described = await quorum.describe()
    start = described.log_start_offset
    assert start > 20
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

    await eventually(caught_up, within_s=60, what="the wiped replica to catch up")
    assert "snapshot_installed" in victim.output()
    assert rotten.with_name(rotten.name + DAMAGED_SUFFIX).exists()
    assert "snapshot_damaged" in leader.output()
    info = await quorum.info(leader)
    assert any(rotten.name in one for one in info.storage.damage)
    # It led on all the while, and what the wiped one has is what was written.
    assert (await quorum.leader()) is leader
    for number in range(120):
        entry = await quorum.client.get(f"key-{number}")
        assert entry is not None
        assert entry.value == b"%d " % number * 250
