"""Requests to every node without credentials or without the role, and the answers to them.

A node is asked in plain text, by TLS without a token, with the token of a client that may only
read, and on the port of the nodes without a certificate.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from raftnode.client import Credentials

_WAIT_S = 5.0
_KEY = "/v1/kv/stranger"
_PLAIN_REQUEST = b"GET /v1/quorum HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
_PEER_REQUEST = b"GET /v1/peer HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
_ANONYMOUS = (("GET", _KEY), ("PUT", _KEY), ("GET", "/v1/quorum"), ("GET", "/metrics"))


@dataclass(frozen=True, slots=True)
class NodeListeners:
    """Where a node listens.

    Attributes:
        name: of the pod.
        host: its address.
        api_port, peer_port: of clients and of the other nodes.
    """

    name: str
    host: str
    api_port: int
    peer_port: int


@dataclass(slots=True)
class Findings:
    """What the nodes answered to strangers.

    Attributes:
        plain_answers: answers to requests without TLS, which must be none.
        versions: of TLS, by pod and port; "" where there was no handshake.
        anonymous: the status of each request without a token, by pod and request; all must be 401.
            0: no answer.
        reader_reads: the status of each read of a client that may read; all must be 200.
        reader_writes: the status of each write of that client; all must be 403.
        peers: by pod, whether its port for nodes ended a TLS connection without a certificate, and
            answered nothing.
    """

    plain_answers: list[str] = field(default_factory=list[str])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    anonymous: dict[str, int] = field(default_factory=dict[str, int])
    reader_reads: dict[str, int] = field(default_factory=dict[str, int])
    reader_writes: dict[str, int] = field(default_factory=dict[str, int])
    peers: dict[str, bool] = field(default_factory=dict[str, bool])

    @property
    def encrypted(self) -> bool:
        """Whether each port of each node speaks TLS, and answers nothing in plain text."""
        return bool(self.versions) and all(self.versions.values()) and not self.plain_answers

    @property
    def anonymous_refused(self) -> bool:
        """Whether each node refused each request without credentials."""
        return bool(self.anonymous) and set(self.anonymous.values()) == {401}

    @property
    def denied_by_role(self) -> bool:
        """Whether each node let the reader read, and refused its writes."""
        return (
            bool(self.reader_writes)
            and set(self.reader_writes.values()) == {403}
            and set(self.reader_reads.values()) == {200}
        )

    @property
    def peer_refused(self) -> bool:
        """Whether each node refused a peer without a certificate."""
        return bool(self.peers) and all(self.peers.values())

    @property
    def ok(self) -> bool:
        """Whether nothing is open."""
        return (
            self.encrypted and self.anonymous_refused and self.denied_by_role and self.peer_refused
        )

    def figures(self) -> dict[str, object]:
        """For the report."""
        return {
            "encrypted": self.encrypted,
            "anonymous_refused": self.anonymous_refused,
            "denied_by_role": self.denied_by_role,
            "peer_refused": self.peer_refused,
            "tls_versions": sorted(set(self.versions.values())),
            "plain_answers": self.plain_answers,
            "requests_without_credentials": len(self.anonymous),
            "requests_beyond_the_role": len(self.reader_writes),
        }

    def line(self) -> str:
        """For people."""
        versions = ", ".join(sorted(set(self.versions.values()))) or "no TLS"
        return (
            f"security  encrypted={self.encrypted} ({versions})  "
            f"anonymous_refused={self.anonymous_refused}  denied_by_role={self.denied_by_role}  "
            f"peer_refused={self.peer_refused}"
        )


async def check_access(
    listeners: Sequence[NodeListeners], reader: Credentials, findings: Findings
) -> None:
    """Ask each node, and add what it answers.

    Args:
        listeners: the nodes.
        reader: of a client that may read and nothing else, with TLS and a token.
        findings: what the nodes answered.

    Raises:
        OSError: a node cannot be reached.
    """
    assert reader.ca_file is not None, "the reader uses TLS"  # noqa: S101
    assert reader.token_file is not None, "the reader has a token"  # noqa: S101
    trusted = ssl.create_default_context(cafile=str(reader.ca_file))
    token = reader.token_file.read_text(encoding="ascii").strip()
    timeout = aiohttp.ClientTimeout(total=_WAIT_S)
    connector = aiohttp.TCPConnector(ssl=trusted)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        for listener in listeners:
            for port in (listener.api_port, listener.peer_port):
                place = f"{listener.name}:{port}"
                answer = await _plain(listener.host, port)
                if answer:
                    findings.plain_answers.append(f"{place}: {answer[:40]!r}")
                findings.versions[place] = await _version(listener, port, trusted)
            findings.peers[listener.name] = await _refuses_peer(listener, trusted)
            for method, path in _ANONYMOUS:
                place = f"{listener.name} {method} {path}"
                findings.anonymous[place] = await _ask(session, listener, method, path, {})
            known = {"Authorization": f"Bearer {token}"}
            findings.reader_reads[listener.name] = await _ask(
                session, listener, "GET", "/v1/node", known
            )
            findings.reader_writes[listener.name] = await _ask(
                session, listener, "PUT", _KEY, known
            )


async def _ask(
    session: aiohttp.ClientSession,
    listener: NodeListeners,
    method: str,
    path: str,
    headers: dict[str, str],
) -> int:
    """The status of a request over TLS; 0 without an answer."""
    try:
        async with session.request(
            method,
            f"https://{listener.host}:{listener.api_port}{path}",
            data=b"stranger" if method == "PUT" else None,
            headers=headers,
            server_hostname="localhost",
        ) as answer:
            return answer.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


async def _plain(host: str, port: int) -> bytes:
    """The answer to a request in plain text; b"" if the connection ends without one."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_PLAIN_REQUEST)
        async with asyncio.timeout(_WAIT_S):
            answer = await reader.read(1024)
        return b"" if answer[:1] == b"\x15" else answer  # an alert of TLS
    except (TimeoutError, OSError):
        return b""
    finally:
        writer.close()


async def _refuses_peer(listener: NodeListeners, trusted: ssl.SSLContext) -> bool:
    """Whether the port for nodes ends a TLS connection without a certificate, and answers nothing.

    With TLS 1.3 the handshake seems done before the node has judged the certificate.
    """
    writer = None
    try:
        async with asyncio.timeout(_WAIT_S):
            reader, writer = await asyncio.open_connection(
                listener.host, listener.peer_port, ssl=trusted, server_hostname="localhost"
            )
            writer.write(_PEER_REQUEST)
            return not await reader.read(1024)
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        if writer is not None:
            writer.close()


async def _version(listener: NodeListeners, port: int, trusted: ssl.SSLContext) -> str:
    """The version of TLS after a handshake with a certificate that clients trust; "" without."""
    try:
        async with asyncio.timeout(_WAIT_S):
            _, writer = await asyncio.open_connection(
                listener.host, port, ssl=trusted, server_hostname="localhost"
            )
    except (TimeoutError, OSError):
        return ""
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return version or ""
