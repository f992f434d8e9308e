"""A leader whose disk does not answer reads goes on leading: only who needs old records waits."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest

from proofkit.busyclients import busy_clients
from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.storage.log.recent_batches import RECENT_BYTES

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("S35")]

VALUE_BYTES = 900_000


async def hangs(node: LocalNode) -> bool | None:
    """Whether a call to the disk has not returned for a second, by the node's own metrics."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{node.api}/metrics") as got:
        lines = (await got.text()).splitlines()
    name = "raftnode_storage_operation_in_flight_seconds "
    [value] = [line.removeprefix(name) for line in lines if line.startswith(name)]
    return float(value) > 1 or None


# A busy machine elects for want of time: here only a loop that a read holds up would.
@pytest.mark.quorum_settings(RAFTNODE_STALL_TIMEOUT_MS="0", RAFTNODE_FETCH_TIMEOUT_MS="8000")
async def test_a_leader_whose_reads_hang_leads_on_and_the_one_behind_waits_alone(
    quorum: LocalQuorum,
):
    faults = {node.node_id: node.make_faulty() for node in quorum.nodes[:3]}
    await quorum.form(3)
    leader = await quorum.leader()
    behind = next(node for node in quorum.nodes[:3] if node is not leader)
    behind.kill()
    for number in range(RECENT_BYTES // VALUE_BYTES + 4):
        await quorum.put(f"large-{number}", bytes(VALUE_BYTES))
    before = await quorum.describe()
    faults[leader.node_id].hang("read")
    try:
        behind.start()
        await eventually(lambda: hangs(leader), what="a Fetch to wait for the disk")
        began = time.monotonic()
        async with busy_clients([node for node in quorum.nodes[:3] if node is not behind]) as busy:

            async def go_on() -> bool | None:
                done = [
                    busy.answered(writes=writes, called_after=began) for writes in (True, False)
                ]
                return all(len(one) >= 40 for one in done) or None

            await eventually(go_on, what="writes and reads to go on")
        await asyncio.sleep(2)
        after = await quorum.describe()
        assert (after.leader.key, after.epoch) == (before.leader.key, before.epoch)
    finally:
        faults[leader.node_id].heal()

    async def caught_up() -> bool | None:
        return all(voter.caught_up for voter in (await quorum.describe()).voters) or None

    await eventually(caught_up, what="the one behind to catch up")
