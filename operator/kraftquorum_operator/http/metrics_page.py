"""`/metrics`: made in a thread, one at a time, so that it does not delay reconciliations."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from kraftquorum_operator.http.access import Access, authenticated
from kraftquorum_operator.http.listener import guarded

RESTS = 3
"""After making the metrics, the operator pauses this many times as long as that took: however
often clients request them, they take at most a quarter of one core."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


PATH = "/metrics"


def metrics_application(
    registry: CollectorRegistry, access: Access | None = None
) -> web.Application:
    """The routes: `/metrics`, and `/` for people. GET and HEAD only.

    Args:
        registry: the registry of the metrics, shown in the text format that a client requests.
        access: who may read them; None: every client.
    """
    lock, free_s = asyncio.Lock(), 0.0

    async def metrics(request: web.Request) -> web.Response:
        nonlocal free_s
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        async with lock:
            await asyncio.sleep(max(free_s - time.monotonic(), 0))
            began_s = time.monotonic()
            body = await asyncio.to_thread(encode, registry)
            free_s = time.monotonic() + RESTS * (time.monotonic() - began_s)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    checks = [] if access is None else [authenticated(access, PATH)]
    application = web.Application(middlewares=[guarded(HEADERS), *checks], client_max_size=1024)
    application.router.add_get(PATH, metrics)
    application.router.add_get("/", metrics)
    return application
