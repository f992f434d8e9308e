"""The load generator's own parts: HTTP over a plain connection, the clients, the stall of a fault."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from kraftquorum_bench.callers import open_caller
from kraftquorum_bench.contenders import UnsupportedLoadError
from kraftquorum_bench.events import EventTimes, longest_stall_s
from kraftquorum_bench.httpcalls import (
    HttpCallError,
    HttpConnection,
    get_request,
    put_request,
)
from kraftquorum_bench.loadprocess import run_clients
from kraftquorum_bench.loads import ClientSecurity, Errand, Load
from kraftquorum_bench.processes import ToolError

ENDPOINTS = ("127.0.0.1:1",)


async def served(network, answers):
    """A server that answers each request with the next of some pieces; its host and port."""
    pieces = iter(answers)

    async def answer(reader, writer):
        try:
            while await reader.read(1 << 16):
                for piece in next(pieces, []):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.01)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, network.host(1), 0)
    return server, server.sockets[0].getsockname()


async def test_an_answer_in_pieces_is_put_together(network):
    whole = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nvalue"
    parts = [whole[:9], whole[9:40], whole[40:-2], whole[-2:]]
    server, (host, port) = await served(network, [parts, [whole]])
    async with server:
        connection = await HttpConnection.open(host, port)
        assert await connection.call(get_request("h", "k", "local")) == b"value"
        assert await connection.call(get_request("h", "k", "local")) == b"value"
        connection.close()
        await asyncio.sleep(0.05)


async def test_a_refusal_and_a_hang_up_are_errors(network):
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\n\r\nno room"
    server, (host, port) = await served(network, [[refusal]])
    async with server:
        connection = await HttpConnection.open(host, port)
        with pytest.raises(HttpCallError, match="503 Service Unavailable: no room"):
            await connection.call(put_request("h", "k", b"v"))
        call = asyncio.get_running_loop().create_task(connection.call(put_request("h", "k", b"v")))
        await asyncio.sleep(0.05)
        connection.close()
        with pytest.raises(HttpCallError, match="the server hung up"):
            await call
        with pytest.raises(HttpCallError, match="the connection is closed"):
            await connection.call(put_request("h", "k", b"v"))
        await asyncio.sleep(0.05)


def test_requests_are_whole():
    assert put_request("h:1", "key-1", b"va").endswith(b"Content-Length: 2\r\n\r\nva")
    assert get_request("h:1", "key-1", "local").startswith(
        b"GET /v1/kv/key-1?consistency=local HTTP/1.1\r\nHost: h:1\r\n"
    )


def errand(**more):
    load = Load(operation="put", clients=more.pop("clients", 3))
    return Errand(load=load, endpoints=ENDPOINTS, **{"seconds": 30} | more)


async def test_a_total_is_done_once_each():
    numbers = []

    async def call(client, number):
        numbers.append(number)
        await asyncio.sleep(0)

    result = await run_clients(errand(total=10), call)
    assert sorted(numbers) == list(range(10))
    assert (result.operations, result.errors, result.answered_at_s) == (10, 0, ())
    assert result.p50_ms <= result.p99_ms


async def test_clients_stop_when_the_time_is_over():
    async def call(client, number):
        await asyncio.sleep(0.01)

    result = await run_clients(errand(seconds=0.2), call)
    assert 3 <= result.operations <= 3 * 21
    assert result.seconds < 5


async def test_an_error_ends_a_load_and_is_counted_under_a_fault():
    failing = itertools.cycle([True, False])

    async def call(client, number):
        if next(failing):
            raise OSError("refused")

    with pytest.raises(ExceptionGroup):
        await run_clients(errand(total=4), call)
    result = await run_clients(errand(total=8, keeps_on=True, timeline=True, clients=1), call)
    assert (result.operations, result.errors) == (4, 4)
    assert list(result.answered_at_s) == sorted(result.answered_at_s)
    assert len(result.answered_at_s) == 4


async def test_a_load_without_an_answer_is_an_error():
    async def call(client, number):
        raise OSError("refused")

    with pytest.raises(ValueError, match="no operation was answered"):
        await run_clients(errand(total=3, keeps_on=True), call)


@pytest.mark.parametrize(
    ("answered", "stall"),
    [([9.0, 10.5, 11.0], 0.5), ([9.9, 13.0, 13.1, 13.2], 3.0), ([11.0, 10.2, 14.0], 3.0)],
)
def test_the_longest_stall_begins_with_the_fault(answered, stall):
    assert longest_stall_s(answered, 10.0) == pytest.approx(stall)


def test_no_answer_after_the_fault_is_an_error():
    with pytest.raises(ToolError, match="no write was answered after the fault"):
        longest_stall_s([1.0, 2.0], 3.0)


def test_the_load_around_a_fault_is_bounded_both_ways():
    assert EventTimes.of(1) == EventTimes(before_s=1, after_s=8)
    assert EventTimes.of(10) == EventTimes(before_s=3, after_s=20)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clients": 0}, "greater than or equal to 1"),
        ({"operation": "dance"}, "Input should be 'put'"),
        ({"value_bytes": 1 << 30}, "less than or equal to 8388608"),
        ({"colour": "red"}, "Extra inputs are not permitted"),
    ],
)
def test_a_load_that_cannot_be_is_refused(change, said):
    with pytest.raises(ValidationError, match=said):
        Load(**{"operation": "put", "clients": 1} | change)


@pytest.mark.without(
    "kraftquorum_bench.callers:open_caller", 'load.transport != "sessions"', "False"
)
async def test_a_load_with_tls_never_goes_without_it():
    security = ClientSecurity(ca_file=Path("ca"), token_file=Path("token"), cluster_id="c")
    load = Load(operation="put", clients=1, transport="etcd_json")
    given = Errand(load=load, endpoints=ENDPOINTS, seconds=1, security=security)
    async with AsyncExitStack() as stack:
        with pytest.raises(UnsupportedLoadError, match="TLS over etcd_json is not measured"):
            await open_caller(given, stack)
