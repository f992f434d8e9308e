"""A connection that breaks in any way fails its calls, never the node."""

import asyncio
import random
import uuid
from types import SimpleNamespace

import pytest
from aiohttp import ClientConnectionResetError, web

from raftnode.api.server import ApiServer
from raftnode.core.messages import VoteRequest
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.logformat import decode_batches
from raftnode.runtime.process.tasks import Tasks
from raftnode.transport import AddressBook, FailureReason, Identity, link
from raftnode.transport.context import PeerContext
from raftnode.transport.dial import Dialled
from raftnode.transport.hello import Hello, encode_hello
from raftnode.wire import Codec
from raftnode.wire.envelope import decode_envelope

from .conftest import CLUSTER, LONG_MS, fetch

OWN, PEER = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2))
VOTE = VoteRequest(Epoch(1), OWN, PEER, LogPosition(Epoch(-1), Offset(0)), False)


class BreakingSocket:
    """Takes frames, then raises from within its own answer to a ping, as aiohttp's does."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.got = asyncio.Event()

    async def send_bytes(self, _data: bytes) -> None:
        self.got.set()

    def __aiter__(self):
        return self

    async def __anext__(self):
        await self.got.wait()
        raise self.error

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "error",
    [ClientConnectionResetError("Cannot write to closing transport"), RuntimeError("closing")],
    ids=lambda error: type(error).__name__,
)
async def test_a_ping_that_cannot_be_answered_ends_the_connection_only(monkeypatch, error):
    """Seen on a leader that was paused and went on: it ended with a fault of the program."""
    socket = BreakingSocket(error)

    async def dial(*_args, **_kwargs) -> Dialled:
        return Dialled(socket, Identity(PEER, "c", 1), Endpoint("h", 1), "c")

    monkeypatch.setattr(link, "dial", dial)
    faults, failed = [], asyncio.get_running_loop().create_future()
    tasks = Tasks(faults.append)
    around = link.Surroundings(
        context=PeerContext(
            Codec(decode_batches=decode_batches), lambda: Identity(OWN, "c", 1), tasks
        ),
        session=SimpleNamespace(),
        addresses=AddressBook(),
        on_hello=lambda _: None,
        rng=random.Random(0),
    )
    made = link.Link(around, wants=PEER, candidates=lambda: (Endpoint("h", 1),))
    deadline = asyncio.get_running_loop().time() + 60
    made.send(link.Call(VOTE, deadline, lambda *_: None, failed.set_result))
    async with asyncio.timeout(60):
        failure = await failed
    assert failure.reason is FailureReason.DISCONNECTED
    await made.close()
    await tasks.cancel_all()
    assert faults == []


@pytest.mark.rule("S28")
@pytest.mark.without("transport.dial:_greet", "theirs.version_max >= COMPACT_FETCH_VERSION", "True")
async def test_a_peer_of_an_earlier_program_gets_kafkas_fetch(replica, session_network) -> None:
    got: asyncio.Queue[int] = asyncio.Queue()

    async def answer(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.receive_bytes()
        hello = Hello(Identity(PEER, CLUSTER, 1), version_max=versions[0])
        await ws.send_bytes(encode_hello(hello))
        got.put_nowait(decode_envelope(await ws.receive_bytes())[0].api_key)
        return ws

    app = web.Application()
    app.router.add_get("/v1/peer", answer)
    listener = ApiServer(app, shutdown_grace_ms=100)
    endpoint = await listener.start(Endpoint(session_network.host(1), 0))
    versions = [1]
    try:
        for node_id, versions[0], api_key in ((8, 1, 1), (9, 2, 1001), (10, 9, 1001)):
            me = replica(node_id)
            me.addresses.learn_hello(PEER, endpoint)
            me.pool.send(PEER, fetch(me.key, 5), LONG_MS)
            async with asyncio.timeout(60):
                assert await got.get() == api_key
    finally:
        await listener.stop()
