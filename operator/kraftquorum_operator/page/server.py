"""Serves the status page and its JSON: GET and HEAD only, nothing from elsewhere, nothing kept.

A page is made in a thread and at most once a second, whoever asks how often, so that the looks
at quorums are not held up. Connections are bounded. There is no authentication, as with
`/metrics`: whoever reaches the port may read names, storage UUIDs and offsets.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import resources

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from kraftquorum_operator.board import Board
from kraftquorum_operator.page.render import html
from kraftquorum_operator.page.verdict import STALE_S
from kraftquorum_operator.page.view import OperatorView, PageView, page_view

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

CONNECTIONS_MAX = 64
"""More are closed at once: descriptors are for the API server and the nodes."""

FRESH_S = 1.0
"""How old a page may be that is given out again."""

CACHED_MAX = 64
"""Pages that are kept so long."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "kraftquorum",
}
"""On every answer."""

STATIC = {
    "status.css": "text/css",
    "status.js": "text/javascript",
    "status.svg": "image/svg+xml",
}


class StatusPage:
    """What is asked for, made from the board."""

    def __init__(
        self,
        board: Board,
        *,
        identity: str,
        is_active: Callable[[], bool],
        stale_s: float = STALE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._board = board
        self._identity = identity
        self._is_active = is_active
        self._stale_s = stale_s
        self._clock = clock
        self._version = importlib.metadata.version("kraftquorum")
        self._made: dict[str, tuple[float, str]] = {}
        self._lock = asyncio.Lock()
        folder = resources.files("kraftquorum_operator.page") / "static"
        self._static = {name: (folder / name).read_bytes() for name in STATIC}

    def application(self) -> web.Application:
        """The routes. Every other method than GET and HEAD is answered with 405."""
        application = web.Application(middlewares=[_guarded], client_max_size=1024)
        application.router.add_get("/", self._index)
        application.router.add_get("/status.json", self._json)
        application.router.add_get("/q/{namespace}/{name}", self._quorum)
        for name in STATIC:
            application.router.add_get(f"/{name}", self._file)
        return application

    async def _index(self, _request: web.Request) -> web.Response:
        text = await self._cached("/", lambda view: html(view, root=""))
        return web.Response(text=text, content_type="text/html")

    async def _json(self, _request: web.Request) -> web.Response:
        text = await self._cached(
            "json", lambda view: view.model_dump_json(by_alias=True, exclude_none=True)
        )
        return web.Response(text=text, content_type="application/json")

    async def _quorum(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if (namespace, name) not in self._board.quorums:
            raise web.HTTPNotFound(text="There is no such quorum.\n")

        def make(view: PageView) -> str:
            asked = (q for q in view.quorums if (q.namespace, q.name) == (namespace, name))
            return html(view, root="../../", only=next(asked))

        text = await self._cached(f"{namespace}/{name}", make)
        return web.Response(text=text, content_type="text/html")

    async def _file(self, request: web.Request) -> web.Response:
        name = request.path.removeprefix("/")
        return web.Response(body=self._static[name], content_type=STATIC[name], charset="utf-8")

    async def _cached(self, key: str, make: Callable[[PageView], str]) -> str:
        async with self._lock:  # many who ask at once wait for one page
            have = self._made.get(key)
            if have is not None and time.monotonic() - have[0] < FRESH_S:
                return have[1]
            operator = OperatorView(
                identity=self._identity, version=self._version, active=self._is_active()
            )
            seen, now_s = tuple(self._board.quorums.values()), self._clock()
            text = await asyncio.to_thread(
                lambda: make(page_view(seen, operator, now_s, self._stale_s))
            )
            if len(self._made) >= CACHED_MAX:
                self._made.clear()
            self._made[key] = (time.monotonic(), text)
            return text


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = error
    except Exception:
        # The words stay in the log: an answer may tell what it should not.
        log.exception("status page", path=request.path)
        response = web.Response(status=500, text="The page cannot be made; see the log.\n")
    response.headers.update(HEADERS)
    if isinstance(response, web.HTTPException):
        raise response
    return response


class _Refusal(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@asynccontextmanager
async def listening(page: StatusPage, hosts: str, port: int) -> AsyncGenerator[int | None]:
    """Serve a page while the context lasts; the port, or None where it cannot be had.

    An operator without its page repairs quorums all the same, so that is only logged.

    Args:
        page: what is served.
        hosts: addresses to listen on, separated by commas.
        port: on each of them; 0: any.
    """
    runner = web.AppRunner(page.application(), access_log=None, keepalive_timeout=15)
    await runner.setup()
    asked = [host.strip() for host in hosts.split(",") if host.strip()]
    found = [await _listen(runner, host, port) for host in asked]
    servers = [server for server in found if server is not None]
    try:
        yield int(servers[0].sockets[0].getsockname()[1]) if servers else None
    finally:
        for server in servers:
            server.close()
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> asyncio.Server | None:
    handle = runner.server
    if handle is None:
        raise RuntimeError("the runner is not set up")

    def accept() -> asyncio.Protocol:
        return _Refusal() if len(handle.connections) >= CONNECTIONS_MAX else handle()

    try:
        return await asyncio.get_running_loop().create_server(accept, host, port, backlog=32)
    except OSError as error:
        log.warning("no status page", host=host, port=port, why=str(error))
        return None
