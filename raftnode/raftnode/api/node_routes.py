"""`/v1/node`, `/healthz`, `/metrics`: the node's own state, without other nodes."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from raftnode.api.errors import refusal
from raftnode.api.http import Route, json_response, read_query
from raftnode.api.media import TEXT
from raftnode.api.model import HealthInfo, NodeInfo, NodeState
from raftnode.api.needs import DESCRIBE, HEALTH, METRICS
from raftnode.api.queries import StateQuery
from raftnode.api.service import NodeService

STATE_STEP_S = 0.1
"""Interval between two comparisons of the state with the one that a waiting caller knows."""


def node_routes(service: NodeService, registry: CollectorRegistry) -> tuple[Route, ...]:
    """Make the operations on the node itself."""

    async def describe(_request: web.Request) -> web.StreamResponse:
        return json_response(service.describe_node())

    async def state(request: web.Request) -> web.StreamResponse:
        query = read_query(request, StateQuery)
        until_s = time.monotonic() + query.max_wait_ms / 1000
        # Nothing tells of a change: that a replica is late is seen by looking at the clock.
        while (now := service.state()) == query.known and time.monotonic() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(STATE_STEP_S)
        return json_response(NodeState(state=now))

    async def live(_request: web.Request) -> web.StreamResponse:
        if (stall := service.stall()) is not None:
            raise refusal("NOT_ALIVE", stall)
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
            DESCRIBE,
            response=NodeInfo,
        ),
        Route(
            "GET",
            "/v1/node/state",
            state,
            "nodeState",
            "Wait until something that matters about this node changes; see `state`.",
            DESCRIBE,
            query=StateQuery,
            response=NodeState,
        ),
        Route(
            "GET",
            "/healthz/live",
            live,
            "live",
            "Report whether the event loop runs and no disk call hangs, for a liveness probe.",
            HEALTH,
            response=HealthInfo,
            errors=("NOT_ALIVE",),
        ),
        Route(
            "GET",
            "/healthz/ready",
            ready,
            "ready",
            "Report whether the node is attached to a leader and caught up, for a readiness probe.",
            HEALTH,
            response=HealthInfo,
            errors=("NOT_READY",),
        ),
        Route(
            "GET",
            "/metrics",
            metrics,
            "metrics",
            "Expose the metrics for Prometheus.",
            METRICS,
            response=TEXT,
        ),
    )
