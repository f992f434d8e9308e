"""The listener that accepts TLS: what counts as a connection, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, web

from proofkit.certificates import SPIFFE, Authority
from proofkit.loopback import LoopbackNetwork
from raftnode.api.guard import GUARD, Guard
from raftnode.api.server import ApiServer
from raftnode.core.types import Endpoint
from raftnode.limits.model import ClientLimits, Limit
from raftnode.tls import peer_certificate
from raftnode.tls.failures import Reason
from raftnode.tls.files import TlsFiles
from raftnode.tls.handshakes import HANDSHAKES_PER_TURN, ListenerTls
from raftnode.tls.material import TlsRules

from .test_material import AUTHORITY, CLUSTER

CLIENTS = Authority("clients")


class Listener:
    """A server with TLS, and what its clients do to it."""

    def __init__(self, directory: Path, mode: str, client_certificates: str, limits: dict) -> None:
        made = AUTHORITY.issue(directory, hosts=["localhost"])
        (directory / "clients.crt").write_bytes(CLIENTS.pem)
        self.rules = TlsRules(
            listener="api",
            mode=mode,  # type: ignore[arg-type]
            certificate_file=made.certificate,
            key_file=made.key,
            ca_file=directory / "clients.crt",
            client_certificates=client_certificates,  # type: ignore[arg-type]
            min_version="1.3",
            node_id=1,
        )
        self.failed: list[str] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.guard = Guard(ClientLimits(**limits))
        self.ended: list[Limit] = []
        refused = self.guard.refused
        self.guard.refused = lambda limit, by: (self.ended.append(limit), refused(limit, by))[1]  # type: ignore[method-assign]
        self.guard.connections._on_refused = self.guard.refused
        self.at = Endpoint("", 1)

    def spawn(self, coroutine: Any, *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def on_failed(self, _listener: str, reason: Reason, _address: str, _detail: str) -> None:
        self.failed.append(reason.value)

    async def start(self, host: str, handshake_s: float) -> None:
        async def hello(request: web.Request) -> web.Response:
            certificate = peer_certificate(request.transport)
            return web.Response(text=certificate.common_name if certificate else "none")

        app = web.Application()
        app[GUARD] = self.guard
        app.router.add_get("/", hello)
        tls = ListenerTls(TlsFiles(self.rules), self.spawn, self.on_failed, handshake_s)
        self.server = ApiServer(app, shutdown_grace_ms=50, tls=tls)
        self.at = await self.server.start(Endpoint(host, 0))

    def context(self, directory: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        context.check_hostname = False
        if directory is not None:
            uri = f"{SPIFFE}/{CLUSTER}/client/app"
            made = CLIENTS.issue(directory, uris=[uri], common_name="app")
            context.load_cert_chain(made.certificate, made.key)
        return context

    async def get(self, context: ssl.SSLContext | None) -> str:
        scheme = "http" if context is None else "https"
        async with (
            ClientSession() as session,
            session.get(f"{scheme}://{self.at}/", ssl=context or True) as answer,
        ):
            return await answer.text()


Start = Callable[..., Any]


@pytest.fixture
async def listener(tmp_path: Path, session_network: LoopbackNetwork) -> AsyncIterator[Start]:
    made: list[Listener] = []

    async def start(
        mode="required",
        client_certificates="optional",
        handshake_s=30.0,
        min_version="1.3",
        **limits,
    ) -> Listener:
        made.append(Listener(tmp_path, mode, client_certificates, limits))
        made[-1].rules = replace(made[-1].rules, min_version=min_version)
        await made[-1].start(session_network.host(1), handshake_s)
        return made[-1]

    yield start
    for each in made:
        await each.server.stop()
        for task in tuple(each.tasks):
            task.cancel()
        await asyncio.gather(*each.tasks, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_handler_knows_the_clients_certificate(listener, tmp_path):
    at = await listener()
    assert await at.get(at.context(tmp_path / "client")) == "app"
    assert await at.get(at.context()) == "none"
    assert at.failed == []


async def test_a_client_without_a_certificate_is_refused_where_it_needs_one(listener, tmp_path):
    at = await listener(client_certificates="required")
    with pytest.raises(ClientError):
        await at.get(at.context())
    assert set(at.failed) == {"no_certificate"}
    assert await at.get(at.context(tmp_path / "client")) == "app"


async def test_plain_connections_where_both_are_accepted(listener):
    at = await listener("permissive")
    assert await at.get(None) == "none"
    assert await at.get(at.context()) == "none"
    assert at.failed == []


async def test_a_plain_connection_to_a_listener_that_requires_tls_is_closed(listener):
    at = await listener("required")
    with pytest.raises(ClientError):
        await at.get(None)
    assert set(at.failed) == {"plaintext"}
    assert at.guard.connections.total == 0


async def connect(at: Listener) -> socket.socket:
    loop = asyncio.get_running_loop()
    opened = socket.socket()
    opened.setblocking(False)
    await loop.sock_connect(opened, (at.at.host, at.at.port))
    return opened


@pytest.mark.without(
    "api.client_connection:ClientConnection.arrive", "self._count(transport)", "pass"
)
async def test_a_connection_counts_before_its_handshake(listener):
    at = await listener(connections_max=8, address_connections_max=4)
    held = [await connect(at) for _ in range(6)]
    try:
        # At least as long as a regular client needs, all connections are there.
        assert await at.get(at.context()) == "none"
        assert at.guard.connections.total <= 4
        assert Limit.ADDRESS_CONNECTIONS in at.ended
    finally:
        for each in held:
            each.close()
    await until(lambda: at.guard.connections.total == 0)


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00" + bytes(10)])
async def test_a_handshake_that_does_not_end_is_cut_off(sent, listener):
    at = await listener(handshake_s=0.3)
    opened = await connect(at)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(opened, sent)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                assert await loop.sock_recv(opened, 1) == b""
    finally:
        opened.close()
    assert at.failed == ["timeout"]
    assert at.guard.connections.total == 0
    assert not at.tasks


async def test_the_time_for_a_head_runs_from_when_the_connection_is_accepted(listener):
    at = await listener(head_timeout_ms=200)
    opened = await connect(at)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                assert await loop.sock_recv(opened, 1) == b""
    finally:
        opened.close()
    assert at.ended == [Limit.HEAD_TIME]


async def test_garbage_that_begins_as_tls_is_refused(listener):
    at = await listener()
    opened = await connect(at)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(opened, b"\x16" + bytes(300))
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                await loop.sock_recv(opened, 100)
    finally:
        opened.close()
    await until(lambda: at.failed)
    assert at.guard.connections.total == 0


async def test_a_client_in_pieces_is_served(listener):
    """The first message of a client may come in any number of packets."""
    at = await listener()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = at.context().wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    opened = await connect(at)
    loop = asyncio.get_running_loop()
    try:
        for part in (hello[:3], hello[3:40], hello[40:]):
            await loop.sock_sendall(opened, part)
            await asyncio.sleep(0.03)
        async with asyncio.timeout(30):
            while True:
                incoming.write(await loop.sock_recv(opened, 4096))
                try:
                    client.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                break
    finally:
        opened.close()
    assert at.failed == []


@pytest.mark.without(
    "tls.handshakes:_Arriving._shake_hands", "await self._starts.start(address)", "pass"
)
async def test_a_turn_of_the_loop_starts_few_handshakes(listener, monkeypatch):
    at = await listener()
    loop = asyncio.get_running_loop()
    started: list[int] = []
    turns = 0
    real = loop.connect_accepted_socket

    def count_turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(count_turn)

    async def noted(*args: Any, **kwargs: Any) -> Any:
        started.append(turns)
        return await real(*args, **kwargs)

    monkeypatch.setattr(loop, "connect_accepted_socket", noted)
    loop.call_soon(count_turn)
    opened = [await connect(at) for _ in range(30)]
    hello = b""
    for each in opened:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            at.context().wrap_bio(incoming, outgoing).do_handshake()
        hello = outgoing.read()
        each.send(hello)
    try:
        await until(lambda: len(started) >= 30)
    finally:
        for each in opened:
            each.close()
    most = max(started.count(turn) for turn in set(started))
    assert most <= HANDSHAKES_PER_TURN


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
@pytest.mark.without(  # 256: OpenSSL 3 allows it to clients on demand alone
    "tls.material:_contexts",
    "ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION",
    "ssl.OP_NO_TICKET | 256",
)
async def test_a_client_that_asks_for_renegotiation_is_cut_off(listener):
    """TLS 1.3 has none; Python cannot ask for it."""
    at = await listener(min_version="1.2")
    client = await asyncio.create_subprocess_exec(
        *("openssl", "s_client", "-connect", str(at.at), "-tls1_2", "-quiet"),
        *("-no_ign_eof", "-legacy_renegotiation"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert client.stdin is not None
    await until(lambda: at.guard.connections.total == 1)
    client.stdin.write(b"R\n")  # a line with R alone
    await client.stdin.drain()
    async with asyncio.timeout(30):
        _, said = await client.communicate()
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said
    await until(lambda: at.guard.connections.total == 0)
    assert await at.get(at.context()) == "none"


async def test_a_stopped_listener_leaves_no_connection(listener):
    at = await listener()
    opened = await connect(at)
    await until(lambda: at.guard.connections.total == 1)
    await at.server.stop()
    assert at.guard.connections.total == 0
    opened.close()
