"""The health answers of a node that exits because of its storage.

The node serves no request: its storage is closed and set aside. The exit code and the termination
message say the same, but only on the container; a probe, a scrape or a person with curl gets an
answer here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from raftnode.api.errors import refusal
from raftnode.api.http import error_response, json_response
from raftnode.api.model import HealthInfo
from raftnode.api.server import ApiServer
from raftnode.runtime.builders.tls import build_tls
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process.tasks import Tasks
from raftnode.tls.material import TlsError

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")


async def tell_damage(settings: NodeSettings, why: str, stop: asyncio.Event) -> None:
    """Answer health requests for `damage_report_ms`, or until `stop`: alive, not ready, and why."""
    if not settings.damage_report_ms:
        return
    addresses = [settings.api_listen, settings.metrics_listen]
    listeners: list[ApiServer] = []
    tasks = Tasks(lambda _: None)
    try:
        tls = await build_tls(settings, CollectorRegistry(), tasks, lambda: None)
        for address in filter(None, addresses):
            listeners.append(ApiServer(_make_app(why), shutdown_grace_ms=100, tls=tls.api))
            await listeners[-1].start(address)
        async with asyncio.timeout(settings.damage_report_ms / 1000):
            await stop.wait()
    except TimeoutError:
        pass
    except (OSError, TlsError) as problem:
        _log.warning("damage_not_reported", problem=str(problem))
    finally:
        for listener in listeners:
            await listener.stop()
        await tasks.cancel_all()


def _make_app(why: str) -> web.Application:
    registry = CollectorRegistry()
    NodeMetrics(registry).storage_damaged.set(1)
    reason = f"the storage is damaged, and this replica must be replaced: {why}"

    async def live(_request: web.Request) -> web.StreamResponse:
        return json_response(HealthInfo(status="alive", reason=reason))

    async def metrics(request: web.Request) -> web.StreamResponse:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    @web.middleware
    async def refuse_the_rest(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(request.match_info.http_exception, web.HTTPException):
            return error_response(refusal("NOT_READY", reason))
        return await handler(request)

    app = web.Application(middlewares=[refuse_the_rest])
    app.router.add_get("/healthz/live", live)
    app.router.add_get("/metrics", metrics)
    return app
