"""Rot in what was durable: the node ends, keeps its files, and no later start hides it."""

import signal
from pathlib import Path

import aiohttp
import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.errors import ExitCode

from .test_ends import end_of

pytestmark = pytest.mark.timeout(300)

LOG = "__cluster_metadata-0"


def rot(path: Path, text: bytes) -> None:
    """Flip a bit where a text stands in a file."""
    content = bytearray(path.read_bytes())
    content[content.index(text)] ^= 1
    path.write_bytes(content)


async def stopped_follower(quorum: LocalQuorum) -> LocalNode:
    """A follower with its share of some writes, stopped cleanly."""
    leader = await quorum.leader()
    follower = next(node for node in quorum.nodes[:3] if node is not leader)
    await quorum.client.put("early", b"an old record")
    await quorum.client.put("late", b"a later one")
    end = (await quorum.info(leader)).high_watermark

    async def caught_up() -> bool | None:
        return (await quorum.info(follower)).durable_end_offset >= end or None

    await eventually(caught_up, what="the follower")
    follower.stop()
    return follower


async def test_a_node_that_refuses_says_so_where_health_is_asked_for(quorum):
    await quorum.form(1)
    node = quorum.nodes[0]
    node.stop()
    node.environment["RAFTNODE_DAMAGE_REPORT_MS"] = "60000"
    rot(node.directory / LOG / "quorum-state", b"leaderEpoch")
    node.start()

    async def told() -> tuple[int, dict[str, str]] | None:
        url = f"http://{node.api}/healthz/ready"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.json()

    status, body = await eventually(told, what="an answer")
    assert (status, body["error"]) == (503, "NOT_READY")
    assert "must be replaced" in body["message"]
    assert "quorum-state" in body["message"]
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{node.api}/healthz/live") as answer:
            assert answer.status == 200
        async with session.get(f"http://{node.api}/metrics") as answer:
            assert "raftnode_storage_damaged 1.0" in await answer.text()
        async with session.get(f"http://{node.api}/v1/log?offset=0") as answer:
            assert answer.status == 503
    node.signal(signal.SIGTERM)
    code, _ = await end_of(node)
    assert code == ExitCode.STORAGE_CORRUPT


async def test_a_rotten_record_ends_the_node_for_good_and_the_rest_goes_on(quorum):
    await quorum.form(3)
    node = await stopped_follower(quorum)
    rot(node.directory / LOG / f"{0:020d}.log", b"an old record")
    messages = []
    for _ in range(2):
        node.start()
        code, message = await end_of(node)
        assert code == ExitCode.STORAGE_CORRUPT
        messages.append(message)
    assert messages[0] == messages[1]
    assert f"{0:020d}.log at byte" in messages[0]
    kept = node.directory / f"{LOG}.quarantined"
    assert str(kept) in messages[0]
    assert b"a later one" in (kept / f"{0:020d}.log").read_bytes()
    await quorum.put("after", b"the rest is a majority")

    node.wipe()
    node.start()
    await quorum.observe(node)
