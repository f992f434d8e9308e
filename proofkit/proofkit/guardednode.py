"""A node's API in this process, behind TLS and a guard of tokens and cluster ids; for tests.

The API is the real one on a service in memory; the guard answers as the API does. A test changes
`tokens` and `tls` while clients are connected.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api.model import ApiError
from raftnode.api.server import make_app
from raftnode.core.types import Endpoint
from raftnode.session import PATH

CLUSTER_ID = "memory"
"""Of the service in memory."""


@dataclass(slots=True)
class GuardedNode:
    """A node that refuses what it does not know.

    Attributes:
        service: what is behind it.
        tokens: the tokens that it accepts; None: any request.
        readers: those among them that may only read.
        at: where it listens.
        requests: the method, path and token of each request.
        sessions: how many sessions were opened.
        open_sessions: how many are open.
    """

    service: MemoryService
    tokens: set[str] | None = None
    readers: set[str] = field(default_factory=set[str])
    at: Endpoint = field(default=Endpoint("127.0.0.1", 0))
    requests: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    sessions: int = 0
    open_sessions: int = 0

    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve a request, or refuse it."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.requests.append((request.method, request.path, token))
        if self.tokens is not None and token not in self.tokens:
            return _refuse(401, "AUTHENTICATION_FAILED", "no token that the node knows")
        if token in self.readers and request.method != "GET":
            return _refuse(403, "AUTHORIZATION_FAILED", "the subject may only read")
        meant = request.headers.get("X-Kraftquorum-Cluster-Id", CLUSTER_ID)
        if meant != CLUSTER_ID:
            return _refuse(
                409, "INCONSISTENT_CLUSTER_ID", f"this node is of {CLUSTER_ID}, not of {meant}"
            )
        if request.path != PATH:
            return await handler(request)
        self.sessions += 1
        self.open_sessions += 1
        try:
            return await handler(request)
        finally:
            self.open_sessions -= 1


def _refuse(status: int, error: str, message: str) -> web.Response:
    refused = ApiError(error=error, message=message, outcome="not_done")
    return web.json_response(text=refused.model_dump_json(), status=status)


@asynccontextmanager
async def guarded_node(
    tls: ssl.SSLContext | None = None,
    tokens: set[str] | None = None,
    *,
    service: MemoryService | None = None,
) -> AsyncGenerator[GuardedNode]:
    """Serve a node.

    Args:
        tls: the server's context; what is loaded into it later counts for new connections.
        tokens: the tokens that it accepts; None: any request.
        service: what is behind it; None: an empty one.
    """
    node = GuardedNode(service or MemoryService(), tokens)
    app = make_app(node.service, registry=CollectorRegistry(), version="test")

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await node.guard(request, handler)

    app.middlewares.append(guard)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        node.at = Endpoint(host, port)
        yield node
    finally:
        await runner.cleanup()
