"""Replicas with real sockets: a server, a pool, and what they reported."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest
from aiohttp import web

from proofkit.loopback import LoopbackNetwork
from raftnode.api.server import ApiServer
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.records import Batch
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from raftnode.tls.failures import Reason
from raftnode.tls.files import TlsFiles
from raftnode.tls.handshakes import ListenerTls
from raftnode.transport import (
    AddressBook,
    HostsFileResolver,
    Identity,
    PeerContext,
    PeerPool,
    PeerServer,
    PeerTls,
    RefusalReason,
    TransportSettings,
)
from raftnode.transport.connection_limits import Rank
from raftnode.transport.gate import Gate, OpenGate
from raftnode.wire import Codec

CLUSTER = "jzIrVDQ0QXu0bBSbPcyDpA"

LONG_MS = 60_000
"""What nothing takes that goes well, however busy the machine."""
PATIENT = TransportSettings(
    connect_timeout_ms=LONG_MS, hello_timeout_ms=LONG_MS, heartbeat_ms=LONG_MS, close_timeout_ms=50
)
"""A machine that stands still for a while is no peer that is gone; only goodbyes are short."""


class Tasks:
    """A spawner that holds its tasks and shows, at the end, which were left or failed."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self.failed: list[BaseException] = []

    def __call__(self, coroutine: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self.running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed.append(error)


def one_batch(data: bytes | memoryview, *, allow_partial_tail: bool = False) -> tuple[Batch, ...]:
    return (Batch(Offset(0), Offset(0), Epoch(1), bytes(data)),)


def fetch(replica: ReplicaKey, token: int = 0) -> FetchRequest:
    return FetchRequest(
        epoch=Epoch(1),
        replica=replica,
        fetch_offset=Offset(0),
        last_fetched_epoch=Epoch(-1),
        acknowledged_offset=Offset(0),
        high_watermark=Offset(0),
        round_token=token,
        incarnation=1,
        max_bytes=1 << 20,
        max_wait_ms=500,
    )


def fetched(token: int = 0, data: bytes = b"", leader: ReplicaKey | None = None) -> FetchResponse:
    batches = (Batch(Offset(0), Offset(0), Epoch(1), data),) if data else ()
    return FetchResponse(
        error=ErrorCode.NONE,
        epoch=Epoch(1),
        leader=leader,
        leader_endpoint=Endpoint("127.0.0.1", 9) if leader else None,
        batches=batches,
        round_token=token,
    )


class TrustingTls(PeerTls):
    """Of a replica that lies, and accepts every certificate."""

    def judge(self, *_args, **_kwargs) -> None:
        return None


class Replica:
    """One replica; `requests`, `responses`, `failures` queue what its callbacks were told."""

    def __init__(
        self,
        node_id: int,
        *,
        host: str,
        cluster_id: str | None = CLUSTER,
        bootstrap: tuple[Endpoint, ...] = (),
        settings: TransportSettings = PATIENT,
        directory: int = 0,
        resolver: Callable[[Tasks], HostsFileResolver] | None = None,
        gate: Gate | None = None,
        rank: Callable[[ReplicaKey], Rank] | None = None,
        tls: TlsFiles | None = None,
        trusts_all: bool = False,
    ) -> None:
        self.gate, self.rank = gate, rank
        self.tls = tls
        self.judging = TrustingTls if trusts_all else PeerTls
        self.tls_failures: list[tuple[str, str]] = []
        self.key = ReplicaKey(NodeId(node_id), uuid.UUID(int=1000 * node_id + directory + 1))
        self.identity = Identity(self.key, cluster_id, 1)
        self.codec = Codec(one_batch)
        self.tasks = Tasks()
        self.requests: asyncio.Queue = asyncio.Queue()
        self.responses: asyncio.Queue = asyncio.Queue()
        self.failures: asyncio.Queue = asyncio.Queue()
        self.hellos: list[Identity] = []
        self.refused: list[tuple[RefusalReason, ReplicaKey | None, str]] = []
        self.settings = settings
        self.addresses = AddressBook(bootstrap)
        self.pool = PeerPool(
            self.context(),
            addresses=self.addresses,
            on_response=lambda *args: self.responses.put_nowait(args),
            on_failure=lambda *args: self.failures.put_nowait(args),
            rng=random.Random(1),
            resolver=resolver(self.tasks) if resolver else None,
        )
        self.server: PeerServer | None = None
        self.listener: ApiServer | None = None
        self.host, self.port = host, 0
        self.echoes = False

    def context(self) -> PeerContext:
        return PeerContext(
            self.codec,
            lambda: self.identity,
            self.tasks,
            self.gate or OpenGate(),
            self.settings,
            tls=None if self.tls is None else self.judging(self.tls, self._on_tls_failure),
        )

    def _on_tls_failure(self, listener: str, reason: Reason, address: str, detail: str) -> None:
        self.tls_failures.append((listener, reason.value))

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)

    async def listen(self, port: int = 0) -> Endpoint:
        self.server = PeerServer(
            self.context(),
            on_request=self._on_request,
            on_hello=self.hellos.append,
            on_refused=lambda *refused: self.refused.append(refused),
            rank=self.rank,
        )
        app = web.Application()
        app.router.add_get("/v1/peer", self.server.handle)
        tls = None
        if self.tls is not None:
            tls = ListenerTls(self.tls, self.tasks, self._on_tls_failure, LONG_MS / 1000)
        self.listener = ApiServer(
            app,
            shutdown_grace_ms=100,
            on_connection=self.server.lobby.enter,
            on_gone=self.server.lobby.leave,
            tls=tls,
        )
        self.port = (await self.listener.start(Endpoint(self.host, port))).port
        return self.endpoint

    async def stop_listening(self) -> None:
        if self.server is not None and self.listener is not None:
            await self.server.close()
            await self.listener.stop()
        self.server = self.listener = None

    def echo(self) -> None:
        """From now on, answer each request at once with its own token."""
        self.echoes = True

    def _on_request(self, source, request, respond) -> None:
        if self.echoes:
            respond(fetched(request.round_token))
        else:
            self.requests.put_nowait((source, request, respond))

    async def close(self) -> None:
        await self.pool.close()
        await self.stop_listening()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not self.tasks.running, "tasks were left behind"
        assert not self.tasks.failed, self.tasks.failed


@pytest.fixture
async def replica(session_network: LoopbackNetwork) -> AsyncIterator[Callable[..., Replica]]:
    """Makes replicas and closes them; a task left behind or failed fails the test."""
    made: list[Replica] = []

    def make(node_id: int, **kwargs) -> Replica:
        made.append(Replica(node_id, host=session_network.host(1), **kwargs))
        return made[-1]

    yield make
    for each in made:
        await each.close()
