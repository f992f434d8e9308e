"""Batches that a client has finished, on real nodes: read by all, restarted over and verified."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from typer.testing import CliRunner

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.cli import make_app
from raftnode.client import QuorumClient
from raftnode.client.errors import RefusedError
from raftnode.client.session import NodeSession
from raftnode.logformat import encode_keyless_batch
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import AnswerKind
from raftnode.session.operations import Kind

from .scrapes import scrape

pytestmark = pytest.mark.timeout(300)

VALUES = [bytes([number % 256]) * (number * 37 % 3000) for number in range(200)]


async def values_at(node: LocalNode, offset: int, count: int) -> list[bytes | None]:
    """The node's own records from an offset on, once they are there."""
    values: list[bytes | None] = []
    async with QuorumClient([node.api]) as client:
        async with asyncio.timeout(60):
            async for record in client.follow(offset):
                values.append(record.value)
                if len(values) == count:
                    break
    return values


async def test_every_replica_reads_and_recovers_what_a_client_has_encoded(quorum: LocalQuorum):
    await quorum.form(3)
    nodes = quorum.nodes[:3]
    began_ms = time.time_ns() // 1_000_000
    async with QuorumClient([node.api for node in nodes]) as client:
        await client.put("before", b"1")
        written = await asyncio.gather(*(client.append(VALUES) for _ in range(5)))
        await client.put("after", b"2")
        page = await client.read(written[0].base_offset)
        assert abs(page.records[0].timestamp_ms - began_ms) < 60_000, "the leader's time"
    bases = sorted(appended.base_offset for appended in written)
    assert [base - bases[0] for base in bases] == [len(VALUES) * number for number in range(5)]
    for node in nodes:
        assert await values_at(node, bases[0], 5 * len(VALUES)) == VALUES * 5
    leader = await quorum.leader()
    for node in nodes:
        node.kill()
    verified = CliRunner().invoke(
        make_app("log"), ["log", "verify", str(leader.directory)], catch_exceptions=False
    )
    assert verified.exit_code == 0, verified.output
    for node in nodes:
        node.start()
    for node in nodes:
        assert await values_at(node, bases[0], 5 * len(VALUES)) == VALUES * 5
    async with QuorumClient([node.api for node in nodes]) as client:
        value = await client.get("after")
        assert value is not None
        assert value.value == b"2"


CLIENTS, EACH = 64, 4
"""At once, and how many batches each of them appends."""
MEMORY_MAX_BYTES = 256 << 20
"""Of the leader, more than before."""


def batch_of(client: int, number: int) -> list[bytes]:
    return [f"{client}/{number} {place} ".encode().ljust(1024) for place in range(66)]


async def memory_of(node: LocalNode) -> float:
    return (await scrape(node)).samples["process_resident_memory_bytes"][0][1]


@asynccontextmanager
async def mute_client(node: LocalNode) -> AsyncGenerator[None]:
    """A client that asks for the log, appends batches with the rest of its credits, reads nothing."""
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"http://{node.api}{PATH}", protocols=(SUBPROTOCOL,)) as socket,
    ):
        greeting = answers.decode_greeting(await socket.receive_bytes())
        left = greeting.credit_bytes
        asked: list[tuple[Kind, bytes]] = [(Kind.READ, operations.read_body(0, 1 << 20, 0))] * 60
        asked += [(Kind.APPEND_BATCH, encode_keyless_batch(batch_of(-1, 0), 0))] * 100
        for number, (kind, body) in enumerate(asked):
            left -= operations.cost_bytes(body)
            if left < 0:
                break
            head = operations.encode_head(number, 60_000, kind, body)
            await socket.send_bytes(operations.encode_message([head, body]))
        yield


