"""The dialling side: from an address to a connection with the wanted replica."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, cast

from aiohttp import (
    ClientError,
    ClientSession,
    ClientWebSocketResponse,
    ClientWSTimeout,
)

from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.tls.failures import speaks_no_tls
from raftnode.transport.failure import Failure, FailureReason
from raftnode.transport.gate import Gate
from raftnode.transport.hello import (
    COMPACT_FETCH_VERSION,
    Hello,
    Identity,
    Refusal,
    RefusalReason,
    decode_hello,
    encode_hello,
    encode_refusal,
    refusal_of,
)
from raftnode.transport.peer_tls import DIALLED, PeerTls
from raftnode.transport.settings import TransportSettings

PATH = "/v1/peer"

RENEW_AFTER = 0.9
"""Share of the time for which both certificates are valid, after which a connection is renewed."""
RENEW_MIN_S = 1.0
"""The least time between two renewals."""


class DialError(Exception):
    """No wanted replica answered at an address.

    Attributes:
        failure: the outcome of the requests that waited for the connection.
        replica: the replica that listens there instead, if it said so.
    """

    def __init__(self, failure: Failure, replica: ReplicaKey | None = None) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.replica = replica


@dataclass(frozen=True, slots=True)
class Dialled:
    """An open connection and the replica at its other end."""

    socket: ClientWebSocketResponse
    peer: Identity
    endpoint: Endpoint
    own_cluster_id: str | None
    """The cluster that this end named in its hello."""
    compact: bool = True
    """The other end reads the compact form of Fetch."""
    renew_in_s: float | None = None
    """When to make the connection again, before a certificate expires; None: it is plain."""


def make_socket(address: tuple[Any, ...], *, unacknowledged_ms: int) -> socket.socket:
    """Make a socket that sends at once and gives up data that the peer does not acknowledge."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unacknowledged_ms)
    return made


async def dial(
    session: ClientSession,
    endpoint: Endpoint,
    *,
    own: Identity,
    wants: ReplicaKey | None,
    gate: Gate,
    settings: TransportSettings,
    frame_bytes_max: int,
    tls: PeerTls | None,
) -> Dialled:
    """Connect and exchange hellos.

    The caller closes the socket of the result.

    Raises:
        DialError: the address is unreachable, another replica than `wants` listens there, or
            that replica refuses this one.
    """
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            opened = await _open(session, endpoint, settings, frame_bytes_max, tls)
            try:
                _verify(tls, opened, endpoint, None)
                return await _greet(opened, endpoint, own, wants, gate, tls)
            except BaseException:
                await opened.close()
                raise
    except (ClientError, OSError, ValueError, TypeError, RuntimeError, DecodeError) as error:
        # ValueError: hosts that no URL can hold; TypeError: not a binary frame.
        detail = f"{endpoint}: {error or type(error).__name__}"
        raise DialError(Failure(FailureReason.UNREACHABLE, detail)) from error


async def _open(
    session: ClientSession,
    endpoint: Endpoint,
    settings: TransportSettings,
    frame_bytes_max: int,
    tls: PeerTls | None,
) -> ClientWebSocketResponse:
    """Open a connection: in TLS, or plain if both this node and the other end allow it."""

    async def connect(ssl: SSLContext | None) -> ClientWebSocketResponse:
        return await session.ws_connect(
            f"{'ws' if ssl is None else 'wss'}://{endpoint}{PATH}",
            heartbeat=settings.heartbeat_ms / 1000,
            max_msg_size=frame_bytes_max,
            timeout=_close_timeout(settings),
            ssl=ssl or True,
        )

    if tls is None:
        return await connect(None)
    try:
        return await connect(tls.client)
    except (ClientError, OSError) as error:
        if tls.is_permissive and speaks_no_tls(error):
            return await connect(None)
        tls.dial_failed(str(endpoint), error)
        raise


def _verify(
    tls: PeerTls | None,
    opened: ClientWebSocketResponse,
    endpoint: Endpoint,
    peer: Identity | None,
) -> None:
    """Check by its certificate whom this node has reached.

    Raises:
        DialError: the certificate is of another cluster, or of another node than `peer`.
    """
    if tls is None:
        return
    refusal = tls.judge(opened, peer, listener=DIALLED, address=str(endpoint))
    if refusal is not None:
        failure = Failure(
            FailureReason.REFUSED,
            f"{endpoint}: {refusal.reason}: {refusal.detail}",
            RefusalReason.WRONG_CERTIFICATE,
        )
        raise DialError(failure)


async def _greet(
    opened: ClientWebSocketResponse,
    endpoint: Endpoint,
    own: Identity,
    wants: ReplicaKey | None,
    gate: Gate,
    tls: PeerTls | None,
) -> Dialled:
    await opened.send_bytes(encode_hello(Hello(own, wants=wants)))
    theirs = decode_hello(await opened.receive_bytes())
    if isinstance(theirs, Refusal):
        gate.refused(theirs)
        raise _refused(endpoint, theirs, theirs.replica)
    _verify(tls, opened, endpoint, theirs.identity)
    key = theirs.identity.key
    refusal = refusal_of(own, theirs, wanted=wants, dialled=key)
    if refusal is None:
        refusal = await gate.admit(theirs.identity)
    if refusal is not None:
        await opened.send_bytes(encode_refusal(refusal))
        raise _refused(endpoint, refusal, key)
    compact = theirs.version_max >= COMPACT_FETCH_VERSION
    left_s = tls.seconds_left(opened) if tls is not None else None
    renew_in_s = None if left_s is None else max(left_s * RENEW_AFTER, RENEW_MIN_S)
    return Dialled(opened, theirs.identity, endpoint, own.cluster_id, compact, renew_in_s)


def _refused(endpoint: Endpoint, refusal: Refusal, replica: ReplicaKey | None) -> DialError:
    detail = f"{endpoint}: {refusal.reason}: {refusal.detail}"
    return DialError(Failure(FailureReason.REFUSED, detail, refusal.reason), replica)


def _close_timeout(settings: TransportSettings) -> ClientWSTimeout:
    make = cast("Any", ClientWSTimeout)  # its fields are declared in a way that checkers miss
    return cast("ClientWSTimeout", make(ws_close=settings.close_timeout_ms / 1000))
