"""S3: no message of a replica is taken before, or after, its start passes the gate."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from raftnode.core.types import Endpoint
from raftnode.transport import FailureReason, Identity, RefusalReason
from raftnode.transport.hello import Refusal

from .conftest import CLUSTER, LONG_MS, PATIENT, Replica, fetch, fetched


class Gate:
    """Refuses the incarnations that it is told to."""

    def __init__(self) -> None:
        self.owner: Replica | None = None
        self.stale: set[int] = set()
        self.outdated: set[int] = set()
        self.admitted: list[Identity] = []
        self.opened = asyncio.Event()
        self.told: asyncio.Queue[Refusal] = asyncio.Queue()

    async def admit(self, peer: Identity) -> Refusal | None:
        assert self.owner is not None
        if peer.incarnation in self.stale:
            return Refusal(RefusalReason.STALE_STORAGE, "gone back", self.owner.key, CLUSTER)
        self.admitted.append(peer)
        self.opened.set()
        return None

    def is_current(self, peer: Identity) -> bool:
        return peer.incarnation not in self.outdated

    def refused(self, refusal: Refusal) -> None:
        self.told.put_nowait(refusal)


@pytest.fixture
async def gated(replica) -> tuple[Replica, Gate, Replica, Gate]:
    """Two replicas that know each other, with incarnations 1 and 2, and their gates."""
    gates = Gate(), Gate()
    a, b = (replica(number, gate=gate) for number, gate in enumerate(gates, 1))
    for one, gate in zip((a, b), gates, strict=True):
        gate.owner = one
        one.identity = replace(one.identity, incarnation=one.key.node_id)
        await one.listen()
    a.addresses.learn_hello(b.key, b.endpoint)
    b.addresses.learn_hello(a.key, a.endpoint)
    return a, gates[0], b, gates[1]


async def test_both_ends_judge_each_other(gated) -> None:
    a, gate_a, b, gate_b = gated
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await b.requests.get()
    assert gate_a.admitted == [b.identity]
    assert gate_b.admitted == [a.identity]


async def test_a_stale_dialler_is_told_and_asks_nothing(gated) -> None:
    """Leaving the gate out of `PeerServer._greet` makes this fail."""
    a, gate_a, b, gate_b = gated
    gate_b.stale.add(1)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert (failure.reason, failure.refusal) == (
        FailureReason.REFUSED,
        RefusalReason.STALE_STORAGE,
    )
    refusal = gate_a.told.get_nowait()
    assert (refusal.replica, refusal.cluster_id, refusal.detail) == (b.key, CLUSTER, "gone back")
    assert b.requests.empty()


async def test_a_stale_acceptor_is_told_and_is_asked_nothing(gated) -> None:
    """Leaving the gate out of `dial._greet`, or the refusal out of the server, fails this."""
    a, gate_a, b, gate_b = gated
    gate_a.stale.add(2)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.refusal is RefusalReason.STALE_STORAGE
    async with asyncio.timeout(30):
        refusal = await gate_b.told.get()
    assert (refusal.reason, refusal.replica) == (RefusalReason.STALE_STORAGE, a.key)
    assert b.requests.empty()


async def test_a_dialler_speaks_only_for_itself(gated, monkeypatch) -> None:
    a, _, b, gate_b = gated
    forged = Refusal(RefusalReason.STALE_STORAGE, "forged", b.key, CLUSTER)
    monkeypatch.setattr("raftnode.transport.dial.refusal_of", lambda *_, **__: forged)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await a.failures.get()
    await asyncio.sleep(0.1)
    assert gate_b.told.empty()


async def test_frames_of_an_earlier_start_are_taken_no_more(gated) -> None:
    """Taking `is_current` out of `_Connection.receive` makes this fail."""
    a, _, b, gate_b = gated
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await b.requests.get()
    gate_b.outdated.add(1)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.DISCONNECTED
    assert b.requests.empty()


async def test_answers_of_an_earlier_start_are_taken_no_more(gated) -> None:
    """Taking `is_current` out of `Link._receive` makes this fail."""
    a, gate_a, b, _ = gated
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, respond = await b.requests.get()
    gate_a.outdated.add(2)
    respond(fetched())
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.DISCONNECTED
    assert a.responses.empty()


async def test_greeting_says_hello_and_nothing_else(gated) -> None:
    a, gate_a, b, gate_b = gated
    a.pool.greet(b.key)
    async with asyncio.timeout(30):
        await gate_a.opened.wait()
    await asyncio.sleep(0)
    assert a.pool.connected == (b.identity,)
    assert gate_b.admitted == [a.identity]
    assert b.requests.empty()
    a.pool.greet(b.key)
    a.pool.greet(a.key)
    await asyncio.sleep(0.1)
    assert b.server.connections[a.key] == 1


async def test_greeting_a_node_that_is_away_is_tried_once(replica) -> None:
    a, b = replica(1), replica(2)
    a.pool.greet(b.key)
    await asyncio.sleep(0.2)
    assert a.pool.connected == ()
    assert not a.tasks.running


async def test_greeting_the_bootstrap_addresses_leaves_out_the_own(gated, replica) -> None:
    """It is over when each was tried once, whichever replica answers."""
    a, _, b, _ = gated
    away = replica(3)
    a.addresses.bootstrap = (a.endpoint, away.endpoint, b.endpoint)
    a.identity = replace(a.identity, peer_endpoint=a.endpoint)
    for _ in range(2):
        async with asyncio.timeout(30):
            await a.pool.greet_bootstrap()
        assert a.pool.connected == (b.identity,)
        assert b.server.connections[a.key] == 1
        assert a.key not in a.server.connections
    assert b.requests.empty()


async def test_greeting_waits_for_who_is_slow_to_answer_and_no_longer(replica) -> None:
    """Without the wait the only voter could lead before it is told that it is an old copy."""
    writers: list[asyncio.StreamWriter] = []
    listening = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    slow = Endpoint("127.0.0.1", listening.sockets[0].getsockname()[1])
    a = replica(1, bootstrap=(slow,), settings=replace(PATIENT, connect_timeout_ms=300))
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(30):
        await a.pool.greet_bootstrap()
    assert asyncio.get_running_loop().time() - began >= 0.29
    for writer in writers:
        writer.close()
    listening.close()
