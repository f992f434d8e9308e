"""A connection that breaks in any way fails its calls, never the node."""

import asyncio
import random
import uuid
from types import SimpleNamespace

import pytest
from aiohttp import ClientConnectionResetError

from raftnode.core.messages import VoteRequest
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.logformat.batch import decode_batches
from raftnode.runtime.process.tasks import Tasks
from raftnode.transport import AddressBook, FailureReason, Identity, link
from raftnode.transport.context import PeerContext
from raftnode.transport.dial import Dialled
from raftnode.wire import Codec

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
        ssl=None,
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
