"""Each limit of a listener: a client that exceeds it, over real sockets, and what is counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proofkit.localquorum import eventually
from proofkit.memoryservice import MemoryService
from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits
from raftnode.api.listeners import Listener
from raftnode.api.metrics import LimitMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.api.service import NewRecord
from raftnode.api.session import greeting_of
from raftnode.core.types import Endpoint
from raftnode.limits.model import ClientLimits, Limit
from raftnode.session import PATH, SUBPROTOCOL, operations
from raftnode.session.operations import Kind

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
"""Addresses of clients."""
SHORT_MS = 300
LARGE = 4 << 20
SIZES = ApiLimits()

GET = b"GET /v1/kv/absent HTTP/1.1\r\nHost: node\r\n\r\n"
GET_LARGE = b"GET /v1/kv/large HTTP/1.1\r\nHost: node\r\n\r\n"
PUT = b"PUT /v1/kv/key HTTP/1.1\r\nHost: node\r\n"


@dataclass
class Api:
    """A listener, and what it has refused."""

    at: Endpoint
    service: MemoryService
    guard: Guard
    registry: CollectorRegistry

    @property
    def refused(self) -> dict[Limit, float | None]:
        """The counters that are not 0."""
        counters = {
            limit: self.registry.get_sample_value(
                "raftnode_client_refusals_total", {"listener": "api", "limit": limit.value}
            )
            for limit in Limit
        }
        return {limit: value for limit, value in counters.items() if value != 0}

    @asynccontextmanager
    async def client(self, sent: bytes, local: str = HERE) -> AsyncGenerator[asyncio.StreamReader]:
        reader, writer = await asyncio.open_connection(
            self.at.host, self.at.port, local_addr=(local, 0), limit=1 << 10
        )
        try:
            writer.write(sent)
            yield reader
        finally:
            writer.transport.abort()

    async def status(self, sent: bytes, local: str = HERE) -> int:
        """The status that a new client gets."""
        async with asyncio.timeout(60), self.client(sent, local) as reader:
            return int((await reader.readline()).split(b" ")[1])

    @asynccontextmanager
    async def request_in_flight(self) -> AsyncGenerator[None]:
        """A request from HERE whose body is not whole yet."""
        async with self.client(PUT + b"Content-Length: 2000\r\n\r\n" + bytes(1000)):
            await eventually(self._has_body, what="the request in flight")
            yield

    async def _has_body(self) -> bool | None:
        return self.guard.bodies.total == 1000 or None

    @asynccontextmanager
    async def session(self, local: str = HERE) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
        connector = aiohttp.TCPConnector(local_addr=(local, 0))
        async with (
            aiohttp.ClientSession(connector=connector) as http,
            http.ws_connect(
                f"http://{self.at}{PATH}",
                protocols=(SUBPROTOCOL,),
                max_msg_size=0,
            ) as websocket,
        ):
            yield websocket


async def connection_beyond_all(api: Api) -> None:
    async with api.request_in_flight():
        assert await api.status(GET, ELSEWHERE) == 503


async def connection_beyond_its_address(api: Api) -> None:
    async with api.request_in_flight():
        assert await api.status(GET) == 503


async def half_a_head(api: Api) -> None:
    async with asyncio.timeout(60), api.client(b"GET /v1") as reader:
        assert await reader.read() == b""


async def long_line(api: Api) -> None:
    assert await api.status(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: node\r\n\r\n") == 431


async def many_headers(api: Api) -> None:
    headers = b"".join(b"X-%d: a\r\n" % number for number in range(100))
    assert await api.status(b"GET / HTTP/1.1\r\nHost: node\r\n" + headers + b"\r\n") == 431


async def half_a_body(api: Api) -> None:
    assert await api.status(PUT + b"Content-Length: 10\r\n\r\nhalf") == 408


async def announced_large_body(api: Api) -> None:
    head = PUT + b"Content-Length: %d\r\n\r\n" % (SIZES.json_body_max_bytes + 1)
    assert await api.status(head) == 413


async def large_body_in_chunks(api: Api) -> None:
    size = SIZES.json_body_max_bytes + 1
    body = b"%x\r\n" % size + bytes(size)
    assert await api.status(PUT + b"Transfer-Encoding: chunked\r\n\r\n" + body) == 413


async def bodies_together(api: Api) -> None:
    async with api.request_in_flight():
        assert await api.status(PUT + b"Content-Length: 2000\r\n\r\n" + bytes(1000)) == 429


async def large_message_that_arrives(api: Api) -> None:
    async with api.session() as websocket:
        with contextlib.suppress(ConnectionError):
            await websocket.send_bytes(bytes(100_000))
        assert await closed(websocket) == aiohttp.WSCloseCode.ABNORMAL_CLOSURE


async def request_beyond_all(api: Api) -> None:
    async with api.request_in_flight():
        assert await api.status(GET, ELSEWHERE) == 429


async def request_beyond_its_holder(api: Api) -> None:
    async with api.request_in_flight():
        assert await api.status(GET) == 429
        assert await api.status(GET, ELSEWHERE) == 404


async def session_beyond_all(api: Api) -> None:
    async with api.session():
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await api.session(ELSEWHERE).__aenter__()
        assert refused.value.status == 503


async def session_beyond_its_holder(api: Api) -> None:
    async with api.session():
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await api.session().__aenter__()
        assert refused.value.status == 503
        async with api.session(ELSEWHERE):
            pass


async def closed(websocket: aiohttp.ClientWebSocketResponse) -> int | None:
    """The status with which the node closes a session."""
    async with asyncio.timeout(60):
        async for _ in websocket:
            pass
    return websocket.close_code


async def text_in_a_session(api: Api) -> None:
    async with api.session() as websocket:
        await websocket.send_str("text")
        assert await closed(websocket) == aiohttp.WSCloseCode.POLICY_VIOLATION


async def overdrawn_credits(api: Api) -> None:
    body = operations.put_body(b"key", bytes(60_000))
    fits = greeting_of(SIZES).credit_bytes // operations.cost_bytes(body)
    api.service.hold()
    async with api.session() as websocket:
        for number in range(fits + 1):
            head = operations.encode_head(number, 60_000, Kind.PUT, body)
            await websocket.send_bytes(operations.encode_message([head, body]))
        assert await closed(websocket) == aiohttp.WSCloseCode.POLICY_VIOLATION


async def message_beyond_all_credits(api: Api) -> None:
    async with api.session() as websocket:
        # The node reads no more of it, and may cut the client off before all is sent.
        with contextlib.suppress(ConnectionError):
            await websocket.send_bytes(bytes(greeting_of(SIZES).credit_bytes + 1))
        await closed(websocket)


async def answers_that_are_not_read(api: Api) -> None:
    async with api.client(GET_LARGE * 8):

        async def cut_off() -> bool | None:
            return Limit.UNREAD in api.refused or None

        await eventually(cut_off, what="the client to be cut off")


@dataclass(frozen=True)
class Row:
    """A client that exceeds one limit, and no other.

    Attributes:
        limit: the one.
        exceed: does it, and checks what the client gets.
        settings: of `ClientLimits`; the others have their defaults.
    """

    limit: Limit
    exceed: Callable[[Api], Awaitable[None]]
    settings: dict[str, int] = field(default_factory=dict[str, int])


ROWS = (
    Row(Limit.CONNECTIONS, connection_beyond_all, {"connections_max": 1}),
    Row(Limit.ADDRESS_CONNECTIONS, connection_beyond_its_address, {"address_connections_max": 1}),
    Row(Limit.HEAD_TIME, half_a_head, {"head_timeout_ms": SHORT_MS}),
    Row(Limit.HEAD_SIZE, long_line),
    Row(Limit.HEAD_SIZE, many_headers),
    Row(Limit.BODY_TIME, half_a_body, {"body_timeout_ms": SHORT_MS}),
    Row(Limit.BODY_SIZE, announced_large_body),
    Row(Limit.BODY_SIZE, large_body_in_chunks),
    Row(Limit.BODIES, bodies_together, {"bodies_max_bytes": 2500}),
    Row(Limit.BODIES, large_message_that_arrives, {"bodies_max_bytes": 2500}),
    Row(Limit.REQUESTS, request_beyond_all, {"requests_max": 1}),
    Row(Limit.HOLDER_REQUESTS, request_beyond_its_holder, {"holder_requests_max": 1}),
    Row(Limit.SESSIONS, session_beyond_all, {"sessions_max": 1}),
    Row(Limit.HOLDER_SESSIONS, session_beyond_its_holder, {"holder_sessions_max": 1}),
    Row(Limit.SESSION_FAULT, text_in_a_session),
    Row(Limit.SESSION_FAULT, overdrawn_credits),
    Row(Limit.SESSION_FAULT, message_beyond_all_credits),
    Row(Limit.UNREAD, answers_that_are_not_read, {"unread_timeout_ms": SHORT_MS}),
)


@asynccontextmanager
async def served(settings: dict[str, int]) -> AsyncGenerator[Api]:
    service, registry = MemoryService(), CollectorRegistry()
    await service.append([NewRecord(b"large", b"\1" * LARGE)], timeout_ms=1000)
    guard = Guard(ClientLimits(**settings), LimitMetrics(registry).of(Listener.API))
    app = make_app(service, registry=registry, version="1", limits=SIZES, guard=guard)
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        yield Api(await server.start(Endpoint(HERE, 0)), service, guard, registry)
    finally:
        await server.stop()


def test_each_limit_has_a_row() -> None:
    assert {row.limit for row in ROWS} == set(Limit)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.exceed.__name__) for row in ROWS])
async def test_a_client_that_exceeds_a_limit_is_counted_for_that_limit_alone(row: Row) -> None:
    async with served(row.settings) as api:
        assert api.refused == {}
        await row.exceed(api)
        assert api.refused == {row.limit: 1}
