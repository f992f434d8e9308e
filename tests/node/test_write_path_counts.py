"""What a write and a read cost on real nodes, in events, frames, turns and calls: never a time.

The counts of an operation are the same on any machine. What a busy machine adds are timers that
come meanwhile, so the cheapest of several rounds counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, astuple
from pathlib import Path

import aiohttp
import pytest

from proofkit.countednode import Counts
from proofkit.localquorum import LocalNode, LocalQuorum
from raftnode.client import QuorumClient

pytestmark = pytest.mark.timeout(300)

ROUNDS, OPERATIONS = 12, 20

# Lower a record when the path gets shorter; to raise one, say in the commit what it buys. Turns of
# the loop have room for timers: a put takes 11 on the leader and 14 on both followers.

LEADER_PUT = Counts(core_events=4, frames=2, loop_turns=13, reads=0, writes=2, handoffs=2)
FOLLOWERS_PUT = Counts(core_events=4, frames=2, loop_turns=18, reads=0, writes=5, handoffs=4)
LEADER_GET = Counts(core_events=3, frames=2, loop_turns=11, reads=0, writes=0, handoffs=0)
FOLLOWERS_GET = Counts(core_events=2, frames=2, loop_turns=8, reads=0, writes=0, handoffs=0)


def of_one(rounds: Sequence[Counts]) -> Counts:
    """What one operation of the cheapest round costs, each count by itself, in whole numbers."""
    columns = zip(*map(astuple, rounds), strict=True)
    return Counts(*(round(min(column) / OPERATIONS) for column in columns))


def exceeding(counts: Counts, record: Counts) -> dict[str, int]:
    """The counts that are higher than on record, by name."""
    record_of = asdict(record)
    return {name: count for name, count in asdict(counts).items() if count > record_of[name]}


def added(counts: Sequence[Counts]) -> Counts:
    """What several nodes did together."""
    return Counts(*map(sum, zip(*map(astuple, counts), strict=True)))


async def measured(
    leader: Path, followers: Sequence[Path], operation: Callable[[str], Awaitable[object]]
) -> tuple[Counts, Counts]:
    """What an operation of one client costs the leader, and both followers together."""
    paths = (leader, *followers)
    costs: list[list[Counts]] = []
    for _ in range(ROUNDS):
        before = [Counts.read(path) for path in paths]
        for number in range(OPERATIONS):
            await operation(f"key-{number}")
        after = [Counts.read(path) for path in paths]
        costs.append([now.since(then) for now, then in zip(after, before, strict=True)])
    return of_one([cost[0] for cost in costs]), of_one([added(cost[1:]) for cost in costs])


async def test_a_put_and_a_get_cost_no_more_than_on_record(quorum: LocalQuorum):
    files = {node.node_id: node.make_counted() for node in quorum.nodes[:3]}
    await quorum.form(3)
    leader = await quorum.leader()
    others = [files[node.node_id] for node in quorum.nodes[:3] if node is not leader]
    async with QuorumClient([node.api for node in quorum.nodes[:3]]) as client:
        await client.put("warm", b"x" * 1000)
        puts = await measured(
            files[leader.node_id], others, lambda key: client.put(key, b"x" * 1000)
        )
        gets = await measured(files[leader.node_id], others, client.get)
    # A follower that a majority does not need may take two operations at once, which costs less.
    for counts, record in zip(
        (*puts, *gets), (LEADER_PUT, FOLLOWERS_PUT, LEADER_GET, FOLLOWERS_GET), strict=True
    ):
        assert exceeding(counts, record) == {}


async def test_clients_that_wait_at_the_end_of_the_log_are_one_event_on_a_follower(
    quorum: LocalQuorum,
):
    """The follower then asks its leader not to hold the high watermark back (decision 35)."""
    files = {node.node_id: node.make_counted() for node in quorum.nodes[:3]}
    await quorum.form(3)
    leader = await quorum.leader()
    follower = next(node for node in quorum.nodes[:3] if node is not leader)

    async def events_of_waits(node: LocalNode) -> int:
        async with aiohttp.ClientSession() as session:
            url, query = f"http://{node.api}/v1/log", {"offset": "0", "max_wait_ms": "0"}
            async with session.get(url, params=query) as answer:
                query = {"offset": str((await answer.json())["next_offset"]), "max_wait_ms": "1"}
            before = Counts.read(files[node.node_id])
            for _ in range(100):
                async with session.get(url, params=query) as answer:
                    assert (await answer.json())["records"] == []
            return Counts.read(files[node.node_id]).since(before).core_events

    assert 1 <= await events_of_waits(follower) < 100
    assert await events_of_waits(leader) < 100
