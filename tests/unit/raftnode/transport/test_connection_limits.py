"""Who has to go when too many have come, over real connections: strangers first, voters last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, TCPConnector, WSMsgType

from raftnode.transport.connection_limits import Rank, who_goes
from raftnode.transport.hello import Hello, decode_hello, encode_hello

from .conftest import LONG_MS, PATIENT, Replica, fetch

FEW = replace(PATIENT, greetings_max=2, connections_max=4)


class Crowd:
    """Raw connections to a replica, from an address of their own."""

    def __init__(self, session: ClientSession, to: Replica, local: str) -> None:
        self.session, self.to, self.local = session, to, local
        self.streams: list[asyncio.StreamWriter] = []

    async def stands_at_the_door(self) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(
            self.to.host, self.to.port, local_addr=(self.local, 0)
        )
        self.streams.append(writer)
        return reader

    async def says_no_hello(self) -> ClientWebSocketResponse:
        return await self.session.ws_connect(f"ws://{self.to.endpoint}/v1/peer")

    async def says_hello(self, caller: Replica) -> ClientWebSocketResponse:
        opened = await self.says_no_hello()
        await opened.send_bytes(encode_hello(Hello(caller.identity, wants=self.to.key)))
        assert decode_hello(await opened.receive_bytes())
        return opened


@contextlib.asynccontextmanager
async def crowd(to: Replica, local: str) -> AsyncIterator[Crowd]:
    async with ClientSession(connector=TCPConnector(local_addr=(local, 0))) as session:
        made = Crowd(session, to, local)
        try:
            yield made
        finally:
            for writer in made.streams:
                writer.close()


async def is_cut(opened: ClientWebSocketResponse) -> None:
    async with asyncio.timeout(LONG_MS / 1000):
        while (await opened.receive()).type in (WSMsgType.BINARY, WSMsgType.TEXT):
            pass


async def answers(caller: Replica, server: Replica, token: int) -> None:
    caller.addresses.learn_hello(server.key, server.endpoint)
    caller.pool.send(server.key, fetch(caller.key, token), LONG_MS)
    assert (await caller.responses.get())[2].round_token == token


async def test_strangers_give_way_to_voters_and_then_to_observers(replica, network) -> None:
    ranks = {}
    server = replica(2, settings=FEW, rank=lambda key: ranks.get(key, Rank.STRANGER))
    await server.listen()
    server.echo()
    voters, observers = [replica(8), replica(9)], [replica(10), replica(11)]
    ranks |= {one.key: Rank.VOTER for one in voters} | {one.key: Rank.OBSERVER for one in observers}
    async with crowd(server, network.host(9)) as strangers:
        held = [await strangers.says_hello(replica(20 + number)) for number in range(4)]
        for token, one in enumerate([*observers, *voters]):
            await answers(one, server, token)
        for one in held:
            await is_cut(one)
        # All places are taken by those who matter more: a stranger hears that there is none.
        with pytest.raises(TypeError):
            await strangers.says_hello(replica(30))
        # And a third voter goes before an observer.
        third = replica(12)
        ranks[third.key] = Rank.VOTER
        await answers(third, server, 9)
        assert server.server.connections[observers[0].key] == 0
        assert {one.key for one in voters} < set(server.server.connections)


async def test_a_connection_without_a_hello_gives_way_to_the_next(replica, network) -> None:
    """Half-open connections, upgrades without a hello, and many of them again and again."""
    server = replica(2, settings=FEW)
    await server.listen()
    server.echo()
    async with crowd(server, network.host(9)) as strangers:
        first = await strangers.says_no_hello()
        for token in range(3):
            silent = [await strangers.says_no_hello() for _ in range(6)]
            await answers(replica(8 + token), server, token)
            await is_cut(silent[0])
        await is_cut(first)
        assert server.server.connections.total() == 3


async def test_a_connection_that_asks_for_nothing_ends(replica, network) -> None:
    hasty = replace(PATIENT, hello_timeout_ms=100)
    server = replica(2, settings=hasty)
    await server.listen()
    async with crowd(server, network.host(9)) as strangers:
        reader = await strangers.stands_at_the_door()
        async with asyncio.timeout(LONG_MS / 1000):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


async def test_a_slow_hello_is_waited_for_while_there_is_room(replica, network) -> None:
    server = replica(2, settings=FEW)
    await server.listen()
    async with crowd(server, network.host(9)) as strangers:
        slow = await strangers.says_no_hello()
        caller = replica(8)
        await asyncio.sleep(0.5)
        await slow.send_bytes(encode_hello(Hello(caller.identity, wants=server.key)))
        assert decode_hello(await slow.receive_bytes())
        # It has a seat now: those who come after it do not displace it.
        for _ in range(6):
            await strangers.says_no_hello()
        assert server.server.connections[caller.key] == 1


def test_the_oldest_of_the_fullest_address_goes_first():
    strangers = [("a1", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")]
    held = [(name, Rank.STRANGER, at) for name, at in strangers]
    assert who_goes([]) is None
    assert who_goes(held) == ("b1", Rank.STRANGER)
    assert who_goes([("v", Rank.VOTER, "b"), *held[:1]]) == ("a1", Rank.STRANGER)
    voters = [("v1", Rank.VOTER, "a"), ("v2", Rank.VOTER, "b")]
    assert who_goes(voters) == ("v1", Rank.VOTER)
    assert who_goes([*voters, ("o", Rank.OBSERVER, "a")]) == ("o", Rank.OBSERVER)
