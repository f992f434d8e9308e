"""Rot in what was durable: the node ends, keeps its files, and no later start hides it."""

from pathlib import Path

import pytest

from raftnode.errors import ExitCode
from raftnode.testing.localquorum import LocalNode, LocalQuorum, eventually

from .test_ends import end_of

pytestmark = pytest.mark.timeout(120)

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

    await eventually(caught_up, within_s=10, what="the follower")
    follower.stop()
    return follower


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
    await quorum.client.put("after", b"the rest is a majority")

    node.wipe()
    node.start()
    await quorum.observe(node)
