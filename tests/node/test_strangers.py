"""Strangers at the peers' port, many at once: no voter is kept out, and no new replica for long."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.core.types import Endpoint, NodeId, ReplicaKey
from raftnode.transport.hello import Hello, Identity, encode_hello

pytestmark = pytest.mark.timeout(300)

AT_ONCE = 140
"""At each node: more than it has room for."""

Stranger = Callable[[aiohttp.ClientSession, Endpoint], Awaitable[None]]


async def says_nothing(session: aiohttp.ClientSession, at: Endpoint) -> None:
    """Connects and never asks for anything."""
    assert session.connector is not None
    local = session.connector._local_addr_infos[0][4]  # type: ignore[attr-defined]
    reader, writer = await asyncio.open_connection(at.host, at.port, local_addr=local)
    try:
        await reader.read()
    finally:
        writer.close()


async def says_no_hello(session: aiohttp.ClientSession, at: Endpoint) -> None:
    """Asks for the protocol of the peers, and does not say who it is."""
    async with session.ws_connect(f"http://{at}/v1/peer") as socket:
        await socket.receive()


async def has_a_name_of_its_own(session: aiohttp.ClientSession, at: Endpoint) -> None:
    """Says that it is a replica that does not know its cluster yet; answers pings."""
    key = ReplicaKey(NodeId(77), uuid.uuid4())
    async with session.ws_connect(f"http://{at}/v1/peer") as socket:
        await socket.send_bytes(encode_hello(Hello(Identity(key, None, 1))))
        while (await socket.receive()).type is aiohttp.WSMsgType.BINARY:
            pass


KINDS = [
    pytest.param(says_nothing, marks=pytest.mark.extended),
    pytest.param(says_no_hello, marks=pytest.mark.extended),
    has_a_name_of_its_own,
]


@contextlib.asynccontextmanager
async def crowd(quorum: LocalQuorum, stranger: Stranger, host: str) -> AsyncIterator[None]:
    """Keep so many strangers at each node as it takes; a stranger that is sent away comes again."""
    connector = aiohttp.TCPConnector(limit=0, local_addr=(host, 0), force_close=True)

    async def insist(session: aiohttp.ClientSession, at: Endpoint) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await stranger(session, at)
            await asyncio.sleep(0.2)

    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(insist(session, node.peer))
            for node in quorum.nodes[:3]
            for _ in range(AT_ONCE)
        ]
        try:
            await asyncio.sleep(2)
            yield
        finally:
            for task in tasks:
                task.cancel()


async def caught_up(quorum: LocalQuorum, node: LocalNode) -> None:
    async def look() -> bool | None:
        [voter] = [one for one in (await quorum.describe()).voters if one.node_id == node.node_id]
        return voter.caught_up or None

    await eventually(look, what=f"node {node.node_id} to catch up")


@pytest.mark.parametrize("stranger", KINDS)
async def test_a_killed_voter_comes_back_among_strangers(quorum, network, stranger: Stranger):
    await quorum.form(3)
    leader = await quorum.leader()
    other, killed = (node for node in quorum.nodes[:3] if node is not leader)
    async with crowd(quorum, stranger, network.host(200)):
        killed.kill()
        await quorum.put("while", b"it is away")
        killed.start()
        await caught_up(quorum, killed)
        # It counts: without the third node the two of them commit.
        other.kill()
        await quorum.put("with", b"the one that came back")
        other.start()
        await caught_up(quorum, other)


@pytest.mark.extended
async def test_a_blank_replica_joins_among_strangers(quorum, network):
    await quorum.form(3)
    async with crowd(quorum, has_a_name_of_its_own, network.host(200)):
        blank = quorum.nodes[3]
        blank.start()
        await quorum.observe(blank)
