"""S33 on real processes: reads by a lease end in time, and what was promised outlives a node."""

import asyncio
import json
import signal
import time

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.client import QuorumClient
from raftnode.client.errors import ClientError

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("S33")]

PROMISE_MS = 2000
LEASES = {"RAFTNODE_READ_LEASE_CLOCK_DRIFT_PERCENT": "10"}


async def followers_of(quorum: LocalQuorum) -> tuple[LocalNode, list[LocalNode]]:
    leader = await quorum.leader()
    return leader, [node for node in quorum.nodes[:3] if node is not leader]


def remembered_ms(node: LocalNode) -> int:
    """For how long the node's storage says that it may have promised."""
    return json.loads((node.directory / "incarnation").read_text()).get("promisedMs", 0)


@pytest.mark.quorum_settings(**LEASES)
async def test_a_leader_reads_alone_until_its_lease_ends(quorum):
    """With both followers stopped no round is possible: only a lease answers, and not for long."""
    await quorum.form(3)
    await quorum.put("key", b"value")
    # A machine that stands still just then may leave a round without a read.
    for _ in range(3):
        alone_ms = await reads_alone_ms(quorum)
        assert alone_ms < PROMISE_MS
        if alone_ms:
            break
    assert alone_ms > 0
    await quorum.leader()
    assert (await quorum.client.get("key")).value == b"value"


async def reads_alone_ms(quorum: LocalQuorum) -> float:
    """For how long a leader answers reads after its followers were stopped."""
    leader, followers = await followers_of(quorum)
    async with QuorumClient([leader.api], timeout_ms=1000) as client:
        await eventually(lambda: client.get("key"), what="a read")
        for node in followers:
            node.signal(signal.SIGSTOP)
        began = time.monotonic()
        alone_until, refused = began, False
        while not refused and time.monotonic() < began + 30:
            asked = time.monotonic()
            try:
                assert (await client.get("key")).value == b"value"
                alone_until = asked
            except ClientError:
                refused = True
        for node in followers:
            node.signal(signal.SIGCONT)
    assert refused
    return (alone_until - began) * 1000


@pytest.mark.quorum_settings(**LEASES)
async def test_a_leader_that_stood_still_answers_no_read_from_its_lease(quorum):
    """pause-then-stale-read: on waking it must not think that its lease still holds."""
    await quorum.form(3)
    await quorum.client.put("key", b"old")
    leader, others = await followers_of(quorum)
    async with QuorumClient([leader.api], timeout_ms=3000) as stale:
        assert (await stale.get("key")).value == b"old"
        leader.signal(signal.SIGSTOP)

        async def successor() -> LocalNode | None:
            for node in others:
                if (await quorum.info(node)).role == "leader":
                    return node
            return None

        new = await eventually(successor, what="a successor")
        async with QuorumClient([new.api], timeout_ms=15_000) as client:
            await eventually(lambda: client.put("key", b"new"), what="a write to the successor")
        read = asyncio.get_running_loop().create_task(stale.get("key"))
        await asyncio.sleep(0.2)
        leader.signal(signal.SIGCONT)
        try:
            entry = await read
        except ClientError:
            return  # any refusal will do, an old value will not
        assert entry is not None
        assert entry.value == b"new"


@pytest.mark.quorum_settings(**LEASES)
async def test_a_promise_is_remembered_until_it_is_over(quorum):
    await quorum.form(1)
    [node] = quorum.nodes[:1]
    assert remembered_ms(node) == PROMISE_MS
    node.kill()
    node.environment["RAFTNODE_READ_LEASE_CLOCK_DRIFT_PERCENT"] = "0"
    started = time.monotonic()
    node.start()
    assert remembered_ms(node) == PROMISE_MS
    await quorum.leader()
    assert (time.monotonic() - started) * 1000 >= PROMISE_MS, "it voted for itself too early"

    async def forgotten() -> bool | None:
        return True if remembered_ms(node) == 0 else None

    await eventually(forgotten, what="an end of the promise")
