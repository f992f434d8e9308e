"""The dialled side: `/v1/peer`, where other replicas send their requests.

Each connection has a task that reads, and a task that writes the responses. A response may come
at any time and in any order. A stranger's bytes get an error reply or a closed connection, and
never reach the callback.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from raftnode.core.messages import ErrorCode, Request, Response
from raftnode.core.types import ReplicaKey
from raftnode.errors import DecodeError
from raftnode.log_limit import LineBudget
from raftnode.tls.certificates import Certificate
from raftnode.transport.connection_limits import Lobby, Rank, Seats, address_of
from raftnode.transport.context import PeerContext
from raftnode.transport.hello import (
    Hello,
    Identity,
    Refusal,
    RefusalReason,
    decode_hello,
    encode_hello,
    encode_refusal,
    refusal_of,
)
from raftnode.transport.outbox import Outbox
from raftnode.transport.peer_tls import PeerRefusal
from raftnode.wire import Envelope, MessageError, RequestFrame, compact_fetch

_log = structlog.get_logger(__name__)

Respond = Callable[[Response], None]
"""Answers one request: once, from the loop's thread, now or later.

Further calls, and calls after the connection ended, do nothing.
"""

OnRequest = Callable[[ReplicaKey, Request, Respond], None]
"""Accepts a request of an identified replica; must not block and must not raise."""

OnHello = Callable[[Identity], None]
"""Called for each replica whose hello was accepted."""

OnRefused = Callable[[RefusalReason, ReplicaKey | None, str], None]
"""Called for each refused hello: why, the replica that it names, the address."""


class PeerServer:
    """Serves all replicas that dial this one; `handle` goes into aiohttp's routes.

    The listener tells `lobby` of each connection that it accepts.
    """

    def __init__(
        self,
        context: PeerContext,
        *,
        on_request: OnRequest,
        on_hello: OnHello | None = None,
        on_refused: OnRefused | None = None,
        rank: Callable[[ReplicaKey], Rank] | None = None,
    ) -> None:
        self._context = context
        self._identity = context.identity
        self._on_request = on_request
        self._on_hello = on_hello
        self._on_refused = on_refused
        self._gate = context.gate
        self._spawn = context.spawn
        self._settings = context.settings
        self._lines = LineBudget()
        self.lobby = Lobby(self._settings.greetings_max, self._settings.hello_timeout_ms / 1000)
        self._seats = Seats[web.WebSocketResponse](
            self._settings.connections_max, rank or (lambda _: Rank.STRANGER)
        )
        self._sockets: dict[web.WebSocketResponse, tuple[Certificate, ...]] = {}
        """Each with the CAs by which it was verified; none without TLS."""
        self._closing = False

    @property
    def connections(self) -> Counter[ReplicaKey]:
        """How many connections each replica has to this one."""
        return self._seats.connections

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection until it ends."""
        settings = self._settings
        if self._closing:
            return web.Response(status=503, text="closing\n")
        self.lobby.enter(request.protocol)
        refusal = self._judge(request, None)
        if refusal is not None:
            self.lobby.leave(request.protocol)
            answer = web.Response(status=403, text=f"{refusal.detail}\n")
            answer.force_close()
            return answer
        socket = web.WebSocketResponse(
            heartbeat=settings.heartbeat_ms / 1000,
            max_msg_size=settings.request_bytes_max,
            timeout=settings.close_timeout_ms / 1000,
            compress=False,
        )
        try:
            await socket.prepare(request)
        except (ConnectionError, ValueError):
            # The client gave up before the answer, say while this process stood still; or its
            # headers are not valid.
            return web.Response(status=400)
        self._sockets[socket] = self._verified_by(request)
        try:
            hello = await self._greet(request, socket)
            if hello is not None:
                await self._serve(request, socket, hello.identity)
        finally:
            self._sockets.pop(socket, None)
            self._seats.leave(socket)
            self.lobby.leave(request.protocol)
            if request.transport is not None:
                # After a close frame nothing is left to send; without one nothing will be read.
                request.transport.abort()
        return socket

    @property
    def _trusted(self) -> tuple[Certificate, ...]:
        tls = self._context.tls
        return () if tls is None else tls.files.material.trusted

    def _verified_by(self, request: web.Request) -> tuple[Certificate, ...]:
        """The CAs at the time of the handshake: they may have changed before the request came."""
        tls, transport = self._context.tls, request.transport
        ssl_object = None if transport is None else transport.get_extra_info("ssl_object")
        if tls is None or ssl_object is None:
            return self._trusted
        return tls.files.trusted_by(ssl_object.context)

    def renew(self) -> None:
        """End connections that were verified by previous CAs, after a grace period."""
        self._spawn(self._end_former(), name="end connections of a former CA")

    async def _end_former(self) -> None:
        await asyncio.sleep(self._settings.trust_grace_ms / 1000)
        former = [socket for socket, trusted in self._sockets.items() if trusted != self._trusted]
        for socket in former:
            await _close(socket, WSCloseCode.GOING_AWAY, "the trusted CAs have changed")

    async def close(self) -> None:
        """Close every connection with a reason and accept no further connection."""
        self._closing = True
        farewells = [_close(socket, WSCloseCode.GOING_AWAY, "closing") for socket in self._sockets]
        await asyncio.gather(*farewells)

    def _judge(self, request: web.Request, peer: Identity | None) -> PeerRefusal | None:
        """Judge the other end by its certificate."""
        tls = self._context.tls
        if tls is None:
            return None
        address = address_of(request.protocol)
        return tls.judge(request.transport, peer, listener="peer", address=address)

    async def _greet(self, request: web.Request, socket: web.WebSocketResponse) -> Hello | None:
        own = self._identity()
        try:
            data = await socket.receive_bytes(timeout=self._settings.hello_timeout_ms / 1000)
            theirs = decode_hello(data)
            if isinstance(theirs, Refusal):
                return None
            wrong = self._judge(request, theirs.identity)
            if wrong is not None:
                refusal = Refusal(RefusalReason.WRONG_CERTIFICATE, wrong.detail, own.key)
            else:
                refusal = refusal_of(own, theirs, wanted=theirs.wants, dialled=own.key)
            if refusal is None:
                # From here on the peer has time: the gate may have to wait for the disk.
                self.lobby.leave(request.protocol)
                if not self._seats.take(socket, theirs.identity.key, request.protocol):
                    await _close(
                        socket, WSCloseCode.TRY_AGAIN_LATER, "no room for another unknown peer"
                    )
                    return None
                refusal = await self._gate.admit(theirs.identity)
        except (DecodeError, TypeError, TimeoutError) as error:
            theirs = None
            refusal = Refusal(RefusalReason.BAD_HELLO, str(error) or "no hello in time", own.key)
        try:
            if refusal is not None or theirs is None:
                if refusal is not None:
                    self._lines.say(
                        _log.info,
                        "peer_refused",
                        refusal.reason,
                        reason=refusal.reason,
                        detail=refusal.detail,
                    )
                    # A node that dials its own address has refused no other replica.
                    named = None if theirs is None else theirs.identity
                    is_own = named is not None and named.is_of_same_process(own)
                    if self._on_refused is not None and not is_own:
                        key = None if named is None else named.key
                        self._on_refused(refusal.reason, key, address_of(request.protocol))
                    await socket.send_bytes(encode_refusal(refusal))
                    await _close(socket, WSCloseCode.POLICY_VIOLATION, refusal.reason)
                return None
            await socket.send_bytes(encode_hello(Hello(own)))
        except (OSError, RuntimeError):
            return None
        return theirs

    async def _serve(
        self, request: web.Request, socket: web.WebSocketResponse, peer: Identity
    ) -> None:
        await self._make_room(peer.key)
        if self._on_hello is not None:
            self._on_hello(peer)
        connection = _Connection(
            self._context,
            on_request=self._on_request,
            peer=peer,
            outbox=Outbox(socket.send_bytes, bytes_max=self._settings.outbox_bytes_max),
            cut=partial(_abort, request),
            lines=self._lines,
        )
        writer = self._spawn(connection.outbox.run(), name=f"write to {peer.key}")
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    problem = connection.receive(message.data)
                elif message.type is WSMsgType.ERROR:
                    problem = f"{message.data}"
                else:
                    problem = f"a message of type {message.type.name}"
                if problem is not None:
                    self._lines.say(
                        _log.info, "peer_connection_closed", peer=str(peer.key), reason=problem
                    )
                    await _close(socket, WSCloseCode.POLICY_VIOLATION, problem)
                    break
        finally:
            connection.forget()
            writer.cancel()

    async def _make_room(self, key: ReplicaKey) -> None:
        for socket in self._seats.of(key)[: -self._settings.connections_per_replica_max]:
            self._seats.leave(socket)
            await _close(socket, WSCloseCode.TRY_AGAIN_LATER, "too many connections")


