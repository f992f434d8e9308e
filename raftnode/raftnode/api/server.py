"""The HTTP server: serves all routes and turns every failure into an ApiError.

The module has the application, its middleware and its listener. The routes are in the
`*_routes.py` modules.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Protocol

import structlog
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry

from raftnode.api.authorization import CHALLENGE, Gate
from raftnode.api.client_connection import LINGERING_S, ClientConnection
from raftnode.api.errors import ERRORS, refusal
from raftnode.api.guard import GUARD, Guard
from raftnode.api.http import BODY_LIMITS, STILL_ALLOWED, ApiLimits, Route, error_response
from raftnode.api.kv_routes import kv_routes
from raftnode.api.listeners import Listener, Part
from raftnode.api.log_routes import log_routes
from raftnode.api.needs import DESCRIBE, Need
from raftnode.api.node_routes import node_routes
from raftnode.api.openapi import openapi
from raftnode.api.quorum_routes import quorum_routes
from raftnode.api.service import NodeService
from raftnode.api.session_route import SessionObserver, SessionRoute
from raftnode.core.types import Endpoint
from raftnode.errors import RequestError
from raftnode.log_limit import LineBudget
from raftnode.session import PATH as SESSION_PATH
from raftnode.tls.handshakes import ListenerTls, TlsAcceptor

_log = structlog.get_logger(__name__)
_lines = LineBudget()

_STATUS_NAMES = {
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "BODY_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
}


class RequestObserver(Protocol):
    """Is called for every request; `raftnode.api.metrics.HttpMetrics` implements it."""

    def observe(self, *, method: str, path: str, status: int, seconds: float) -> None:
        """Note one answered request; `path` is the route's, not the client's."""
        ...


def all_routes(
    service: NodeService,
    limits: ApiLimits,
    registry: CollectorRegistry,
    sessions: SessionRoute | None = None,
) -> tuple[Route, ...]:
    """Make the whole route table, except `/openapi.json`."""
    sessions = sessions or SessionRoute(service, limits)
    return (
        *log_routes(service, limits),
        *kv_routes(service, limits),
        *quorum_routes(service),
        *node_routes(service, registry),
        sessions.route(),
    )


def make_app(
    service: NodeService,
    *,
    registry: CollectorRegistry,
    version: str,
    limits: ApiLimits | None = None,
    observer: RequestObserver | None = None,
    session_observer: SessionObserver | None = None,
    guard: Guard | None = None,
    gate: Gate | None = None,
) -> web.Application:
    """Make the application that serves a node.

    Args:
        service: the node.
        registry: the metrics of `/metrics`.
        version: of the program, for `/openapi.json`.
        limits: sizes to check before the node is called; None: the defaults.
        observer: is called for every request; None: no observer.
        session_observer: is called for the sessions' operations; None: no observer.
        guard: limits what clients may use; None: the default limits.
        gate: what this listener serves, and to which requests; None: all for this cluster.
    """
    limits, guard, gate = limits or ApiLimits(), guard or Guard(), gate or Gate(service)
    serving = gate.serving
    if serving.listener is Listener.API:
        service.turns.room = guard.answers.room
    sessions = SessionRoute(service, limits, session_observer, guard)
    routes = all_routes(service, limits, registry, sessions)
    document = openapi(routes, version=version)

    async def describe_api(_request: web.Request) -> web.StreamResponse:
        return web.json_response(document)

    needs: dict[web.AbstractRoute, tuple[Need, str]] = {}
    checks = _Checks(guard, gate, needs)
    app = web.Application(middlewares=[_make_middleware(observer, checks)])
    app[GUARD], app[BODY_LIMITS] = guard, guard
    for route in routes:
        # A key is all the rest of the path, slashes and line ends too.
        path = route.path.replace("{key}", "{key:(?s:.*)}")
        needs[app.router.add_route(route.method, path, serving.handler_of(route))] = (
            route.need,
            route.operation_id,
        )
    if serving.serves(Part.DESCRIPTION):
        described = app.router.add_route("GET", "/openapi.json", describe_api)
        needs[described] = (DESCRIBE, "describeApi")
    app.on_shutdown.append(sessions.close_all)
    return app


class _TurnedAway(asyncio.Protocol):
    """A connection beyond the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it at once: while it waits, it holds a file descriptor."""
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class _Listener(Protocol):
    """What `asyncio.Server` and `TlsAcceptor` have in common."""

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening sockets."""
        ...

    def close(self) -> None:
        """Accept no further connection."""
        ...


