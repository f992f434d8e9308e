"""A client of the API server against an HTTP server that a test writes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from kubernetes.aio.client import Configuration

from kraftquorum_operator.clients.kube import KubeClient


@asynccontextmanager
async def client_of(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncGenerator[KubeClient]:
    """A client whose requests a function answers, whatever their path."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    kube = KubeClient(Configuration(host=f"http://{host}:{port}"), timeout_s=60)
    try:
        yield kube
    finally:
        await kube.close()
        await runner.cleanup()