async def test_a_slow_leader_serves_many_clients_beside_one_that_reads_no_answers(
    quorum: LocalQuorum,
) -> None:
    faults = [node.make_faulty() for node in quorum.nodes[:3]]
    await quorum.form(3)
    leader = await quorum.leader()
    faults[leader.node_id].slow("sync", 100)
    async with QuorumClient([leader.api]) as client:
        for number in range(20):  # so that there is a megabyte to read
            await client.append(batch_of(-2, number))
    before = await memory_of(leader)
    bases: dict[tuple[int, int], int] = {}

    async def write(at: int) -> None:
        async with QuorumClient([leader.api], timeout_ms=60_000) as client:
            for number in range(EACH):
                bases[at, number] = (await client.append(batch_of(at, number))).base_offset

    async with mute_client(leader):
        async with asyncio.TaskGroup() as group:
            for at in range(CLIENTS - 1):
                group.create_task(write(at))
        assert await memory_of(leader) < before + MEMORY_MAX_BYTES
        assert (await scrape(leader)).value("sessions") >= 1, "the mute client is there"
    end = (await quorum.describe()).high_watermark
    values: dict[int, bytes | None] = {}
    async with QuorumClient([leader.api]) as client:
        async for record in client.follow():
            values[record.offset] = record.value
            if record.offset == end - 1:
                break
    for (at, number), base in bases.items():
        assert [values[base + place] for place in range(66)] == batch_of(at, number)
    counts = Counter((value or b"").split()[0].decode() for value in values.values() if value)
    assert all(counts[f"{at}/{number}"] == 66 for at, number in bases), "each once"


@pytest.mark.quorum_settings(RAFTNODE_RECORD_MAX_BYTES="70000", RAFTNODE_MAX_BATCH_BYTES="140000")
async def test_a_batch_above_a_limit_is_refused_with_the_limit_and_others_go_on(
    quorum: LocalQuorum,
) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    refused = (
        ([bytes(70_001)], "RECORD_TOO_LARGE", "records.0: 70001 bytes; at most 70000"),
        ([bytes(50_000)] * 3, "BATCH_TOO_LARGE", "150000 bytes together; at most 140000"),
        ([bytes(10)] * 10_001, "INVALID_REQUEST", "10001 records; expected 1 to 10000"),
    )
    stopped, written = asyncio.Event(), 0

    async def write(at: int) -> None:
        nonlocal written
        async with QuorumClient([leader.api], timeout_ms=60_000) as client:
            while not stopped.is_set():
                await client.append(batch_of(at, 0))
                written += 1

    async def goes_on() -> None:
        wanted = written + 5

        async def look() -> bool | None:
            return written > wanted or None

        await eventually(look, what="other clients to append")

    async with asyncio.TaskGroup() as group, aiohttp.ClientSession() as http:
        for at in range(3):
            group.create_task(write(at))
        session = await NodeSession.open(http, leader.api, timeout_s=20)
        async with QuorumClient([leader.api]) as client:
            for values, error, reason in refused:
                body = encode_keyless_batch(values, 0)
                answer = await session.ask(Kind.APPEND_BATCH, body, 20)
                assert answer.kind == AnswerKind.REFUSED
                said = json.loads(answers.decode_refusal(answer.body).error)
                assert (said["error"], said["outcome"]) == (error, "not_done")
                assert reason in said["message"]
                with pytest.raises(RefusedError, match=reason):
                    await client.append(values)
                await goes_on()
            # More than the credits of a session: the client asks over HTTP, and hears why.
            with pytest.raises(RefusedError, match="TOO_LARGE"):
                await client.append([bytes(60_000)] * 100)
        # A client that sends it all the same loses its session.
        async with http.ws_connect(
            f"http://{leader.api}{PATH}", protocols=(SUBPROTOCOL,)
        ) as socket:
            await socket.receive_bytes()
            body = encode_keyless_batch([bytes(60_000)] * 100, 0)
            head = operations.encode_head(1, 20_000, Kind.APPEND_BATCH, body)
            with contextlib.suppress(OSError):  # the node closes before it has read all
                await socket.send_bytes(operations.encode_message([head, body]))
            assert (await socket.receive(20)).type is not aiohttp.WSMsgType.BINARY
        await goes_on()
        sound = encode_keyless_batch(batch_of(9, 0), 0)
        answer = await session.ask(Kind.APPEND_BATCH, sound, 20)
        assert answer.kind == AnswerKind.WRITTEN, "the session of the refused batches goes on"
        await session.close()
        stopped.set()
