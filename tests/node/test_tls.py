"""TLS of real nodes: what a quorum with it does, and what it refuses without changing anything.

Each refusal is a real handshake with a real process. The client's error and the node's metric name
the reason, and the quorum is the same as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import json
import os
import socket
import ssl
import sys
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proofkit.certificates import HOUR, SPIFFE, Authority, CertificateFiles, replace_file
from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.client import Credentials, OutcomeUnknownError, QuorumClient, UnavailableError
from raftnode.client.credential_files import make_context
from raftnode.core.types import NodeId, ReplicaKey, parse_directory_id
from raftnode.errors import ExitCode
from raftnode.tls.certificates import read_certificates
from raftnode.transport.hello import (
    Hello,
    Identity,
    Refusal,
    RefusalReason,
    decode_hello,
    encode_hello,
)

pytestmark = [pytest.mark.timeout(300)]

CLUSTER_ID = "SecuredSecuredSecuredS"


def quorum_of(
    tmp_path: Path,
    network: LoopbackNetwork,
    request: pytest.FixtureRequest,
    settings: dict[str, str] | None = None,
    **options: Any,
) -> LocalQuorum:
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID, **({"tokens": False} | options))
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    return LocalQuorum(
        tmp_path, 3, network, cache | (settings or {}), cluster_id=CLUSTER_ID, security=security
    )


@asynccontextmanager
async def load(
    client: QuorumClient, *, elections: bool = False
) -> AsyncGenerator[dict[str, bytes]]:
    """Writes without a pause; the failure of one fails the test. Each must be there at the end.

    With `elections` a write of unknown outcome is repeated: with TLS or without, a leader that
    transfers leadership does not know what becomes of its last writes.
    """
    written: dict[str, bytes] = {}
    stop = asyncio.Event()

    async def work(task: int) -> None:
        number = 0
        while not stop.is_set():
            key, value = f"key-{task}-{number}", f"{number}".encode()
            try:
                await client.put(key, value, timeout_ms=30_000)
            except OutcomeUnknownError:
                if not elections:
                    raise
                continue
            written[key] = value
            number += 1

    async with asyncio.TaskGroup() as group:
        for task in range(4):
            group.create_task(work(task))
        yield written
        stop.set()
    for key, value in written.items():
        entry = await client.get(key)
        assert entry is not None, key
        assert entry.value == value


async def grows(written: dict[str, bytes], by: int = 50) -> None:
    end = len(written) + by

    async def look() -> bool | None:
        return len(written) >= end or None

    await eventually(look, what="writes")


async def metrics_of(quorum: LocalQuorum, node: LocalNode) -> dict[str, float]:
    assert quorum.security is not None
    credentials = quorum.security.credentials()
    context, token_file = make_context(credentials), credentials.token_file
    headers = {"Authorization": f"Bearer {token_file.read_text()}"} if token_file else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://{node.api}/metrics", ssl=context) as answer,
    ):
        lines = (await answer.text()).splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def failures(listener: str, reason: str) -> str:
    return f'raftnode_tls_handshake_failures_total{{listener="{listener}",reason="{reason}"}}'


async def test_a_quorum_with_tls_shows_its_certificates_and_takes_writes(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request)
    async with quorum:
        await quorum.form(3)
        await quorum.put("colour", b"blue")
        for node in quorum.nodes:
            peer, api = (await quorum.info(node)).certificates
            assert (peer.listener, api.listener) == ("peer", "api")
            assert peer.uri_names == (f"{SPIFFE}/{CLUSTER_ID}/node/{node.node_id}",)
            assert peer.problem is None
            assert len(peer.trusted_ca_sha256) == 1
            assert node.host in api.ip_addresses
            assert "localhost" in api.dns_names
        peer_port = socket.create_connection((quorum.nodes[0].host, quorum.nodes[0].peer.port))
        with peer_port:
            peer_port.sendall(b"GET /v1/peer HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert peer_port.recv(100) == b""


async def state_of(quorum: LocalQuorum) -> tuple[object, ...]:
    """What a refused connection must not change."""
    described = await quorum.describe()
    return (
        described.leader,
        described.epoch,
        described.voters and tuple(voter.key for voter in described.voters),
        described.voter_record,
        described.high_watermark,
        tuple(observer.key for observer in described.observers),
    )


@asynccontextmanager
async def counted(
    quorum: LocalQuorum, node: LocalNode, listener: str, reason: str
) -> AsyncGenerator[None]:
    """In the block a connection is refused for this reason, and nothing changes."""
    name = failures(listener, reason)
    state, before = await state_of(quorum), (await metrics_of(quorum, node))[name]
    yield

    async def look() -> bool | None:
        return (await metrics_of(quorum, node))[name] > before or None

    await eventually(look, what=name)
    assert await state_of(quorum) == state
    assert f'"reason":"{reason}"' in node.output()
    await has_refusal(node, listener=listener, reason=reason)


async def has_refusal(node: LocalNode, **fields: str) -> None:
    """Wait for the line of a refusal with exactly these fields in the audit log.

    The node's settings do not name the audit log: with TLS it has one on stderr.
    """
    expected = {"event": "refused", "remote": "127.0.0.1", "outcome": "not_done"} | fields

    async def look() -> bool | None:  # the log is written on a thread
        lines = [{k: v for k, v in line.items() if k != "time"} for line in node.audited()]
        return expected in lines or None

    await eventually(look, what=f"a line of the audit log with {fields}")


@dataclass(frozen=True)
class Presented:
    """A certificate that is refused, and why.

    Attributes:
        reason: the node's.
        issue: makes it; None: none is presented.
    """

    reason: str
    issue: Callable[[QuorumSecurity, Path], CertificateFiles] | None


def by(
    authority: Callable[[QuorumSecurity], Authority], **options: Any
) -> Callable[[QuorumSecurity, Path], CertificateFiles]:
    return lambda security, directory: authority(security).issue(
        directory, **({"uris": [f"{SPIFFE}/{CLUSTER_ID}/node/1"]} | options)
    )


def of_clients(security: QuorumSecurity) -> Authority:
    return security.clients


def of_nodes(security: QuorumSecurity) -> Authority:
    return security.authority


def of_a_stranger(_security: QuorumSecurity) -> Authority:
    return Authority("stranger")


SOON = dt.timedelta(minutes=30)
CLIENTS = {
    "no_certificate": Presented("no_certificate", None),
    "expired": Presented("expired", by(of_clients, valid_for=-HOUR, valid_from=-2 * HOUR)),
    "not_yet_valid": Presented("not_yet_valid", by(of_clients, valid_from=SOON)),
    "wrong_ca": Presented("unknown_ca", by(of_a_stranger)),
}
PEERS = {
    "no_certificate": Presented("no_certificate", None),
    "expired": Presented("expired", by(of_nodes, valid_for=-HOUR, valid_from=-2 * HOUR)),
    "not_yet_valid": Presented("not_yet_valid", by(of_nodes, valid_from=SOON)),
    "wrong_ca": Presented("unknown_ca", by(of_a_stranger)),
    "wrong_cluster": Presented("wrong_cluster", by(of_nodes, uris=[f"{SPIFFE}/Other/node/1"])),
    "no_name": Presented("wrong_cluster", by(of_nodes, uris=[], common_name="node-1")),
    "wrong_node": Presented("wrong_node", by(of_nodes, uris=[f"{SPIFFE}/{CLUSTER_ID}/node/2"])),
}


async def test_clients_that_the_api_refuses(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    required = {"RAFTNODE_API_TLS_CLIENT_CERTIFICATES": "required"}
    quorum = quorum_of(tmp_path, network, request, required, tokens=True, client_certificates=True)
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        ca = security.root / "ca.crt"
        for case, presented in CLIENTS.items():
            files = presented.issue(security, tmp_path / case) if presented.issue else None
            credentials = Credentials(
                ca_file=ca,
                certificate_file=files.certificate if files else None,
                key_file=files.key if files else None,
            )
            async with counted(quorum, node, "api", presented.reason):
                client = QuorumClient([node.api], credentials=credentials, timeout_ms=1500)
                async with client:
                    with pytest.raises(UnavailableError, match="certificate"):
                        await client.describe_node(node.api)
                    with pytest.raises(UnavailableError):
                        await client.put("key", b"value")
        async with (
            counted(quorum, node, "api", "plaintext"),
            QuorumClient([node.api], timeout_ms=1500) as client,
        ):
            with pytest.raises(UnavailableError, match="requires TLS"):
                await client.put("key", b"value")
        async with counted(quorum, node, "api", "version"):
            older = make_context(security.credentials())
            older.maximum_version = ssl.TLSVersion.TLSv1_2
            async with aiohttp.ClientSession() as session:
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"https://{node.api}/v1/node", ssl=older)
        other_name = Credentials(
            ca_file=ca,
            certificate_file=(files := security.clients.issue(tmp_path / "name")).certificate,
            key_file=files.key,
            server_name="another.example",
        )
        state = await state_of(quorum)
        async with QuorumClient([node.api], credentials=other_name, timeout_ms=1500) as client:
            with pytest.raises(UnavailableError, match=r"not for another\.example"):
                await client.put("key", b"value")
        assert await state_of(quorum) == state


@pytest.mark.parametrize("listener", ["api", "peer"])
async def test_a_node_presents_its_one_certificate_whatever_name_a_client_asks_for(
    listener: str, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    """It looks at no server name, so the client decides whether the certificate is good enough."""
    quorum = quorum_of(tmp_path, network, request)
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        port = node.api.port if listener == "api" else node.peer.port
        context = ssl.create_default_context(cadata=security.authority.pem.decode())
        files = by(of_nodes)(security, tmp_path / "peer")
        context.load_cert_chain(files.certificate, files.key)
        [own] = read_certificates((security.node_directory(0) / "tls.crt").read_bytes())

        def connect(server_name: str | None) -> tuple[str, bytes]:
            with (
                socket.create_connection((node.host, port), timeout=30) as plain,
                context.wrap_socket(plain, server_hostname=server_name) as opened,
            ):
                opened.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
                shown = opened.getpeercert(binary_form=True)
                assert shown is not None
                return hashlib.sha256(shown).hexdigest(), opened.recv(12)

        state, before = await state_of(quorum), await metrics_of(quorum, node)
        for name in ("another.example", "LOCALHOST", "x" * 63 + ".example", None):
            context.check_hostname = False
            status = b"HTTP/1.1 200" if listener == "api" else b"HTTP/1.1 404"
            assert await asyncio.to_thread(connect, name) == (own.sha256, status)
        context.check_hostname = True
        assert (await asyncio.to_thread(connect, "localhost"))[0] == own.sha256
        with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'another\.example'"):
            await asyncio.to_thread(connect, "another.example")
        assert await state_of(quorum) == state
        after = await metrics_of(quorum, node)
        refused = {name for name in after if "tls_handshake_failures" in name}
        grown = {name for name in refused if after[name] > before[name]}
        assert grown <= {failures(listener, "refused")}  # the client's own refusal
        assert not [line for line in node.audited() if line["event"] == "refused"]


async def test_tls_on_a_plain_port_is_refused_by_the_client(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request, peer_tls="disabled", api_tls="disabled")
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        replace_file(security.root / "ca.crt", security.authority.pem)
        state = await state_of(quorum)
        credentials = Credentials(ca_file=security.root / "ca.crt")
        async with QuorumClient([node.api], credentials=credentials, timeout_ms=1500) as client:
            with pytest.raises(UnavailableError, match="does not speak TLS"):
                await client.put("key", b"value")
        assert await state_of(quorum) == state


async def test_tls_on_a_plain_peer_port_is_refused_and_changes_nothing(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request, peer_tls="disabled")
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        context = ssl.create_default_context(cadata=security.authority.pem.decode())
        files = by(of_nodes)(security, tmp_path / "peer")
        context.load_cert_chain(files.certificate, files.key)
        state = await state_of(quorum)
        for _ in range(3):
            with pytest.raises(aiohttp.ClientConnectorError) as refused:
                await say_hello(node, context)
            assert isinstance(refused.value.os_error, ssl.SSLError | ConnectionError)
        assert await state_of(quorum) == state
        assert (await say_hello(node, None, wants=key_of(5))).reason is RefusalReason.WRONG_REPLICA


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(NodeId(node_id), uuid.uuid4())


@pytest.mark.parametrize("peer_tls", ["disabled", "required"])
async def test_hellos_that_a_node_refuses(
    peer_tls: str, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    """Each leaves a line in the audit log, and changes nothing."""
    quorum = quorum_of(tmp_path, network, request, peer_tls=peer_tls)
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        context = None
        if peer_tls == "required":
            context = ssl.create_default_context(cadata=security.authority.pem.decode())
            files = by(of_nodes)(security, tmp_path / "peer")
            context.load_cert_chain(files.certificate, files.key)
        state, info = await state_of(quorum), await quorum.info(node)
        own = ReplicaKey(NodeId(info.node_id), parse_directory_id(info.directory_id))
        copied = replace(own, directory_id=uuid.uuid4())
        other, wanted = Hello(Identity(key_of(1), "Other", 1)), key_of(5)
        cases = {
            "wrong_cluster": other,
            "wrong_replica": Hello(Identity(key_of(1), CLUSTER_ID, 1), wants=wanted),
            "unsupported_version": Hello(Identity(key_of(1), CLUSTER_ID, 1), None, 7, 9),
        }
        if context is None:  # otherwise the certificate decides
            cases["own_key"] = Hello(Identity(own, CLUSTER_ID, 1))
            cases["wrong_replica"] = Hello(Identity(copied, CLUSTER_ID, 1), wants=copied)
        for reason, hello in cases.items():
            refusal = await say(node, context, encode_hello(hello))
            by_certificate = context is not None and reason == "wrong_cluster"
            assert refusal.reason == ("wrong_certificate" if by_certificate else reason)
            target = {} if by_certificate else {"target": str(hello.identity.key)}
            await has_refusal(node, listener="peer", reason=reason, **target)
        assert (await say(node, context, b"nothing")).reason is RefusalReason.BAD_HELLO
        await has_refusal(node, listener="peer", reason="bad_hello")
        assert await state_of(quorum) == state
        for _ in range(30):
            await say(node, context, b"nothing")
        lines = [line for line in node.audited() if line.get("reason") == "bad_hello"]
        assert len(lines) < 10


async def say_hello(
    node: LocalNode, context: ssl.SSLContext | None, wants: ReplicaKey | None = None
) -> Refusal:
    """Say hello as node 1, as a peer does.

    Raises:
        OSError, aiohttp.ClientError: the connection is refused before.
    """
    return await say(
        node, context, encode_hello(Hello(Identity(key_of(1), CLUSTER_ID, 1), wants=wants))
    )


async def say(node: LocalNode, context: ssl.SSLContext | None, first: bytes) -> Refusal:
    """Send a first frame, and return the refusal that answers it."""
    scheme = "http" if context is None else "https"
    async with (
        asyncio.timeout(30),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{scheme}://{node.peer}/v1/peer", ssl=context or True) as opened,
    ):
        await opened.send_bytes(first)
        answer = decode_hello(await opened.receive_bytes())
    assert isinstance(answer, Refusal), answer
    return answer


async def test_peers_that_a_node_refuses(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request)
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        for case, presented in PEERS.items():
            context = ssl.create_default_context(cadata=security.authority.pem.decode())
            if presented.issue:
                files = presented.issue(security, tmp_path / case)
                context.load_cert_chain(files.certificate, files.key)
            async with counted(quorum, node, "peer", presented.reason):
                if presented.reason == "wrong_node":
                    refusal = await say_hello(node, context)
                    assert refusal.reason is RefusalReason.WRONG_CERTIFICATE
                    assert "says that it is node 1" in refusal.detail
                else:
                    with pytest.raises((OSError, aiohttp.ClientError)):
                        await say_hello(node, context)
        async with counted(quorum, node, "peer", "plaintext"):
            with pytest.raises((OSError, aiohttp.ClientError)):
                await say_hello(node, None)
        async with counted(quorum, node, "peer", "version"):
            files = by(of_nodes)(security, tmp_path / "older")
            context = ssl.create_default_context(cadata=security.authority.pem.decode())
            context.load_cert_chain(files.certificate, files.key)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises((OSError, aiohttp.ClientError)):
                await say_hello(node, context)


@pytest.mark.parametrize("fault", ["key", "cluster", "missing"])
def test_a_node_does_not_start_with_files_that_cannot_work(
    fault: str, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request)
    [node, security] = [quorum.nodes[0], quorum.security]
    assert security is not None
    directory = security.node_directory(0)
    if fault == "key":
        other = by(of_nodes)(security, tmp_path / "other")
        (directory / "tls.key").write_bytes(other.key.read_bytes())
        expected = "the key does not belong to the certificate"
    elif fault == "cluster":
        by(of_nodes)(security, directory)
        expected = f"this node needs the URI {SPIFFE}/…/node/0"
    else:
        (directory / "ca.crt").unlink()
        expected = "peer_tls_ca_file"
    node.start()
    try:
        assert node.wait() == ExitCode.USAGE
    finally:
        node.kill()
    assert expected in json.loads(node.termination_message.read_text())["message"]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize(("listener", "status"), [("api", 200), ("peer", 404)])
async def test_no_session_is_resumed_after_a_rotation(
    listener: str,
    status: int,
    version: str,
    tmp_path: Path,
    network: LoopbackNetwork,
    request: pytest.FixtureRequest,
):
    settings = {"RAFTNODE_TLS_MIN_VERSION": version}
    quorum = quorum_of(tmp_path, network, request, settings)
    async with quorum:
        await quorum.form(1)
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None

        port = node.api.port if listener == "api" else node.peer.port
        files = by(of_nodes)(security, tmp_path / "peer")

        def ask(session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None, bool]:
            context = ssl.create_default_context(cadata=security.authority.pem.decode())
            context.load_cert_chain(files.certificate, files.key)
            if version == "1.2":
                context.maximum_version = ssl.TLSVersion.TLSv1_2
            ask.contexts.append(context)  # type: ignore[attr-defined]
            with (
                socket.create_connection((node.host, port)) as plain,
                ask.contexts[0].wrap_socket(  # type: ignore[attr-defined]
                    plain, server_hostname=node.host, session=session
                ) as opened,
            ):
                opened.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
                assert opened.recv(100).startswith(f"HTTP/1.1 {status}".encode())
                certificate = opened.getpeercert(binary_form=True)
                assert certificate is not None
                return certificate, opened.session, bool(opened.session_reused)

        ask.contexts = []  # type: ignore[attr-defined]
        before, session, _ = await asyncio.to_thread(ask, None)
        assert session is not None
        assert not (await asyncio.to_thread(ask, session))[2]
        security.issue_node(0, [node.host, "localhost"])

        async def rotated() -> bool | None:
            certificate, _, reused = await asyncio.to_thread(ask, session)
            return (certificate != before and not reused) or None

        await eventually(rotated, what="the new certificate")


@pytest.mark.parametrize("listener", ["api", "peer"])
async def test_a_client_that_renegotiates_is_refused(
    listener: str, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    """TLS 1.3 has no renegotiation; with 1.2 allowed the node answers none."""
    quorum = quorum_of(tmp_path, network, request, {"RAFTNODE_TLS_MIN_VERSION": "1.2"})
    async with quorum:
        await quorum.form(1)
        await quorum.put("before", b"1")  # the quorum writes nothing more by itself
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        port = node.api.port if listener == "api" else node.peer.port
        files = by(of_nodes)(security, tmp_path / "peer")
        state = await state_of(quorum)

        async def asks(line: bytes) -> str:
            """What OpenSSL says of a connection on which this line is sent."""
            flags = ["-connect", f"{node.host}:{port}", "-CAfile", str(security.root / "ca.crt")]
            flags += ["-cert", str(files.certificate), "-key", str(files.key)]
            process = await asyncio.create_subprocess_exec(
                *("openssl", "s_client", "-tls1_2", *flags),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            said = await process.stdout.readuntil(b"Extended master secret: yes\n---\n")
            process.stdin.write(line)
            async with asyncio.timeout(60):
                return (said + await process.stdout.read()).decode()

        served = await asks(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert "HTTP/1.1 404" in served
        refused = await asks(b"R\n")
        assert "RENEGOTIATING" in refused
        assert "no renegotiation" in refused
        assert await state_of(quorum) == state


async def shows(quorum: LocalQuorum, trusted: set[str] | None, sha256s: set[str]) -> None:
    """Wait until each node presents one of the certificates, and trusts exactly these CAs."""
    for node in quorum.nodes:

        async def look(node: LocalNode = node) -> bool | None:
            for shown in (await quorum.info(node)).certificates:
                assert shown.problem is None
                if shown.sha256 not in sha256s:
                    return None
                if shown.listener == "peer" and set(shown.trusted_ca_sha256) != trusted:
                    return None
            return True

        await eventually(look, what=f"the certificates of node {node.node_id}")


def fingerprints(pem: bytes) -> set[str]:
    return {certificate.sha256 for certificate in read_certificates(pem)}


def issue_all(quorum: LocalQuorum, *also_trusted: Authority) -> set[str]:
    """Give each node a new certificate; returns their fingerprints."""
    security = quorum.security
    assert security is not None
    made = [
        security.issue_node(node.node_id, [node.host, "localhost"], also_trusted)
        for node in quorum.nodes
    ]
    return {print_ for files in made for print_ in fingerprints(files.certificate.read_bytes())}


async def test_leaf_and_ca_are_rotated_under_load_without_a_failed_write(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request, NO_ELECTION)
    async with quorum:
        await quorum.form(3)
        security = quorum.security
        assert security is not None
        client_ca = security.root / "ca.crt"
        epoch = (await quorum.describe()).epoch
        async with load(quorum.client) as written:
            await grows(written)
            old = security.authority
            leaves = issue_all(quorum)
            await shows(quorum, fingerprints(old.pem), leaves)
            await grows(written)
            # Each node trusts both CAs, before one presents a certificate of the new one.
            new = Authority("the next CA")
            both = fingerprints(old.pem + new.pem)
            replace_file(client_ca, old.pem + new.pem)
            leaves = issue_all(quorum, new)
            await shows(quorum, both, leaves)
            await grows(written)
            security.authority = new
            leaves = issue_all(quorum, old)
            await shows(quorum, both, leaves)
            await grows(written)
            # Earlier connections are renewed, so that none stands on the old CA.
            leaves = issue_all(quorum)
            replace_file(client_ca, new.pem)
            await shows(quorum, fingerprints(new.pem), leaves)
            await grows(written, 200)
            await asyncio.sleep(2)
            await grows(written)
        assert (await quorum.describe()).epoch == epoch
        print(f"rotated: {len(written)} writes")  # noqa: T201
        for node in quorum.nodes:
            assert "a new connection has taken its place" in node.output()


async def test_a_bad_file_leaves_a_living_node_as_it_is(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request)
    async with quorum:
        await quorum.form(1)
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        [before, _] = (await quorum.info(node)).certificates
        key = security.node_directory(0) / "tls.key"
        good = key.read_bytes()
        key.write_text("nothing")

        async def reported() -> bool | None:
            return (await quorum.info(node)).certificates[0].problem is not None or None

        await eventually(reported, what="the problem")
        [peer, _] = (await quorum.info(node)).certificates
        assert peer.sha256 == before.sha256
        assert peer.problem is not None
        assert str(key) in peer.problem
        await quorum.client.put("key", b"value")
        metrics = await metrics_of(quorum, node)
        assert metrics['raftnode_tls_files_refused{listener="peer"}'] == 1
        assert metrics['raftnode_tls_reloads_total{listener="peer",outcome="refused"}'] == 1
        assert "certificate_refused" in node.output()
        replace_file(key, good)

        async def taken() -> bool | None:
            return (await quorum.info(node)).certificates[0].problem is None or None

        await eventually(taken, what="the end of the problem")
        metrics = await metrics_of(quorum, node)
        assert metrics['raftnode_tls_files_refused{listener="peer"}'] == 0


NO_ELECTION = {"RAFTNODE_FETCH_TIMEOUT_MS": "10000"}
"""None but those of a restart: a busy machine may stand still for seconds."""


async def roll(quorum: LocalQuorum, client: QuorumClient, mode: str) -> None:
    """Restart node by node with another mode, as the operator does: leadership goes first."""
    for node in quorum.nodes:
        flags: list[str] = []
        if client is not quorum.client:
            flags = ["--ca-file", str(quorum.security.root / "ca.crt")]  # type: ignore[union-attr]
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("raftnode")),
            "node",
            "transfer-leadership",
            *flags,
            env={**os.environ, **node.environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said
        assert await asyncio.to_thread(node.stop) == 0
        node.environment |= {"RAFTNODE_PEER_TLS": mode, "RAFTNODE_API_TLS": mode}
        node.start()

        async def back(node: LocalNode = node) -> bool | None:
            described = await client.describe_quorum(confirmed=True)
            return all(voter.caught_up for voter in described.voters) or None

        await eventually(back, what=f"node {node.node_id} in mode {mode}")


@pytest.mark.extended
@pytest.mark.nightly
async def test_a_living_quorum_rolls_from_plain_to_tls_and_back_without_a_failed_write(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    secured = quorum_of(tmp_path, network, request, NO_ELECTION)
    quorum = LocalQuorum(tmp_path, 3, network, cluster_id=CLUSTER_ID)
    for plain, tls in zip(quorum.nodes, secured.nodes, strict=True):
        plain.environment |= tls.environment
        plain.environment |= {"RAFTNODE_PEER_TLS": "disabled", "RAFTNODE_API_TLS": "disabled"}
    quorum.security = secured.security
    async with quorum, secured.client:
        await quorum.form(3)
        async with load(quorum.client, elections=True) as written:
            await grows(written)
            await roll(quorum, quorum.client, "permissive")
            await grows(written)
        total = len(written)
        async with load(secured.client, elections=True) as written:
            await roll(quorum, secured.client, "required")
            await grows(written)
            for node in quorum.nodes:
                assert node.output().count("tls_handshake_failed") < 20
            await roll(quorum, secured.client, "permissive")
            await grows(written)
        total += len(written)
        async with load(quorum.client, elections=True) as written:
            await roll(quorum, quorum.client, "disabled")
            await grows(written)
        print(f"rolled: {total + len(written)} writes")  # noqa: T201


async def test_a_node_with_damaged_storage_answers_probes_in_tls(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request, {"RAFTNODE_DAMAGE_REPORT_MS": "60000"})
    async with quorum:
        await quorum.form(1)
        [node, security] = [quorum.nodes[0], quorum.security]
        assert security is not None
        assert await asyncio.to_thread(node.stop) == 0
        damaged = node.directory / "__cluster_metadata-0" / "quorum-state"
        damaged.write_bytes(damaged.read_bytes().replace(b"leaderEpoch", b"leaderEposh"))
        node.start()
        context = make_context(security.credentials())

        async def told() -> str | None:
            url = f"https://{node.api}/healthz/ready"
            async with (
                aiohttp.ClientSession() as session,
                session.get(url, ssl=context) as answer,
            ):
                return (await answer.text()) if answer.status == 503 else None

        assert "must be replaced" in await eventually(told, what="an answer")


def logged(node: LocalNode, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in node.output().splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("event") == event]


@pytest.mark.extended
async def test_a_ca_that_expires_beside_a_valid_one_is_reported_once_and_stops_nothing(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    async with quorum_of(tmp_path, network, request) as quorum:
        assert quorum.security is not None
        before = await quorum.form(3)
        old = Authority("old", valid_for=dt.timedelta(seconds=5))
        node = quorum.nodes[0]
        ca_file = quorum.security.node_directory(0) / "ca.crt"
        replace_file(ca_file, ca_file.read_bytes() + old.pem)
        [ca] = read_certificates(old.pem)

        async def has_expired() -> bool | None:
            return bool(logged(node, "ca_expired")) or None

        await eventually(has_expired, what="the log line about the expired CA")
        await quorum.put("key", b"value")
        [line] = logged(node, "ca_expired")
        assert (line["sha256"], line["listener"], line["valid_cas"]) == (ca.sha256, "peer", 1)
        metric = (
            f'raftnode_tls_ca_expiry_timestamp_seconds{{ca="{ca.sha256[:16]}",listener="peer"}}'
        )
        assert (await metrics_of(quorum, node))[metric] == ca.not_after.timestamp()
        assert logged(node, "certificate_expired") == []
        replace_file(ca_file, quorum.security.authority.pem)

        async def is_gone() -> bool | None:
            return metric not in await metrics_of(quorum, node) or None

        await eventually(is_gone, what="the end of the removed CA's series")
        assert len(logged(node, "ca_expired")) == 1
        assert (await quorum.describe()).epoch == before.epoch
