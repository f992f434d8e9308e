"""Clients of real nodes with TLS and tokens: what they reach, what is refused, and rotations."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from proofkit.certificates import Authority, CertificateFiles, replace_file
from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import ADMIN, QuorumSecurity
from raftnode.api.session_route import CALLER_LOOK_S, CLOSE_REFUSED
from raftnode.client import QuorumClient, RefusedError, UnavailableError
from raftnode.commands.output import CommandExitCode
from raftnode.session import SUBPROTOCOL
from raftnode.settings import NodeSettings
from raftnode.tls.certificates import read_certificates

ACCESS = "access_file" in NodeSettings.model_fields
TLS = "api_tls" in NodeSettings.model_fields
CLUSTER_ID = "SecuredSecuredSecuredS"

needs_access = pytest.mark.skipif(not ACCESS, reason="this version's nodes have no access file")
needs_tls = pytest.mark.skipif(not (ACCESS and TLS), reason="this version's nodes have no TLS")


def quorum_of(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest, **options: object
) -> LocalQuorum:
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID, **options)
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    return LocalQuorum(tmp_path, 3, network, cache, cluster_id=CLUSTER_ID, security=security)


@asynccontextmanager
async def load(client: QuorumClient, tasks: int = 4) -> AsyncGenerator[list[int]]:
    """Writes without a pause; the failure of one fails the test."""
    written: list[int] = []
    stop = asyncio.Event()

    async def work(task: int) -> None:
        number = 0
        while not stop.is_set():
            await client.put(f"key-{task}-{number}", b"1", timeout_ms=30_000)
            written.append(number)
            number += 1

    async with asyncio.TaskGroup() as group:
        for task in range(tasks):
            group.create_task(work(task))
        yield written
        stop.set()


async def grows(written: list[int], by: int = 50) -> None:
    end = len(written) + by

    async def look() -> bool | None:
        return len(written) >= end or None

    await eventually(look, what="writes")


@needs_access
async def test_a_token_is_rotated_on_nodes_and_clients_without_a_failed_write(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    """The nodes take the new token first, then the clients, then the nodes drop the old one."""
    quorum = quorum_of(tmp_path, network, request, peer_tls="disabled", api_tls="disabled")
    async with quorum:
        await quorum.form(3)
        security = quorum.security
        assert security is not None
        # Of tokens, the last is what the client presents.
        security.grant("app", "write", "read", tokens=["old-token-of-app"])
        async with quorum.client_of("app") as client:
            await eventually(lambda: client.put("first", b"1"), what="the grant to be read")
            async with load(client) as written:
                await grows(written)
                security.grant("app", "write", "read", tokens=["new-token", "old-token-of-app"])
                await takes(quorum, security, "new-token")
                security.grant("app", "write", "read", tokens=["old-token-of-app", "new-token"])
                await grows(written)
                await asyncio.sleep(2)  # the client looks at its files once a second
                security.grant("app", "write", "read", tokens=["new-token"])
                await refuses(quorum, "old-token-of-app")
                await grows(written)


async def takes(quorum: LocalQuorum, security: QuorumSecurity, token: str) -> None:
    """Wait until each node knows a token."""
    (security.root / "probe.token").write_text(token)
    for node in quorum.nodes:
        async with quorum.client_of("probe") as client:
            await eventually(lambda c=client, n=node: c.describe_node(n.api), what="the token")


async def refuses(quorum: LocalQuorum, token: str) -> None:
    """Wait until no node knows a token."""
    assert quorum.security is not None
    (quorum.security.root / "probe.token").write_text(token)
    for node in quorum.nodes:

        async def look(at=node.api) -> bool | None:
            async with quorum.client_of("probe") as client:
                try:
                    await client.describe_node(at)
                except RefusedError as error:
                    return error.status == 401 or None
                return None

        await eventually(look, what="the token to be refused")


@needs_access
async def test_what_a_subject_may_not_do_is_refused_and_changes_nothing(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request, peer_tls="disabled", api_tls="disabled")
    async with quorum:
        await quorum.form(1)
        security = quorum.security
        assert security is not None
        await quorum.put("a", b"1")
        security.grant("reader", "read")
        async with quorum.client_of("reader") as client:
            value = await eventually(lambda: client.get("a"), what="the grant to be read")
            assert value.value == b"1"
            before = (await quorum.describe()).high_watermark
            with pytest.raises(RefusedError, match="AUTHORIZATION_FAILED"):
                await client.put("a", b"2")
            with pytest.raises(RefusedError, match="AUTHORIZATION_FAILED"):
                await client.resign()
            assert (await quorum.describe()).high_watermark == before
        (security.root / "stranger.token").write_text("a-token-of-no-client")
        async with quorum.client_of("stranger") as client:
            with pytest.raises(RefusedError, match="AUTHENTICATION_FAILED"):
                await client.put("a", b"2")
        credentials = security.credentials(ADMIN)
        wrong = QuorumClient([quorum.nodes[0].api], credentials=credentials, cluster_id="Other")
        async with wrong:
            with pytest.raises(RefusedError, match="INCONSISTENT_CLUSTER_ID"):
                await wrong.put("a", b"2")
        value = await quorum.client.get("a")
        assert value is not None
        assert value.value == b"1"


@needs_tls
@pytest.mark.parametrize("client_certificates", [False, True])
async def test_a_quorum_with_tls_everywhere_serves_its_clients_and_the_command_line(
    client_certificates: bool,
    tmp_path: Path,
    network: LoopbackNetwork,
    request: pytest.FixtureRequest,
):
    quorum = quorum_of(tmp_path, network, request, client_certificates=client_certificates)
    async with quorum:
        await quorum.form(3)
        await quorum.put("colour", b"blue")
        security = quorum.security
        assert security is not None
        credentials = security.credentials()
        flags = ["--bootstrap-server", str(quorum.nodes[0].api), "--cluster-id", CLUSTER_ID]
        flags += [
            "--ca-file",
            str(credentials.ca_file),
            "--token-file",
            str(credentials.token_file),
        ]
        if client_certificates:
            flags += ["--certificate-file", str(credentials.certificate_file)]
            flags += ["--key-file", str(credentials.key_file)]
        raftnode = str(Path(sys.executable).with_name("raftnode"))
        asked = await asyncio.to_thread(
            subprocess.run,
            [raftnode, "kv", "get", "colour", *flags],
            capture_output=True,
            check=False,
        )
        assert (asked.returncode, asked.stdout) == (0, b"blue"), asked.stderr
        plain = await asyncio.to_thread(
            subprocess.run,
            [raftnode, "kv", "get", "colour", *flags[:2], "--timeout-ms", "2000"],
            capture_output=True,
            check=False,
        )
        assert plain.returncode == CommandExitCode.UNAVAILABLE, plain.stderr
        assert b"TLS" in plain.stderr
        async with QuorumClient([quorum.nodes[0].api], timeout_ms=500) as client:
            with pytest.raises(UnavailableError, match="TLS"):
                await client.put("colour", b"red")


@needs_tls
async def test_certificates_of_nodes_and_clients_are_rotated_without_a_failed_write(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request, client_certificates=True)
    async with quorum:
        await quorum.form(3)
        security = quorum.security
        assert security is not None
        async with load(quorum.client) as written:
            await grows(written)
            for node in quorum.nodes:
                security.issue_node(node.node_id, [node.host, "localhost"])
                security.credentials()  # the client's too
                await grows(written)
            await asyncio.sleep(2)  # both look at their files once in a while
            await grows(written)


class Connection:
    """One connection to a node's API, kept open from one request to the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def open(
        cls, node: LocalNode, ca: Authority, files: CertificateFiles | None
    ) -> Connection:
        """Connect, and ask something."""
        context = context_of(ca, files)
        streams = await asyncio.open_connection(node.host, node.api.port, ssl=context)
        connection = cls(*streams)
        try:
            assert await connection.ask("GET", "/healthz/live") == (200, True)
        except BaseException:
            connection.abort()
            raise
        return connection

    def send(self, method: str, path: str) -> None:
        value = "1" if method == "PUT" else ""
        fields = f"Host: node\r\nContent-Length: {len(value)}"
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{fields}\r\n\r\n{value}".encode())

    async def answer(self) -> tuple[int, bool]:
        """The status, and whether the connection stays open."""
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in head[1:] if line)
            await self.reader.readexactly(int(fields["content-length"]))
        return int(head[0].split()[1]), fields.get("connection") != "close"

    async def ask(self, method: str, path: str) -> tuple[int, bool]:
        self.send(method, path)
        return await self.answer()

    async def closed(self) -> bool:
        """Whether the node closes it, long before it closes an idle one."""
        try:
            async with asyncio.timeout(30):
                return await self.reader.read() == b""
        except TimeoutError:
            return False

    def abort(self) -> None:
        self._writer.transport.abort()


