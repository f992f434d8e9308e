"""`/v1/node`, `/healthz`, `/metrics`: the node by itself, no other node asked."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from raftnode.api.errors import refusal
from raftnode.api.http import Route, json_response
from raftnode.api.media import TEXT
from raftnode.api.model import HealthInfo, NodeInfo
from raftnode.api.service import NodeService


def node_routes(service: NodeService, registry: CollectorRegistry) -> tuple[Route, ...]:
    """Make the operations on the node itself."""

    async def describe(_request: web.Request) -> web.StreamResponse:
        return json_response(service.describe_node())

    async def live(_request: web.Request) -> web.StreamResponse:
        return json_response(HealthInfo(status="alive", reason="the event loop answers"))

    async def ready(_request: web.Request) -> web.StreamResponse:
        health = service.health()
        if not health.ready:
            raise refusal("NOT_READY", health.reason)
        return json_response(HealthInfo(status="ready", reason=health.reason))

    async def metrics(request: web.Request) -> web.StreamResponse:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return (
        Route(
            "GET",
            "/v1/node",
            describe,
            "describeNode",
            "Describe this node as it sees itself.",
            response=NodeInfo,
        ),
        Route(
            "GET",
            "/healthz/live",
            live,
            "live",
            "Say that the process is alive: for a liveness probe.",
            response=HealthInfo,
        ),
        Route(
            "GET",
            "/healthz/ready",
            ready,
            "ready",
            "Say whether the node is attached to a leader and caught up: for a readiness probe.",
            response=HealthInfo,
            errors=("NOT_READY",),
        ),
        Route(
            "GET",
            "/metrics",
            metrics,
            "metrics",
            "Expose the metrics for Prometheus.",
            response=TEXT,
        ),
    )
