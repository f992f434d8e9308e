"""A client's certificate on a connection that stays open, by real handshakes."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proofkit.certificates import Authority, replace_file
from proofkit.memoryservice import MemoryService
from raftnode.access.access_file import open_access_file
from raftnode.api import session_route
from raftnode.api.authorization import Gate
from raftnode.api.guard import Guard
from raftnode.api.server import ApiServer, make_app
from raftnode.api.session_route import CLOSE_REFUSED
from raftnode.core.types import Endpoint
from raftnode.limits.model import ClientLimits
from raftnode.session import PATH, SUBPROTOCOL
from raftnode.tls.certificates import authorities_of, read_certificates
from raftnode.tls.files import TlsFiles
from raftnode.tls.handshakes import ListenerTls
from raftnode.tls.material import TlsRules

SERVERS, CLIENTS = Authority("servers"), Authority("clients")
VALID_S = 4


def spawn(coroutine: Any, *, name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine, name=name)


@dataclass(frozen=True, slots=True)
class Api:
    """A listener with TLS, and where it is."""

    at: Endpoint
    files: TlsFiles
    server: ApiServer

    async def trust(self, pem: bytes) -> None:
        """Take client certificates of these CAs alone from now on."""
        (ca_file,) = self.files.rules.paths[2:]
        replace_file(ca_file, pem)
        assert not await self.files.look()
        assert await self.files.look()
        self.server.end_former()


@asynccontextmanager
async def served(tmp_path: Path, *, with_access_file: bool) -> AsyncIterator[Api]:
    made = SERVERS.issue(tmp_path / "node", hosts=["127.0.0.1"])
    (tmp_path / "clients.crt").write_bytes(CLIENTS.pem)
    rules = TlsRules(
        listener="api",
        mode="required",
        certificate_file=made.certificate,
        key_file=made.key,
        ca_file=tmp_path / "clients.crt",
        client_certificates="required",
        min_version="1.3",
        node_id=1,
    )
    files, access_file = TlsFiles(rules), None
    if with_access_file:
        path = tmp_path / "access.json"
        grants = [{"roles": ["read", "write"]}]
        app = {"name": "app", "certificate_common_names": ["app"], "grants": grants}
        path.write_text(json.dumps({"subjects": [app]}))
        access_file = open_access_file(path)
    service = MemoryService()
    gate = Gate(service, access_file, trusted=lambda: files.material.trusted)
    app = make_app(
        service,
        registry=CollectorRegistry(),
        version="1",
        gate=gate,
        guard=Guard(ClientLimits()),
    )
    tls = ListenerTls(files, spawn, lambda *_: None, 30.0)
    server = ApiServer(app, shutdown_grace_ms=0, tls=tls)
    try:
        yield Api(await server.start(Endpoint("127.0.0.1", 0)), files, server)
    finally:
        await server.stop()


def context_of(
    tmp_path: Path, valid_s: float, ca: Authority = CLIENTS
) -> tuple[ssl.SSLContext, float]:
    """What a client connects with, and the Unix time at which its certificate ends."""
    end_s = math.ceil(time.time() + valid_s)
    left = dt.timedelta(seconds=end_s - time.time())
    files = ca.issue(tmp_path, common_name="app", valid_for=left)
    context = ssl.create_default_context(cadata=SERVERS.pem.decode())
    context.load_cert_chain(files.certificate, files.key)
    return context, end_s


class Connection:
    """A connection that stays open from one request to the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, at: Endpoint, context: ssl.SSLContext) -> Connection:
        return cls(*await asyncio.open_connection(at.host, at.port, ssl=context))

    async def put(self) -> tuple[int, bool, bytes]:
        """The status, whether the connection stays open, and the answer."""
        head = "PUT /v1/kv/colour HTTP/1.1\r\nHost: node\r\nContent-Length: 1\r\n\r\n1"
        self._writer.write(head.encode())
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        body = await self._reader.readexactly(int(fields["content-length"]))
        return int(lines[0].split()[1]), fields.get("connection") != "close", body

    async def is_kept(self) -> bool:
        """Whether it serves a request, and stays open."""
        try:
            return (await self.put())[:2] == (200, True)
        except (OSError, EOFError):
            return False

    async def is_ended(self) -> bool:
        """Whether the node ends it."""
        async with asyncio.timeout(30):
            return await self._reader.read() == b""

    async def close(self) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()


@pytest.mark.parametrize("with_access_file", [True, False])
@pytest.mark.without(
    "api.client_connection:ClientConnection._has_expired",
    "certificate is not None and",
    "False and",
)
async def test_a_connection_whose_certificate_has_expired_ends_with_its_next_request(
    tmp_path: Path, with_access_file: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session_route, "CALLER_LOOK_S", 0.1)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(served(tmp_path, with_access_file=with_access_file))
        at = api.at
        http = await stack.enter_async_context(aiohttp.ClientSession())
        context, end_s = context_of(tmp_path / "app", VALID_S)
        connection = await Connection.open(at, context)
        stack.push_async_callback(connection.close)
        session = await http.ws_connect(
            f"https://{at}{PATH}", protocols=(SUBPROTOCOL,), ssl=context
        )
        stack.push_async_callback(session.close)
        await session.receive_bytes()
        assert (await connection.put())[:2] == (200, True)
        while time.time() < end_s:  # noqa: ASYNC110 - it is the clock that ends the certificate
            await asyncio.sleep(0.05)
        status, is_kept, body = await connection.put()
        assert (status, is_kept) == (401, False)
        assert json.loads(body)["error"] == "AUTHENTICATION_FAILED"
        assert "the certificate of this connection has expired" in json.loads(body)["message"]
        assert await connection.is_ended()
        message = await session.receive(timeout=30)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, CLOSE_REFUSED)
        url = f"https://{at}/v1/kv/colour"
        longer, _ = context_of(tmp_path / "longer", 3600)
        async with http.put(url, data=b"2", ssl=longer) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await http.put(url, data=b"3", ssl=context)


def test_a_certificate_that_openssl_alone_can_read_ends_no_connection():
    [ca] = read_certificates(CLIENTS.pem)
    der = ssl.PEM_cert_to_DER_cert(CLIENTS.pem.decode())
    assert ca.authority in authorities_of([b"unknown", der])
    assert len(authorities_of([b"unknown", der])) == 2


@pytest.mark.parametrize("with_access_file", [True, False])
@pytest.mark.without(
    "tls.certificates:_authority",
    "hashlib.sha256(certificate.subject.public_bytes() + key).hexdigest()",
    "certificate.fingerprint(hashes.SHA256()).hex()",
)
async def test_a_connection_stays_while_its_ca_is_renewed_with_its_key(
    tmp_path: Path, with_access_file: bool
):
    """What that CA signed before is valid, so a client has no reason to connect again."""
    ca = Authority("clients")
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(served(tmp_path, with_access_file=with_access_file))
        await api.trust(ca.pem)
        context, _ = context_of(tmp_path / "app", 3600, ca)
        connection = await Connection.open(api.at, context)
        stack.push_async_callback(connection.close)
        assert await connection.is_kept()
        ca.renew()
        await api.trust(ca.pem)
        assert await connection.is_kept()
        later = await Connection.open(api.at, context)
        stack.push_async_callback(later.close)
        assert await later.is_kept()
        await api.trust(Authority("clients").pem)
        assert await connection.is_ended()
        assert await later.is_ended()