def context_of(ca: Authority, files: CertificateFiles | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca.pem.decode())
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


async def trusts(quorum: LocalQuorum, pem: bytes) -> None:
    """Wait until each node takes client certificates of exactly these CAs."""
    expected = {certificate.sha256 for certificate in read_certificates(pem)}
    for node in quorum.nodes:

        async def look(node: LocalNode = node) -> bool | None:
            [api] = [c for c in (await quorum.info(node)).certificates if c.listener == "api"]
            return set(api.trusted_ca_sha256) == expected or None

        await eventually(look, what="the CAs of clients")


@needs_tls
@pytest.mark.timeout(300)
@pytest.mark.parametrize("with_access_file", [True, False])
async def test_a_connection_that_a_withdrawn_ca_verified_ends_after_its_request(
    with_access_file: bool,
    tmp_path: Path,
    network: LoopbackNetwork,
    request: pytest.FixtureRequest,
):
    quorum = quorum_of(
        tmp_path, network, request, client_certificates=True, tokens=with_access_file
    )
    for node in quorum.nodes:  # the followers stand still for a while
        node.environment["RAFTNODE_FETCH_TIMEOUT_MS"] = "60000"
    async with quorum:
        await quorum.form(3)
        security, leader = quorum.security, await quorum.leader()
        assert security is not None
        if with_access_file:
            document = json.loads(security.access_file.read_text())
            document["subjects"].append(
                {
                    "name": "app",
                    "certificate_common_names": ["app"],
                    "grants": [{"roles": ["read", "write"]}],
                }
            )
            replace_file(security.access_file, json.dumps(document).encode())
        former_ca, next_ca = security.clients, Authority("the next CA of clients")
        former = former_ca.issue(tmp_path / "former", common_name="app")
        later = next_ca.issue(tmp_path / "later", common_name="app")
        replace_file(security.client_ca, former_ca.pem + next_ca.pem)
        await trusts(quorum, former_ca.pem + next_ca.pem)
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(
                f"https://{leader.api}/v1/session",
                protocols=(SUBPROTOCOL,),
                ssl=context_of(security.authority, former),
            ) as session,
            load(quorum.client) as written,
        ):
            await session.receive_bytes()  # the greeting
            security.clients = next_ca
            security.credentials()  # the client takes its new certificate by itself
            await asyncio.sleep(3)
            idle, busy, kept, bare = [
                await Connection.open(leader, security.authority, files)
                for files in (former, former, later, None)
            ]
            status, _ = await idle.ask("PUT", "/v1/kv/first")
            assert status == 200
            followers = [node for node in quorum.nodes if node is not leader]
            for node in followers:
                node.signal(signal.SIGSTOP)
            try:
                busy.send("PUT", "/v1/kv/busy")
                await asyncio.sleep(0.5)
                replace_file(security.client_ca, next_ca.pem)
                assert await idle.closed()
                assert not busy.reader.at_eof()
            finally:
                for node in followers:
                    node.signal(signal.SIGCONT)
            assert await busy.answer() == (200, False)
            assert await busy.closed()
            message = await session.receive(timeout=CALLER_LOOK_S + 20)
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, CLOSE_REFUSED)
            assert str(message.extra).startswith("AUTHENTICATION_FAILED: ")
            assert await kept.ask("PUT", "/v1/kv/later") == (200, True)
            assert await bare.ask("GET", "/healthz/live") == (200, True)
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await Connection.open(leader, security.authority, former)
            await grows(written)
        for connection in (idle, busy, kept, bare):
            connection.abort()
