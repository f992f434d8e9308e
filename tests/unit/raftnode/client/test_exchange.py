"""One request to one node: whether anything was sent, and who it was that answered."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from raftnode.api.model import ApiError, VoterRecord
from raftnode.client.exchange import (
    Answer,
    Call,
    CutError,
    NotSentError,
    exchange,
    send_once_trace,
)
from raftnode.core.types import Endpoint

AT = Endpoint("127.0.0.1", 1)
PUT = Call("PUT", "/v1/kv/a%2Fb%7E?timeout_ms=9", b"x", "text/plain", write=True)
GET = Call("GET", "/v1/node")


def answer(body: object, status: int = 503) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(AT, status, {}, raw)


@asynccontextmanager
async def server(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[Endpoint]:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    listener = await asyncio.start_server(closing, "127.0.0.1", 0)
    try:
        yield Endpoint(*listener.sockets[0].getsockname()[:2])
    finally:
        listener.close()


async def ask(endpoint: Endpoint, call: Call, timeout_s: float = 5) -> Answer:
    async with aiohttp.ClientSession(trace_configs=[send_once_trace()]) as session:
        return await exchange(
            session, endpoint, call, timeout_s=timeout_s, connect_timeout_s=timeout_s
        )


def test_an_error_without_an_outcome_is_not_one_of_our_nodes():
    """Gateways answer in the same shape; what they passed on before may have been done."""
    said = {"error": "Bad Gateway", "message": "upstream timed out"}
    assert answer(said).decode_error() is None
    assert answer({**said, "outcome": "perhaps"}).decode_error() is None
    found = answer({**said, "outcome": "not_done", "newer": 1}).decode_error()
    assert found == ApiError(error="Bad Gateway", message="upstream timed out", outcome="not_done")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b'{"error":"X"}'])
def test_what_is_no_error_of_ours_is_told_from_one(body: bytes):
    assert answer(body).decode_error() is None


def test_fields_of_newer_nodes_are_skipped():
    found = answer({"offset": 1, "epoch": 2, "newer": 3}).decode(VoterRecord)
    assert found == VoterRecord(offset=1, epoch=2)


@pytest.mark.parametrize(("status", "ok"), [(199, False), (200, True), (299, True), (300, False)])
def test_only_2xx_was_carried_out(status: int, ok: bool):
    assert answer({}, status).ok is ok


def test_a_call_is_shown_without_its_query():
    assert str(PUT) == "PUT /v1/kv/a%2Fb%7E"


async def test_the_request_is_sent_as_it_is_and_the_whole_answer_is_read():
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(1))
        writer.write(b"HTTP/1.1 302 X\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nhi")

    async with server(handle) as endpoint:
        found = await ask(endpoint, PUT)
    assert (found.endpoint, found.status, found.body) == (endpoint, 302, b"hi")
    assert found.headers["Location"] == "/elsewhere"
    [head] = heads
    assert head.startswith(b"PUT /v1/kv/a%2Fb%7E?timeout_ms=9 HTTP/1.1\r\n")
    assert b"Content-Type: text/plain\r\n" in head
    assert head.endswith(b"\r\n\r\nx")


async def test_no_listener_means_that_nothing_was_sent():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = Endpoint(*probe.getsockname())
        with pytest.raises(NotSentError, match="Connect call failed"):
            await ask(endpoint, PUT)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
@pytest.mark.parametrize("call", [PUT, GET])
async def test_once_connected_no_whole_answer_means_cut(call: Call, said: bytes):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)

    async with server(handle) as endpoint:
        with pytest.raises(CutError):
            await ask(endpoint, call)


async def test_silence_is_cut_at_the_time_out_and_says_how_long_it_was():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server(handle) as endpoint:
        with pytest.raises(CutError, match="no answer within 1000 ms"):
            await ask(endpoint, PUT, 1.0)