class _Connection:
    """One replica's requests that wait for their answer.

    Invariant: a correlation id is in `_open` from its request to its response, and
    never more than `outstanding_max` are; the oldest is forgotten, not the newest,
    because its sender has most likely stopped waiting.
    """

    def __init__(
        self,
        context: PeerContext,
        *,
        on_request: OnRequest,
        peer: Identity,
        outbox: Outbox,
        cut: Callable[[], None],
        lines: LineBudget,
    ) -> None:
        self._lines = lines
        self.outbox = outbox
        self._codec = context.codec
        self._identity = context.identity
        self._on_request = on_request
        self._gate = context.gate
        self._settings = context.settings
        self._peer = peer
        self._cut = cut
        self._open: OrderedDict[int, Envelope] = OrderedDict()
        self._hears_refusal = True
        """True until the first frame: the dialler judges our hello after its own was judged."""

    def receive(self, data: bytes) -> str | None:
        """Accept a frame; return why the connection must end, if it must."""
        if not self._gate.is_current(self._peer):
            return f"a later start of {self._peer.key} was seen"
        if self._hears_refusal and data.startswith(b"{"):
            return self._refused(data)
        self._hears_refusal = False
        try:
            frame = self._codec.decode(data)
        except MessageError as error:
            if error.envelope.is_response or error.envelope.source != self._peer.key:
                return f"{error}"
            return self._refuse(error.envelope, error.error, str(error))
        except DecodeError as error:
            return f"{error}"
        envelope = frame.envelope
        if not isinstance(frame, RequestFrame):
            return "a response on a connection for requests"
        if envelope.source != self._peer.key:
            return f"a frame from {envelope.source} on the connection of {self._peer.key}"
        own = self._identity()
        if envelope.target not in (None, own.key):
            reason = f"addressed to {envelope.target}; this is {own.key}"
            return self._refuse(envelope, ErrorCode.INVALID_VOTER_KEY, reason)
        clusters = {envelope.cluster_id, self._peer.cluster_id, own.cluster_id} - {None}
        if len(clusters) > 1:
            reason = f"cluster {envelope.cluster_id}; this is {own.cluster_id}"
            return self._refuse(envelope, ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
        if envelope.cluster_id is not None and self._peer.cluster_id is None:
            # The gate did not remember this start (S3), since a blank replica promises nothing.
            return "the peer has joined a cluster since its hello and has to say hello again"
        if envelope.cluster_id is None and self._peer.cluster_id is not None:
            return self._refuse(envelope, ErrorCode.INVALID_REQUEST, "no cluster id")
        correlation_id = envelope.correlation_id
        if correlation_id in self._open:
            return f"correlation id {correlation_id} was used before"
        self._open[correlation_id] = envelope
        if len(self._open) > self._settings.outstanding_max:
            self._open.popitem(last=False)
        respond = partial(self._respond, correlation_id)
        self._on_request(envelope.source, frame.message, respond)
        return None

    def _refused(self, data: bytes) -> str:
        """Take the dialler's refusal of our hello, which only the dialler itself may give."""
        try:
            refusal = decode_hello(data)
        except DecodeError as error:
            return f"{error}"
        if not isinstance(refusal, Refusal) or refusal.replica != self._peer.key:
            return "a hello on a connection for requests"
        self._gate.refused(refusal)
        return f"the peer refuses this replica: {refusal.reason}: {refusal.detail}"

    def forget(self) -> None:
        """Ignore the answers that still come, as the connection has ended."""
        self._open.clear()

    def _respond(self, correlation_id: int, response: Response) -> None:
        request = self._open.pop(correlation_id, None)
        if request is None:
            return
        own = self._identity()
        try:
            frame = self._codec.encode_response(
                response,
                source=own.key,
                target=self._peer.key,
                cluster_id=own.cluster_id,
                correlation_id=correlation_id,
                compact=request.api_key == compact_fetch.API_KEY,
            )
        except ValueError as error:
            self._refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            return
        self._send(frame)

    def _refuse(self, envelope: Envelope, error: ErrorCode, reason: str) -> None:
        own = self._identity()
        frame = self._codec.encode_error(
            envelope, error, reason, source=own.key, cluster_id=own.cluster_id
        )
        self._lines.say(
            _log.info,
            "request_refused",
            error.name,
            peer=str(self._peer.key),
            error=error.name,
            reason=reason,
        )
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        if not self.outbox.put(frame):
            reason = "the peer does not read"
            self._lines.say(
                _log.info, "peer_connection_closed", peer=str(self._peer.key), reason=reason
            )
            self._cut()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _close(socket: web.WebSocketResponse, code: WSCloseCode, reason: str) -> None:
    """Close with a reason; the handler's end cuts off a peer that does not answer the close."""
    try:
        async with asyncio.timeout(1):
            await socket.close(code=code, message=_cut_text(reason), drain=False)
    except (OSError, RuntimeError):
        return


def _cut_text(reason: str) -> bytes:
    """A reason of at most the 123 bytes that a close frame can carry."""
    return reason.encode()[:120].decode(errors="ignore").encode()
