"""The operator notices between two looks that a real node is lost, stopped or follows another."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.schedule.replica_watches import ReplicaWatches
from proofkit.localquorum import LocalNode, LocalQuorum
from raftnode.client import QuorumClient


@asynccontextmanager
async def in_contact(nodes: list[LocalNode]) -> AsyncGenerator[asyncio.Event]:
    """Contact with these nodes; the event is set when their quorum is to be looked at."""
    client, woken = HttpNodes(60.0), asyncio.Event()
    try:
        async with asyncio.timeout(240), ReplicaWatches(client, lambda *_: woken.set()) as watches:
            watches.keep("test", "demo", [str(node.api) for node in nodes])
            yield woken
    finally:
        await client.close()


async def settled(woken: asyncio.Event) -> None:
    """Wait until nothing has changed for a while, as in a quorum at rest."""
    while True:
        woken.clear()
        try:
            async with asyncio.timeout(3):
                await woken.wait()
        except TimeoutError:
            return


async def test_a_leader_that_is_killed_has_its_quorum_looked_at(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    async with in_contact([leader]) as woken:
        await settled(woken)
        leader.kill()
        await woken.wait()


async def test_a_leader_that_stands_still_is_noticed_by_the_others(quorum: LocalQuorum) -> None:
    """Its system still answers for its connection."""
    await quorum.form(3)
    leader = await quorum.leader()
    async with in_contact(quorum.nodes[:3]) as woken:
        await settled(woken)
        leader.signal(signal.SIGSTOP)
        try:
            await woken.wait()
        finally:
            leader.signal(signal.SIGCONT)


async def test_a_follower_that_stands_still_is_noticed_by_the_leader(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    follower = next(node for node in quorum.nodes[:3] if node is not leader)
    async with in_contact([leader]) as woken:
        await settled(woken)
        follower.signal(signal.SIGSTOP)
        try:
            await woken.wait()
        finally:
            follower.signal(signal.SIGCONT)


async def test_the_state_of_a_node_at_rest_is_answered_when_the_wait_is_over(
    quorum: LocalQuorum,
) -> None:
    [node] = quorum.nodes[:1]
    await quorum.form(1)
    async with QuorumClient([node.api]) as client:
        seen = await client.node_state(node.api, timeout_ms=60_000)
        again = await client.node_state(
            node.api, known=seen.state, max_wait_ms=200, timeout_ms=60_000
        )
        assert again == seen
