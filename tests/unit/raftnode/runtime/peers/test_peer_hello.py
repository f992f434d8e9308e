"""Who is said hello to, when, and how often: over real connections."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from tests.unit.raftnode.runtime.conftest import LONG_MS, until

from proofkit.loopback import LoopbackNetwork
from raftnode.core.log_index import LogIndex
from raftnode.core.replica import CoreConfig, Replica
from raftnode.core.state import QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, ReplicaKey, Voter, VoterSet
from raftnode.runtime.peers import peer_hello
from raftnode.runtime.peers.peer_hello import greet_before_leading, greet_voters
from raftnode.runtime.process.tasks import Tasks
from raftnode.transport import (
    AddressBook,
    Identity,
    PeerContext,
    PeerPool,
    PeerServer,
    TransportSettings,
)
from raftnode.wire import Codec

pytestmark = pytest.mark.rule("S3")
PATIENT = TransportSettings(
    connect_timeout_ms=LONG_MS, hello_timeout_ms=LONG_MS, heartbeat_ms=LONG_MS, close_timeout_ms=50
)
"""Connections end when a test ends them, and not because the machine stands still for a while."""


class Peer:
    """A replica's transport, and as much of its core as says who votes."""

    def __init__(self, node_id: int, host: str) -> None:
        self.key = ReplicaKey(NodeId(node_id), uuid.UUID(int=node_id))
        self.endpoint = Endpoint(host, 0)
        self.heard: list[ReplicaKey] = []
        self.failed: list[BaseException] = []
        self.tasks = Tasks(self.failed.append)
        self.addresses = AddressBook()
        self.codec = Codec(lambda *_, **__: ())
        self.context = PeerContext(self.codec, self.identity, self.tasks, settings=PATIENT)
        self.pool = PeerPool(
            self.context,
            addresses=self.addresses,
            on_response=lambda *_: None,
            on_failure=lambda *_: None,
            rng=random.Random(1),
        )
        self.core = self.knows()

    def identity(self) -> Identity:
        return Identity(self.key, "c", 1, self.endpoint)

    def knows(self, *voters: Peer) -> Replica:
        """From now on these are the voters."""
        self.voters = VoterSet.of([Voter(one.key, one.endpoint) for one in voters])
        self.addresses.set_voters(self.voters)
        self.core = Replica(
            self.key,
            CoreConfig(),
            random.Random(0),
            LogIndex(self.voters),
            QuorumState(Epoch(5)),
            "c",
        )
        return self.core

    async def listen(self, port: int = 0) -> None:
        self.server = PeerServer(
            self.context,
            on_request=lambda *_: None,
            on_hello=lambda who: self.heard.append(who.key),
        )
        app = web.Application()
        app.router.add_get("/v1/peer", self.server.handle)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, self.endpoint.host, port, reuse_address=True).start()
        self.endpoint = Endpoint(self.endpoint.host, self.runner.addresses[0][1])

    async def end(self) -> None:
        await self.server.close()
        await self.runner.cleanup()

    async def close(self) -> None:
        await self.pool.close()
        await self.end()
        assert self.failed == []


@pytest.fixture
async def three(session_network: LoopbackNetwork) -> AsyncIterator[tuple[Peer, Peer, Peer]]:
    """Each listens, and has the others' addresses to begin with."""
    one, two, other = (Peer(number, session_network.host(1)) for number in (1, 2, 3))
    made = one, two, other
    for one in made:
        await one.listen()
    for one in made:
        one.addresses.bootstrap = tuple(other.endpoint for other in made)
    yield made
    for one in made:
        await one.close()


@pytest.fixture
async def greets(monkeypatch) -> AsyncIterator[Callable[[Peer], None]]:
    """Has a node greet from now on, a hundred times as often as a node does."""
    monkeypatch.setattr(peer_hello, "INTERVAL_S", 0.01)
    monkeypatch.setattr(peer_hello, "ALONE_INTERVAL_S", 0.3)
    tasks: list[asyncio.Task[None]] = []

    def begin(one: Peer) -> None:
        greeting_task = greet_voters(one.pool, one.core)
        tasks.append(asyncio.get_running_loop().create_task(greeting_task))

    yield begin
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, asyncio.CancelledError)


async def test_the_only_voter_has_said_hello_at_each_address_before_it_may_lead(three):
    one, two, other = three
    await greet_before_leading(one.pool, one.knows(one))
    assert (two.heard, other.heard, one.heard) == ([one.key], [one.key], [])


@pytest.mark.parametrize("alone", [False, True])
async def test_who_needs_a_vote_or_has_no_voters_says_nothing_before(three, alone):
    """The others hear of it by `greet_voters`, in time for the election that it needs."""
    one, two, other = three
    await greet_before_leading(one.pool, one.knows() if alone else one.knows(one, two))
    assert (two.heard, other.heard) == ([], [])


async def test_the_voters_are_kept_connected_and_no_other_replica(three, greets):
    one, two, other = three
    one.knows(one, two)
    greets(one)
    await until(lambda: bool(two.heard))
    await asyncio.sleep(0.5)
    assert two.heard == [one.key], "one connection does"
    assert {peer.key for peer in one.pool.connected} == {two.key}
    assert other.heard == []
    # It ends and comes back, and is greeted without having been asked for anything.
    port = two.endpoint.port
    await two.end()
    await until(lambda: not one.pool.connected)
    await two.listen(port)
    await until(lambda: len(two.heard) == 2)


async def test_the_only_voter_asks_at_each_address_again_and_again_but_seldom(
    three, greets, monkeypatch
):
    """A replica that has outgrown it may have been away when it started."""
    one, two, other = three
    rounds, greet_bootstrap = 0, one.pool.greet_bootstrap

    async def counted() -> None:
        nonlocal rounds
        rounds += 1
        await greet_bootstrap()

    monkeypatch.setattr(one.pool, "greet_bootstrap", counted)
    one.knows(one)
    began = asyncio.get_running_loop().time()
    greets(one)
    await until(lambda: bool(two.heard and other.heard))
    assert asyncio.get_running_loop().time() - began >= 0.29, "the first round was before it led"
    port = two.endpoint.port
    await two.end()
    await until(lambda: {peer.key for peer in one.pool.connected} == {other.key})
    await two.listen(port)
    await until(lambda: len(two.heard) == 2)
    assert other.heard == [one.key]
    took = asyncio.get_running_loop().time() - began
    assert 2 <= rounds <= took / 0.3


async def test_a_blank_replica_greets_no_other(three, greets):
    one, two, other = three
    one.knows()
    greets(one)
    await asyncio.sleep(0.6)
    assert (two.heard, other.heard) == ([], [])
