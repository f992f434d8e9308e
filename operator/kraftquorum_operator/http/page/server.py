"""Serves the status page and its JSON: GET and HEAD only, no content of other sites, no cookies.

The server judges the cached statuses and makes each page in a thread, and at most once a second, so
that requests do not delay reconciliations. There is no authentication, as with `/metrics`: every
client that reaches the port may read names, directory ids and offsets.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import time
from collections.abc import Callable, Sequence
from importlib import resources

from aiohttp import web

from kraftquorum_operator.http.listener import guarded
from kraftquorum_operator.http.page.kafka_verdict import KAFKA_STALE_S
from kraftquorum_operator.http.page.render import html
from kraftquorum_operator.http.page.verdict import STALE_S
from kraftquorum_operator.http.page.view import JudgedView, OperatorView, PageView, page_view
from kraftquorum_operator.memory.status_cache import StatusCache
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.model.status import QuorumStatus

PAGE_AGE_MAX_S = 1.0
"""How long the server answers with the same page."""

CACHED_MAX = 64
"""The most pages in the cache."""

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
"""Headers of every answer."""

STATIC = {
    "status.css": "text/css",
    "status.js": "text/javascript",
    "status.svg": "image/svg+xml",
}


class StatusPage:
    """The pages, made from the cached statuses."""

    def __init__(
        self,
        statuses: StatusCache[QuorumStatus],
        *,
        identity: str,
        is_active: Callable[[], bool],
        stale_s: float = STALE_S,
        kafka: StatusCache[KafkaQuorumStatus] | None = None,
        kafka_stale_s: float = KAFKA_STALE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._statuses = statuses
        self._identity = identity
        self._is_active = is_active
        self._stale_s = stale_s
        self._kafka = StatusCache(KafkaQuorumStatus) if kafka is None else kafka
        self._kafka_stale_s = kafka_stale_s
        self._clock = clock
        self._version = importlib.metadata.version("kraftquorum")
        self._made: dict[str, tuple[float, str]] = {}
        self._view: tuple[float, PageView] | None = None
        self._lock = asyncio.Lock()
        folder = resources.files("kraftquorum_operator.http.page") / "static"
        self._static = {name: (folder / name).read_bytes() for name in STATIC}

    def application(self) -> web.Application:
        """The routes. The server answers methods other than GET and HEAD with 405."""
        application = web.Application(middlewares=[guarded(HEADERS)], client_max_size=1024)
        application.router.add_get("/", self._index)
        application.router.add_get("/status.json", self._json)
        application.router.add_get("/q/{namespace}/{name}", self._quorum)
        application.router.add_get("/kafka/{namespace}/{name}", self._kafka_quorum)
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
        return await self._page_of(request, lambda view: view.quorums)

    async def _kafka_quorum(self, request: web.Request) -> web.Response:
        return await self._page_of(request, lambda view: view.kafka_quorums)

    async def _page_of(
        self, request: web.Request, views_of: Callable[[PageView], Sequence[JudgedView]]
    ) -> web.Response:
        """The page of one resource, by the namespace and the name in the request."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]

        def make(view: PageView) -> str:
            return html(view, root="../../", only=_find(views_of(view), namespace, name))

        text = await self._cached(request.path, make)
        return web.Response(text=text, content_type="text/html")

    async def _file(self, request: web.Request) -> web.Response:
        name = request.path.removeprefix("/")
        return web.Response(body=self._static[name], content_type=STATIC[name], charset="utf-8")

    async def _cached(self, key: str, make: Callable[[PageView], str]) -> str:
        async with self._lock:  # concurrent requests wait for one page
            have = self._made.get(key)
            if have is not None and time.monotonic() - have[0] < PAGE_AGE_MAX_S:
                return have[1]
            view = await self._current_view()
            text = await asyncio.to_thread(make, view)
            if len(self._made) >= CACHED_MAX:
                self._made.clear()
            self._made[key] = (time.monotonic(), text)
            return text

    async def _current_view(self) -> PageView:
        """The view that all pages of one second are made from."""
        if self._view is not None and time.monotonic() - self._view[0] < PAGE_AGE_MAX_S:
            return self._view[1]
        operator = OperatorView(
            identity=self._identity,
            version=self._version,
            active=self._is_active(),
            started=self._statuses.ready,
        )
        entries, now_s = tuple(self._statuses.quorums.values()), self._clock()
        kafka = tuple(self._kafka.quorums.values())
        view = await asyncio.to_thread(
            page_view, entries, operator, now_s, self._stale_s, kafka, self._kafka_stale_s
        )
        self._view = (time.monotonic(), view)
        return view


def _find(views: Sequence[JudgedView], namespace: str, name: str) -> JudgedView:
    """The resource of a request; it may be deleted at any time, also while its page waits."""
    for view in views:
        if (view.namespace, view.name) == (namespace, name):
            return view
    raise web.HTTPNotFound(text="This quorum does not exist.\n")
