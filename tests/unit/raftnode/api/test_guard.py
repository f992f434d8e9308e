"""What a guard does to connections and requests over real sockets."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api.guard import Guard
from raftnode.api.listeners import Listener
from raftnode.api.metrics import LimitMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.api.service import NewRecord
from raftnode.core.types import Endpoint
from raftnode.limits.model import ClientLimits, Limit

LIMITS = ClientLimits(
    head_timeout_ms=300, body_timeout_ms=300, unread_timeout_ms=300, idle_timeout_ms=300
)
PATIENT = ClientLimits()
GET = b"GET /v1/kv/%s HTTP/1.1\r\nHost: node\r\n\r\n"
LIVE = b"GET /healthz/live HTTP/1.1\r\nHost: node\r\n\r\n"
WATCH = b"GET /v1/log?offset=99&max_wait_ms=20000 HTTP/1.1\r\nHost: node\r\n\r\n"
LARGE = 4 << 20


@dataclass
class Api:
    at: Endpoint
    guard: Guard
    registry: CollectorRegistry

    def refused(self, limit: Limit) -> float | None:
        return self.registry.get_sample_value(
            "raftnode_client_refusals_total", {"listener": "api", "limit": limit.value}
        )

    @asynccontextmanager
    async def client(
        self, sent: bytes = b"", local: str = "127.0.0.1"
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(
            self.at.host, self.at.port, local_addr=(local, 0), limit=1 << 10
        )
        try:
            writer.write(sent)
            yield reader, writer
        finally:
            writer.transport.abort()


@asynccontextmanager
async def served(limits: ClientLimits) -> AsyncIterator[Api]:
    service, registry = MemoryService(), CollectorRegistry()
    await service.append([NewRecord(b"large", b"\1" * LARGE)], timeout_ms=1000)
    guard = Guard(limits, LimitMetrics(registry).of(Listener.API))
    server = ApiServer(
        make_app(service, registry=registry, version="1", guard=guard), shutdown_grace_ms=0
    )
    try:
        yield Api(await server.start(Endpoint("127.0.0.1", 0)), guard, registry)
    finally:
        await server.stop()


async def status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            await reader.readexactly(int(line.split(b":")[1]))
    return int(head.split(b" ")[1])


async def trickle(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(60):
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.05)


async def ends(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(60):
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass


@pytest.mark.parametrize("sent", [b"", b"GET /v1", b"GET /v1/node HTTP/1.1\r\nHost: a\r\n"])
async def test_a_head_that_does_not_arrive_ends_the_connection(sent: bytes) -> None:
    async with served(LIMITS) as api, api.client(sent) as (reader, _):
        await ends(reader)
        assert api.refused(Limit.HEAD_TIME) == 1


async def test_a_second_head_that_trickles_ends_the_connection_though_bytes_come() -> None:
    async with served(replace(LIMITS, idle_timeout_ms=60_000)) as api:
        async with api.client(LIVE) as (reader, writer):
            assert await status(reader) == 200
            writer.write(b"GET /")
            with pytest.raises(ConnectionError):
                await trickle(writer)
        assert api.refused(Limit.HEAD_TIME) == 1


async def test_an_idle_connection_is_closed_and_not_counted_as_refused() -> None:
    async with served(LIMITS) as api, api.client(LIVE) as (reader, _):
        assert await status(reader) == 200
        await ends(reader)
        assert all(api.refused(limit) == 0 for limit in Limit)


async def test_a_request_that_waits_is_not_idle() -> None:
    async with served(replace(LIMITS, head_timeout_ms=10_000)) as api:
        watch = WATCH.replace(b"20000", b"1500")
        async with api.client(watch) as (reader, _):
            assert await status(reader) == 200


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with served(LIMITS) as api, api.client(GET % b"large" * 8) as (reader, _):
        await asyncio.sleep(1)
        assert api.refused(Limit.UNREAD) == 1
        await ends(reader)


async def test_beyond_the_limit_of_connections_the_idle_one_gives_way() -> None:
    async with served(replace(PATIENT, address_connections_max=1)) as api:
        async with api.client(LIVE) as (first, _):
            assert await status(first) == 200
            async with api.client(LIVE) as (second, _):
                assert await status(second) == 200
                await ends(first)
        assert api.refused(Limit.ADDRESS_CONNECTIONS) == 1


async def test_beyond_the_limit_of_busy_connections_only_administration_is_answered() -> None:
    async with served(replace(PATIENT, address_connections_max=1)) as api, api.client(WATCH):
        await asyncio.sleep(0.1)
        async with api.client(GET % b"key") as (reader, _):
            assert await status(reader) == 503
            await ends(reader)
        async with api.client(LIVE) as (reader, _):
            assert await status(reader) == 200
            await ends(reader)


async def test_requests_in_flight_are_limited_for_each_address_but_not_administration() -> None:
    async with (
        served(replace(PATIENT, holder_requests_max=1)) as api,
        api.client(WATCH),
        api.client() as (reader, writer),
        api.client(local="127.0.0.2") as (other_reader, other),
    ):
        await asyncio.sleep(0.1)
        writer.write(GET % b"key")
        assert await status(reader) == 429
        writer.write(LIVE)
        assert await status(reader) == 200
        other.write(GET % b"key")
        assert await status(other_reader) == 404
        assert api.refused(Limit.HOLDER_REQUESTS) == 1


async def test_bodies_are_limited_and_their_bytes_given_back() -> None:
    head = b"PUT /v1/kv/key HTTP/1.1\r\nHost: node\r\nContent-Length: 1000\r\n\r\n"
    async with served(replace(PATIENT, bodies_max_bytes=1500)) as api:
        async with api.client(head + bytes(700)):
            await asyncio.sleep(0.1)
            assert api.guard.bodies.total == 700
            async with api.client(head + bytes(900)) as (reader, _):
                assert await status(reader) == 429
            assert api.refused(Limit.BODIES) == 1
        await asyncio.sleep(0.1)
        assert api.guard.bodies.total == 0


async def test_a_kept_connection_does_not_hold_its_last_answer() -> None:
    async with served(PATIENT) as api, api.client(GET % b"large") as (reader, _):
        assert await status(reader) == 200
        await asyncio.sleep(0.1)
        assert not _held_values(b"\1" * 16)


def _held_values(prefix: bytes) -> list[int]:
    responses = [each for each in gc.get_objects() if isinstance(each, web.Response)]
    bodies = [each.body for each in responses]
    return [len(body) for body in bodies if isinstance(body, bytes) and body.startswith(prefix)]


async def test_connections_are_counted() -> None:
    async with served(PATIENT) as api, api.client(), api.client():
        await asyncio.sleep(0.6)
        assert (
            api.registry.get_sample_value("raftnode_client_connections", {"listener": "api"}) == 2
        )