def _every_address(port: int) -> socket.socket:
    """Open a socket on all addresses of both families, or of IPv4 on a machine without IPv6.

    asyncio would open one for IPv6 only.

    Raises:
        OSError: the port is taken.
    """
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
            )
        except OSError as error:
            if error.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                raise
    return socket.create_server(("0.0.0.0", port), backlog=128)


class ApiServer:
    """An application on a listener; the application's guard limits its connections, if it has one.

    Args:
        app: the application to serve.
        shutdown_grace_ms: longest time for open requests after `stop`.
        connections_max: largest number of connections without a guard; the server closes further
            ones. Without a limit they would use up the file descriptors that the disk needs.
        on_connection: called with each new connection.
        on_gone: called with each connection whose handshake failed.
        tls: how the listener speaks TLS; None: it is plain.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_grace_ms: int = 2000,
        connections_max: int = 10_000,
        on_connection: Callable[[BaseProtocol], None] | None = None,
        on_gone: Callable[[BaseProtocol], None] | None = None,
        tls: ListenerTls | None = None,
    ) -> None:
        self._on_connection = on_connection
        self._on_gone = on_gone
        self._connections_max = connections_max
        self._tls = tls
        self._arriving = 0
        self._listener: _Listener | None = None
        self._guard = app.get(GUARD)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=shutdown_grace_ms / 1000,
            lingering_time=LINGERING_S,
            # A client that has gone waits for nothing: long polls, confirmations, queued writes.
            handler_cancellation=True,
        )

    async def start(self, listen: Endpoint) -> Endpoint:
        """Listen; port 0 takes any free port.

        Call `stop` afterwards, also if this raises.

        Returns:
            The address that it listens on.

        Raises:
            OSError: the address cannot be bound.
        """
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "set up above"  # noqa: S101

        loop = asyncio.get_running_loop()
        guard = self._guard
        if guard is not None:
            guard.begin()
        if self._tls is not None:
            opened = await _open_socket(loop, listen)
            self._listener = TlsAcceptor(self._tls, opened, self)
            host, port = opened.getsockname()[:2]
            return Endpoint(host, port)

        def accept() -> asyncio.BaseProtocol:
            if guard is not None:
                return ClientConnection(server, guard, loop)
            if len(server.connections) >= self._connections_max:
                return _TurnedAway()
            connection = server()
            if self._on_connection is not None:
                # In the turn after the one in which asyncio tells the protocol of its transport.
                loop.call_soon(loop.call_soon, self._on_connection, connection)
            return connection

        if listen.host == "::":
            every = _every_address(listen.port)
            self._listener = await loop.create_server(accept, sock=every, backlog=128)
        else:
            self._listener = await loop.create_server(
                accept, listen.host, listen.port, reuse_address=True, backlog=128
            )
        host, port = self._listener.sockets[0].getsockname()[:2]
        return Endpoint(host, port)

    def arrive(self, transport: asyncio.Transport) -> BaseProtocol | None:
        """Count a connection whose handshake has not begun; None: there are too many."""
        server = self._runner.server
        assert server is not None, "set up before it listens"  # noqa: S101
        if self._guard is not None:
            client = ClientConnection(server, self._guard, asyncio.get_running_loop())
            client.arrive(transport)
            return client
        if len(server.connections) + self._arriving >= self._connections_max:
            return None
        self._arriving += 1
        connection = server()
        connection.transport = transport
        if self._on_connection is not None:
            self._on_connection(connection)
        return connection

    def arrived(self, connection: BaseProtocol) -> None:
        """Note that a connection has come about."""
        if not isinstance(connection, ClientConnection):
            self._arriving -= 1

    def gone(self, connection: BaseProtocol) -> None:
        """Forget a connection whose handshake failed."""
        if isinstance(connection, ClientConnection):
            connection.gone()
            return
        self._arriving -= 1
        connection.transport = None
        if self._on_gone is not None:
            self._on_gone(connection)

    def end_former(self) -> None:
        """End connections whose client was verified by a CA that the listener trusts no more.

        A request in flight is answered before. A session ends as its route sees that its caller is
        refused.
        """
        server = self._runner.server
        if self._tls is None or server is None:
            return
        trusted = {ca.authority for ca in self._tls.files.material.trusted}
        for connection in server.connections:
            if not isinstance(connection, ClientConnection) or connection.certificate is None:
                continue
            if connection.certificate.verified_by.isdisjoint(trusted):
                connection.end()

    async def stop(self) -> None:
        """Close the listener, let requests end within the grace period, close the rest."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()
        if self._guard is not None:
            self._guard.end()


