"""Why a client and a node do not come together: each fault of TLS has its own words."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proofkit.certificates import HOUR, Authority
from proofkit.guardednode import guarded_node
from raftnode.client import (
    ClientSettings,
    Credentials,
    OutcomeUnknownError,
    QuorumClient,
    UnavailableError,
)
from raftnode.core.types import Endpoint

HOST = "127.0.0.1"


def client_of(at: Endpoint, credentials: Credentials) -> QuorumClient:
    return QuorumClient(
        [at],
        timeout_ms=30_000,
        settings=ClientSettings(connect_timeout_ms=20_000),
        credentials=credentials,
    )


async def reason_of(at: Endpoint, credentials: Credentials) -> str:
    """What one request to a node ends with; a write through a session ends alike.

    The write is repeated until its time is over, so it has little, and more on a busy machine.
    """
    async with client_of(at, credentials) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.describe_node(at)
        [reason] = caught.value.attempts.values()
        reason = reason.removeprefix("cannot connect: ")
        said = ""
        for timeout_ms in (300, 3_000, 20_000):
            with pytest.raises(UnavailableError) as of_session:
                await client.put("a", b"1", timeout_ms=timeout_ms)
            [said] = of_session.value.attempts.values()
            if said != f"cannot connect: no answer within {timeout_ms} ms":
                break
    assert said == f"cannot connect: {reason}", "both say alike, and a session opens or does not"
    return reason


async def test_a_client_with_tls_and_a_node_with_tls_and_a_client_certificate(tmp_path: Path):
    nodes, apps = Authority("nodes"), Authority("apps")
    server = nodes.issue(tmp_path / "node", hosts=[HOST])
    app = apps.issue(tmp_path / "app", common_name="app")
    async with guarded_node(server.server_context(clients=apps)) as node:
        credentials = Credentials(server.ca, app.certificate, app.key)
        async with client_of(node.at, credentials) as client:
            await client.put("a", b"1")
            assert (await client.describe_node(node.at)).node_id == 1
        assert node.sessions == 1, "sessions are TLS too"


async def test_a_node_without_tls(tmp_path: Path):
    ca = Authority().issue(tmp_path / "x", common_name="x").ca
    async with guarded_node() as node:
        reason = await reason_of(node.at, Credentials(ca_file=ca))
        assert "it does not speak TLS at this address" in reason
        assert not node.requests


async def test_a_node_that_requires_tls(tmp_path: Path):
    server = Authority().issue(tmp_path / "node", hosts=[HOST])
    async with guarded_node(server.server_context()) as node:
        reason = await reason_of(node.at, Credentials())
        assert "as a node that requires TLS does; if it does, give ca_file" in reason
        assert not node.requests


async def test_a_node_that_requires_tls_and_resets_the_connection():
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    server = await asyncio.start_server(reset, HOST, 0)
    at = Endpoint(HOST, server.sockets[0].getsockname()[1])
    async with server:
        reason = await reason_of(at, Credentials())
        assert "as a node that requires TLS does; if it does, give ca_file" in reason


async def test_a_node_that_says_that_it_requires_tls():
    async def say_so(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(bytes([21, 3, 3, 0, 2, 2, 70]))
        writer.close()

    server = await asyncio.start_server(say_so, HOST, 0)
    at = Endpoint(HOST, server.sockets[0].getsockname()[1])
    async with server:
        assert "it requires TLS; give ca_file" in await reason_of(at, Credentials())


async def test_a_certificate_of_an_unknown_ca(tmp_path: Path):
    server = Authority().issue(tmp_path / "node", hosts=[HOST])
    ca = Authority().issue(tmp_path / "other", common_name="x").ca
    async with guarded_node(server.server_context()) as node:
        reason = await reason_of(node.at, Credentials(ca_file=ca))
        assert f"of an unknown CA: it is not signed by a CA that {ca} has" in reason
        reason = await reason_of(node.at, Credentials(system_ca=True))
        assert "not signed by a CA that the system trusts" in reason


async def test_a_certificate_for_another_name(tmp_path: Path):
    server = Authority().issue(tmp_path / "node", hosts=["demo-0.demo.ns.svc"])
    async with guarded_node(server.server_context()) as node:
        reason = await reason_of(node.at, Credentials(ca_file=server.ca))
        assert f"its certificate is not for {HOST}; have that name in the certificate" in reason
        other = Credentials(ca_file=server.ca, server_name="demo-1.demo.ns.svc")
        assert "its certificate is not for demo-1.demo.ns.svc" in await reason_of(node.at, other)
        right = Credentials(ca_file=server.ca, server_name="demo-0.demo.ns.svc")
        async with client_of(node.at, right) as client:
            await client.put("a", b"1")


async def test_the_subject_of_a_certificate_is_no_name_of_a_server(tmp_path: Path):
    server = Authority().issue(tmp_path / "node", common_name=HOST)
    async with guarded_node(server.server_context()) as node:
        reason = await reason_of(node.at, Credentials(ca_file=server.ca))
        assert f"its certificate is not for {HOST}" in reason


@pytest.mark.parametrize(
    ("valid_from", "valid_for", "reason"),
    [(-2 * HOUR, -HOUR, "has expired"), (2 * HOUR, 3 * HOUR, "is not valid yet")],
)
async def test_a_certificate_outside_its_time(
    valid_from: dt.timedelta, valid_for: dt.timedelta, reason: str, tmp_path: Path
):
    server = Authority().issue(
        tmp_path / "node", hosts=[HOST], valid_from=valid_from, valid_for=valid_for
    )
    async with guarded_node(server.server_context()) as node:
        assert reason in await reason_of(node.at, Credentials(ca_file=server.ca))


async def test_a_node_that_requires_a_client_certificate_or_another_one(tmp_path: Path):
    server = Authority().issue(tmp_path / "node", hosts=[HOST])
    stranger = Authority("strangers").issue(tmp_path / "stranger", common_name="app")
    async with guarded_node(server.server_context(clients=Authority("apps"))) as node:
        reason = await reason_of(node.at, Credentials(ca_file=server.ca))
        assert "client certificate" in reason
        assert "give certificate_file and key_file" in reason
        other = Credentials(server.ca, stranger.certificate, stranger.key)
        reason = await reason_of(node.at, other)
        assert "client certificate" in reason
        assert str(stranger.certificate) in reason
        assert not node.requests


@asynccontextmanager
async def alerting(context: ssl.SSLContext) -> AsyncGenerator[Endpoint]:
    """A server that sends its alert, as those of OpenSSL and Go do; asyncio's only closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        connection = context.wrap_bio(incoming, outgoing, server_side=True)
        refused = False
        while data := await reader.read(1 << 16):
            incoming.write(data)
            if not refused:
                try:
                    connection.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError:
                    refused = True
                writer.write(outgoing.read())
                if refused:
                    writer.write_eof()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield Endpoint(HOST, server.sockets[0].getsockname()[1])


async def test_an_alert_of_the_node_is_named(tmp_path: Path):
    server = Authority().issue(tmp_path / "node", hosts=[HOST])
    stranger = Authority("strangers").issue(tmp_path / "stranger", common_name="app")
    async with alerting(server.server_context(clients=Authority("apps"))) as at:
        shown = await reason_of(at, Credentials(ca_file=server.ca))
        assert "it requires a client certificate; give certificate_file and key_file" in shown
        shown = await reason_of(at, Credentials(server.ca, stranger.certificate, stranger.key))
        assert f"it refuses the client certificate {stranger.certificate}" in shown
        write = QuorumClient(
            [at], timeout_ms=300, sessions=False, credentials=Credentials(ca_file=server.ca)
        )
        said = ""
        async with write as client:
            for _ in range(20):
                with pytest.raises((UnavailableError, OutcomeUnknownError)) as caught:
                    await client.append([b"1"])
                # The last try of a write may have sent it, and too little time to see the alert.
                said = str(caught.value)
                if isinstance(caught.value, UnavailableError):
                    break
        assert "requires a client certificate" in said
