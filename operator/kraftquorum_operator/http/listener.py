"""Serves the status page and the metrics, with few connections and limits on how long they last.

The server closes a connection without a request after `IDLE_S`, and one whose client reads nothing
after `SEND_S`. It closes connections above `CONNECTIONS_MAX` to a port at once, so that descriptors
and memory are left for the API server and the nodes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kraftquorum_operator.http.tls_listener import TlsListener
from raftnode.log_limit import LineBudget

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

CONNECTIONS_MAX = 64
IDLE_S = 15.0
SEND_S = 20.0


def guarded(headers: Mapping[str, str]) -> Middleware:
    """A middleware: adds these headers, logs errors and disconnects slow clients."""
    lines = LineBudget()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        response: web.StreamResponse
        try:
            response = await handler(request)
        except web.HTTPException as error:
            allow = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
            response = web.Response(status=error.status, text=error.text, headers=allow)
        except Exception:  # noqa: BLE001 - every error is logged and answered
            # Only the log has the error: its text may be confidential.
            lines.say(log.exception, "request_failed", path=request.path)
            response = web.Response(
                status=500, text="The operator failed on this request; see its log.\n"
            )
        response.headers.update(headers)
        try:
            async with asyncio.timeout(SEND_S):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    return guard


class _ClosedConnection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@asynccontextmanager
async def listening(
    application: web.Application,
    hosts: str,
    port: int,
    what: str,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[int | None]:
    """Serve while the context lasts; yields the port, or None if the operator cannot listen.

    The operator repairs quorums without its pages, so it only logs that.

    Args:
        application: what to serve.
        hosts: addresses to listen on, separated by commas.
        port: the port on each address; 0: any.
        what: the application's name in the log.
        tls: of the server; None: plain HTTP.
    """
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=IDLE_S)
    await runner.setup()
    addresses = [host.strip() for host in hosts.split(",") if host.strip()]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        ports = [await _listen(runner, host, port, what, tls, stack) for host in addresses]
        yield next((bound for bound in ports if bound is not None), None)


async def _listen(
    runner: web.AppRunner,
    host: str,
    port: int,
    what: str,
    tls: ssl.SSLContext | None,
    stack: AsyncExitStack,
) -> int | None:
    handle: Any = runner.server
    if handle is None:
        raise RuntimeError("the runner is not set up")

    def is_full(handshakes: int = 0) -> bool:
        return len(handle.connections) + handshakes >= CONNECTIONS_MAX

    def accept() -> asyncio.Protocol:
        return _ClosedConnection() if is_full() else handle()

    try:
        if tls is not None:
            listener = TlsListener(handle, is_full, tls)
            bound = await listener.start(host, port)
            stack.push_async_callback(listener.close)
            return bound
        server = await asyncio.get_running_loop().create_server(accept, host, port, backlog=32)
        stack.callback(server.close)
        return int(server.sockets[0].getsockname()[1])
    except OSError as error:
        log.warning("listener_failed", what=what, host=host, port=port, why=str(error))
        return None
