"""A client's connection: what it waits for and since when, so that a slow client is cut off.

aiohttp has no deadline for a head that trickles, none for an answer that is not read, and answers
a malformed head as text. The module adds these. The limits are applied by `raftnode.api.guard`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from raftnode.api.client_certificate import ClientCertificate, certificate_of
from raftnode.api.errors import refusal
from raftnode.api.http import error_response
from raftnode.limits.addresses import address_of

HEAD_LINE_MAX_BYTES = 8190
"""The longest request line, and the longest header. A key takes at most three times its length."""

HEADERS_MAX = 64
"""Headers of a request; clients, proxies and probes send about twenty."""

RECEIVE_MAX_BYTES = 32 << 10
"""How much one call takes from a connection; asyncio takes up to eight times as much."""

LINGERING_S = 1.0
"""Time to keep reading from a client whose body was refused, so that it gets the answer."""


class ConnectionKeeper(Protocol):
    """Is called for each event of a connection; `raftnode.api.guard.Guard` implements it."""

    def enter(self, connection: ClientConnection) -> bool:
        """Accept a new connection; False: it may only ask for administration."""
        ...

    def leave(self, connection: ClientConnection) -> None:
        """Forget a connection that has ended."""
        ...

    def idle(self, connection: ClientConnection) -> None:
        """Note that its request was answered."""
        ...

    def head_refused(self, connection: ClientConnection) -> None:
        """Note that its head was too large."""
        ...


class ClientConnection(web.RequestHandler):
    """A connection with what the limits need to know of it.

    Attributes:
        address: that it counts for.
        restricted: whether it may only ask for administration, health and metrics.
        waits_for_head: whether no request is in flight.
        head_began: whether a part of the next head has arrived; so from the beginning.
        since_s: the loop's time when `waits_for_head` or `head_began` changed.
        unread_since_s: when the client's system stopped to take answers; None: it takes them.
        queued_bytes: the size of answers that wait outside of the transport.
        on_received: is called with the size of what arrives in a session.
        certificate: of the client; None: it has none.
    """

    __slots__ = (
        "_counted",
        "_ends",
        "_keeper",
        "address",
        "certificate",
        "head_began",
        "on_received",
        "queued_bytes",
        "restricted",
        "since_s",
        "unread_since_s",
        "waits_for_head",
    )

    def __init__(
        self, server: web.Server, keeper: ConnectionKeeper, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # pyright: ignore[reportArgumentType] - as aiohttp's own runner does
            lingering_time=LINGERING_S,
            max_line_size=HEAD_LINE_MAX_BYTES,
            max_field_size=HEAD_LINE_MAX_BYTES,
            max_headers=HEADERS_MAX,
        )
        self._keeper = keeper
        self._counted = False
        self._ends = False
        self.certificate: ClientCertificate | None = None
        self.address = ""
        self.restricted = False
        self.waits_for_head = True
        self.head_began = True
        self.since_s = loop.time()
        self.unread_since_s: float | None = None
        self.queued_bytes: Callable[[], int] = _nothing
        self.on_received: Callable[[int], None] | None = None

    def arrive(self, transport: asyncio.Transport) -> None:
        """Count the connection before its handshake; `gone` is its end if that fails."""
        self.transport = transport  # which `cut` may end
        self._count(transport)

    def gone(self) -> None:
        """Forget a connection whose handshake failed."""
        self.transport = None
        self._keeper.leave(self)

    def _count(self, transport: asyncio.BaseTransport) -> None:
        self._counted = True
        self.address = address_of(transport)
        self.restricted = not self._keeper.enter(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, unless it was counted when it arrived."""
        super().connection_made(transport)
        self.certificate = certificate_of(transport)
        if hasattr(transport, "max_size"):
            # A message that arrives waits whole in memory, and sessions may wait for their turn.
            transport.max_size = RECEIVE_MAX_BYTES  # pyright: ignore[reportAttributeAccessIssue]
        if not self._counted:
            self._count(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._keeper.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a head begins."""
        if self.waits_for_head and not self.head_began and data:
            self.head_began = True
            self.since_s = self._loop.time()
        if self.on_received is not None:
            self.on_received(len(data))
        super().data_received(data)

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        super().pause_writing()
        self.unread_since_s = self._loop.time()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self.unread_since_s = None

    def head_arrived(self) -> None:
        """Note that a request is in flight."""
        self.waits_for_head = False

    @property
    def unread_bytes(self) -> int:
        """The size of the answers that the client has not taken."""
        if self.transport is None:
            return 0
        return self.transport.get_write_buffer_size() + self.queued_bytes()

    def cut(self) -> None:
        """Close the connection at once, and forget what it has not read."""
        if self.transport is not None:
            self.transport.abort()

    def end(self) -> None:
        """Close the connection, after the answer if a request is in flight."""
        if self.waits_for_head and self.transport is not None:
            self.transport.close()
        else:
            self._ends = True

    @property
    def _has_expired(self) -> bool:
        certificate = self.certificate
        return certificate is not None and time.time() >= certificate.expires_s

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; then the connection waits for the next head."""
        if self.restricted or self._ends or self._has_expired:
            resp.force_close()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            if isinstance(resp, web.Response):
                resp.body = None  # aiohttp holds the answer until the next request
            self.waits_for_head, self.head_began = True, False
            self.since_s = self._loop.time()
            self.queued_bytes, self.on_received = _nothing, None
            self._keeper.idle(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a malformed head in the API's form; the connection then ends."""
        if not isinstance(exc, BadHttpMessage):
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong) or "Too many headers" in exc.message:
            self._keeper.head_refused(self)
            answer = error_response(
                refusal(
                    "HEAD_TOO_LARGE",
                    f"a line of the head may have {HEAD_LINE_MAX_BYTES} bytes, "
                    f"the head {HEADERS_MAX} headers",
                )
            )
        else:
            super().handle_error(request, status, exc, message)  # it writes the log's line
            answer = error_response(refusal("INVALID_REQUEST", "the head is not valid HTTP"))
        answer.force_close()
        return answer


def _nothing() -> int:
    return 0
