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
from raftnode.transport.failure import Failure, FailureReason
from raftnode.transport.gate import Gate
from raftnode.transport.hello import (
    COMPACT_FETCH_VERSION,
    Hello,
    Identity,
    Refusal,
    decode_hello,
    encode_hello,
    encode_refusal,
    refusal_of,
)
from raftnode.transport.settings import TransportSettings

PATH = "/v1/peer"


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
    ssl: SSLContext | None,
) -> Dialled:
    """Connect and exchange hellos.

    The caller closes the socket of the result.

    Raises:
        DialError: the address is unreachable, another replica than `wants` listens there, or
            that replica refuses this one.
    """
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            opened = await session.ws_connect(
                _url(endpoint, ssl),
                heartbeat=settings.heartbeat_ms / 1000,
                max_msg_size=frame_bytes_max,
                timeout=_close_timeout(settings),
                ssl=ssl or True,
            )
            try:
                return await _greet(opened, endpoint, own, wants, gate)
            except BaseException:
                await opened.close()
                raise
    except (ClientError, OSError, ValueError, TypeError, RuntimeError, DecodeError) as error:
        # ValueError: hosts that no URL can hold; TypeError: not a binary frame.
        detail = f"{endpoint}: {error or type(error).__name__}"
        raise DialError(Failure(FailureReason.UNREACHABLE, detail)) from error


async def _greet(
    opened: ClientWebSocketResponse,
    endpoint: Endpoint,
    own: Identity,
    wants: ReplicaKey | None,
    gate: Gate,
) -> Dialled:
    await opened.send_bytes(encode_hello(Hello(own, wants=wants)))
    theirs = decode_hello(await opened.receive_bytes())
    if isinstance(theirs, Refusal):
        gate.refused(theirs)
        raise _refused(endpoint, theirs, theirs.replica)
    key = theirs.identity.key
    refusal = refusal_of(own, theirs, wanted=wants, dialled=key)
    if refusal is None:
        refusal = await gate.admit(theirs.identity)
    if refusal is not None:
        await opened.send_bytes(encode_refusal(refusal))
        raise _refused(endpoint, refusal, key)
    compact = theirs.version_max >= COMPACT_FETCH_VERSION
    return Dialled(opened, theirs.identity, endpoint, own.cluster_id, compact)


def _refused(endpoint: Endpoint, refusal: Refusal, replica: ReplicaKey | None) -> DialError:
    detail = f"{endpoint}: {refusal.reason}: {refusal.detail}"
    return DialError(Failure(FailureReason.REFUSED, detail, refusal.reason), replica)


def _url(endpoint: Endpoint, ssl: SSLContext | None) -> str:
    return f"{'ws' if ssl is None else 'wss'}://{endpoint}{PATH}"


def _close_timeout(settings: TransportSettings) -> ClientWSTimeout:
    make = cast("Any", ClientWSTimeout)  # its fields are declared in a way that checkers miss
    return cast("ClientWSTimeout", make(ws_close=settings.close_timeout_ms / 1000))