async def _open_socket(loop: asyncio.AbstractEventLoop, listen: Endpoint) -> socket.socket:
    """Open a listening socket as `asyncio` does.

    Raises:
        OSError: the address cannot be bound.
    """
    if listen.host == "::":
        return _every_address(listen.port)
    addresses = await loop.getaddrinfo(
        listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, _, _, _, address = addresses[0]
    return socket.create_server(address[:2], family=family, backlog=128)


@dataclass(frozen=True, slots=True)
class _Checks:
    """What a request passes before its handler, by its route."""

    guard: Guard
    gate: Gate
    needs: Mapping[web.AbstractRoute, tuple[Need, str]]

    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request that may start and is allowed.

        Raises:
            RequestError: it may not, or its handler refuses it.
        """
        declared = self.needs.get(request.match_info.route)
        self.gate.identify(request)
        async with self.guard.request(request):
            if declared is None:  # of no route: it is refused without a look at anything
                return await handler(request)
            need, operation = declared
            self.gate.permit(request, need, operation)
            request[STILL_ALLOWED] = partial(self.gate.permit_body, request, need)
            try:
                with self.gate.audited(request, need):
                    response = await handler(request)
            except RequestError:
                self.gate.permit_answer(request, need)
                raise
            self.gate.permit_answer(request, need)
            return self.guard.made(response)


def _make_middleware(observer: RequestObserver | None, checks: _Checks) -> Middleware:
    @web.middleware
    async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        started_s = time.perf_counter()
        response = await _answer(request, handler, checks)
        # A session lasts as long as its client wants: its operations have a metric of their own.
        is_session = request.path == SESSION_PATH and response.status == 101
        if observer is not None and not is_session:
            # Names that clients make up must not become labels: they are without bound.
            resource = request.match_info.route.resource
            observer.observe(
                method=request.method if resource is not None else "other",
                path=resource.canonical if resource is not None else "other",
                status=response.status,
                seconds=time.perf_counter() - started_s,
            )
        return response

    return answer_errors


async def _answer(request: web.Request, handler: Handler, checks: _Checks) -> web.StreamResponse:
    try:
        return await checks.answer(request, handler)
    except RequestError as error:
        return error_response(error, CHALLENGE if error.status == HTTPStatus.UNAUTHORIZED else None)
    except web.HTTPException as error:
        return _router_error(request, error)
    except ConnectionError:
        raise  # it has gone: aiohttp ends the connection
    except Exception:  # noqa: BLE001 - whatever it is, it is logged and answered
        # Not BaseException: a cancelled request has no client to answer.
        route = request.match_info.route.resource
        path = route.canonical if route is not None else "other"
        _lines.say(_log.exception, "request_failed", path, method=request.method, path=path)
        return error_response(
            refusal("INTERNAL", "the node failed on this request; its log has the details")
        )


def _router_error(request: web.Request, error: web.HTTPException) -> web.Response:
    name = _STATUS_NAMES.get(error.status)
    if name is None:
        return error_response(
            RequestError("INVALID_REQUEST", error.reason, status=ERRORS["INVALID_REQUEST"].status)
        )
    allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
    message = f"{request.method} {request.path}: {error.reason}"
    if allow:
        message += f"; allowed: {allow['Allow']}"
    return error_response(refusal(name, message), headers=allow)
