"""`/metrics`: made in a thread, one at a time, so that looks at quorums are not held up."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from kraftquorum_operator.web import guarded

RESTS = 3
"""So many times as long as it took to make them, the metrics are not made again: however often
they are asked for, they take a quarter of one core at most."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def metrics_application(registry: CollectorRegistry) -> web.Application:
    """The routes: `/metrics`, and `/` for whoever looks by hand. GET and HEAD only.

    Args:
        registry: whose metrics are shown, in the text format that is asked for.
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

    application = web.Application(middlewares=[guarded(HEADERS)], client_max_size=1024)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/", metrics)
    return application
