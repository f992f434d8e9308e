"""`/v1/session`: a session's WebSocket, from its handshake to its close."""

from __future__ import annotations

import asyncio
import contextlib

import structlog
from aiohttp import WebSocketError, WSCloseCode, WSMsgType, web

from raftnode.api.authorization import CALLER, Caller
from raftnode.api.client_connection import ClientConnection
from raftnode.api.errors import refusal
from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits, Route
from raftnode.api.needs import SESSION
from raftnode.api.service import NodeService
from raftnode.api.session import Session, SessionFault, SessionObserver, greeting_of
from raftnode.api.session_share import SessionShare
from raftnode.errors import RequestError
from raftnode.limits.model import Limit
from raftnode.log_limit import LineBudget
from raftnode.session import PATH, SUBPROTOCOL, answers

__all__ = ["SessionObserver", "SessionRoute"]

_log = structlog.get_logger(__name__)
_lines = LineBudget()

HEARTBEAT_S = 20.0
"""How often a silent client is asked whether it is there; half of it without a sign ends the
session."""

CALLER_LOOK_S = 10.0
"""How often an idle session is asked whether its caller may still have it."""

CLOSE_REFUSED = 4401
"""The status with which a session is closed that its caller may no longer have."""

_CLOSE_S = 2.0
"""How long a refused client has to close its side."""

_REASON_MAX = 120
"""A close frame has 125 bytes, two of them for the code."""


class _RefusedError(Exception):
    """The access file in force does not allow the session any more."""


async def _refuse_when_idle(session: Session, caller: Caller) -> None:
    """Look at a session's caller until it may no longer have a session.

    What a session has begun is answered first: a write that was begun may be done.

    Raises:
        _RefusedError: it may not.
    """
    while True:
        await asyncio.sleep(CALLER_LOOK_S)
        if session.is_idle:
            try:
                caller.check(SESSION.verb)
            except RequestError as error:
                raise _RefusedError(f"{error.error}: {error}") from None


class SessionRoute:
    """The route, and the sessions that it has open.

    Args:
        service: the node.
        limits: sizes to check before the node is called.
        observer: is called for sessions and their operations; None: no observer.
        guard: limits the sessions; None: the default limits.
    """

    def __init__(
        self,
        service: NodeService,
        limits: ApiLimits,
        observer: SessionObserver | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._service = service
        self._limits = limits
        self._observer = observer
        self._guard = guard or Guard()
        self._open: dict[web.WebSocketResponse, asyncio.Transport | None] = {}

    def route(self) -> Route:
        """Make its row of the route table."""
        return Route(
            "GET",
            PATH,
            self.handle,
            "openSession",
            "Open a session: a WebSocket with many operations in each message. The session "
            "protocol has its own reference.",
            SESSION,
            status=101,
            errors=("INVALID_REQUEST", "TOO_MANY_SESSIONS"),
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one session until it ends.

        Raises:
            RequestError: INVALID_REQUEST, TOO_MANY_SESSIONS.
        """
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if SUBPROTOCOL not in {name.strip() for name in offered.split(",")}:
            raise refusal(
                "INVALID_REQUEST",
                f"Sec-WebSocket-Protocol is {offered!r}; this node speaks {SUBPROTOCOL}",
            )
        end = self._guard.take_session(request)
        try:
            return await self._open_session(request)
        finally:
            end()

    async def _open_session(self, request: web.Request) -> web.StreamResponse:
        credit_bytes = greeting_of(self._limits).credit_bytes
        websocket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            heartbeat=HEARTBEAT_S,
            compress=False,
            timeout=_CLOSE_S,
            max_msg_size=credit_bytes,
        )
        await websocket.prepare(request)
        transport = request.transport
        self._open[websocket] = transport if isinstance(transport, asyncio.Transport) else None
        self._note()
        try:
            await self._serve(websocket, request)
        finally:
            self._open.pop(websocket, None)
            self._note()
        return websocket

    def _note(self) -> None:
        if self._observer is not None:
            self._observer.note_sessions(len(self._open))

    async def _serve(self, websocket: web.WebSocketResponse, request: web.Request) -> None:
        faults: list[str] = []
        refusals: list[str] = []
        caller, watch = request.get(CALLER), None
        holder, protocol = self._guard.holder_of(request), request.protocol
        connection = protocol if isinstance(protocol, ClientConnection) else None
        try:
            async with asyncio.TaskGroup() as group:
                session = Session(
                    self._service,
                    self._limits,
                    websocket.send_bytes,
                    group.create_task,
                    self._observer,
                    share=SessionShare(self._guard, holder, connection),
                    caller=caller,
                )
                if caller is not None and caller.is_limited:
                    watch = group.create_task(_refuse_when_idle(session, caller))
                if connection is not None:
                    connection.queued_bytes = session.unsent_bytes
                try:
                    await websocket.send_bytes(answers.encode_greeting(session.greeting))
                    session.start()
                    await self._receive(websocket, session)
                finally:
                    session.close()
                    if watch is not None:
                        watch.cancel()
        except* SessionFault as raised:
            faults += [str(fault) for fault in raised.exceptions]
        except* _RefusedError as raised:
            refusals += [str(refused) for refused in raised.exceptions]
        except* OSError:
            pass  # the client has gone
        if faults:
            _lines.say(_log.warning, "session_refused", "fault", reason=faults[0])
            self._guard.refused(Limit.SESSION_FAULT, holder)
            await self._close(websocket, WSCloseCode.POLICY_VIOLATION, _cut(faults[0]))
        elif refusals:
            await self._close(websocket, CLOSE_REFUSED, _cut(refusals[0]))

    async def _close(self, websocket: web.WebSocketResponse, code: int, reason: bytes) -> None:
        """Close a session; a client that reads nothing, not even the reason, holds up nothing."""
        transport = self._open.get(websocket)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await websocket.close(code=code, message=reason)
        if transport is not None and transport.get_write_buffer_size():
            transport.abort()

    async def _receive(self, websocket: web.WebSocketResponse, session: Session) -> None:
        async for message in websocket:
            if message.type is WSMsgType.ERROR:
                if isinstance(message.data, WebSocketError):
                    raise SessionFault(f"no message of a WebSocket: {message.data}")
                return  # the client answers no pings: it has gone
            if message.type is not WSMsgType.BINARY:
                raise SessionFault("a text message; send binary ones")
            await session.take(message.data)

    async def close_all(self, _app: web.Application) -> None:
        """Close all sessions, as the node stops."""
        reason = b"the node is stopping"
        # Together: a client that does not answer holds up only its own close.
        await asyncio.gather(
            *(
                self._close(websocket, WSCloseCode.GOING_AWAY, reason)
                for websocket in list(self._open)
            ),
            return_exceptions=True,
        )


def _cut(reason: str) -> bytes:
    return reason.encode()[:_REASON_MAX].decode(errors="ignore").encode()
