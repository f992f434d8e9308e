"""Batches that a client has finished, on real nodes: read by all, restarted over and verified."""

from __future__ import annotations

import asyncio
import time

import pytest
from typer.testing import CliRunner

from proofkit.localquorum import LocalNode, LocalQuorum
from raftnode.cli import make_app
from raftnode.client import QuorumClient

pytestmark = pytest.mark.timeout(300)

VALUES = [bytes([number % 256]) * (number * 37 % 3000) for number in range(200)]


async def values_at(node: LocalNode, offset: int, count: int) -> list[bytes | None]:
    """The node's own records from an offset on, once they are there."""
    values: list[bytes | None] = []
    async with QuorumClient([node.api]) as client:
        async with asyncio.timeout(60):
            async for record in client.follow(offset):
                values.append(record.value)
                if len(values) == count:
                    break
    return values


async def test_every_replica_reads_and_recovers_what_a_client_has_encoded(quorum: LocalQuorum):
    await quorum.form(3)
    nodes = quorum.nodes[:3]
    began_ms = time.time_ns() // 1_000_000
    async with QuorumClient([node.api for node in nodes]) as client:
        await client.put("before", b"1")
        written = await asyncio.gather(*(client.append(VALUES) for _ in range(5)))
        await client.put("after", b"2")
        page = await client.read(written[0].base_offset)
        assert abs(page.records[0].timestamp_ms - began_ms) < 60_000, "the leader's time"
    bases = sorted(appended.base_offset for appended in written)
    assert [base - bases[0] for base in bases] == [len(VALUES) * number for number in range(5)]
    for node in nodes:
        assert await values_at(node, bases[0], 5 * len(VALUES)) == VALUES * 5
    leader = await quorum.leader()
    for node in nodes:
        node.kill()
    verified = CliRunner().invoke(
        make_app("log"), ["log", "verify", str(leader.directory)], catch_exceptions=False
    )
    assert verified.exit_code == 0, verified.output
    for node in nodes:
        node.start()
    for node in nodes:
        assert await values_at(node, bases[0], 5 * len(VALUES)) == VALUES * 5
    async with QuorumClient([node.api for node in nodes]) as client:
        value = await client.get("after")
        assert value is not None
        assert value.value == b"2"
