"""The client's rule: each write is acknowledged, refused or unknown, and sent at most once."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from proofkit.loopback import LoopbackNetwork
from proofkit.memoryservice import MemoryService
from raftnode.api.errors import refusal
from raftnode.api.model import FormRequest, JoinRequest, Replica, VoterSpec
from raftnode.api.server import ApiServer, make_app
from raftnode.client import (
    ClientSettings,
    NotDoneError,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, format_directory_id

Stream = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2 << 64 | 7))


@asynccontextmanager
async def node(service: MemoryService, listen: Endpoint | None = None) -> AsyncGenerator[Endpoint]:
    server = ApiServer(
        make_app(service, registry=CollectorRegistry(), version="1"), shutdown_grace_ms=0
    )
    try:
        service.api_endpoint = await server.start(listen or Endpoint("127.0.0.1", 0))
        yield service.api_endpoint
    finally:
        await server.stop()


@asynccontextmanager
async def raw_server(handle: Stream) -> AsyncGenerator[Endpoint]:
    """A server that is no node of ours."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield Endpoint(host, port)
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return head


def respond(writer: asyncio.StreamWriter, status: int, body: Any, headers: str = "") -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}"
    writer.write(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)


@pytest.fixture
def absent(network: LoopbackNetwork) -> Callable[[], Endpoint]:
    """Gives addresses at which nothing listens, and nothing will unless the test does."""
    hosts = itertools.count(1)
    return lambda: Endpoint(network.host(next(hosts)), 9080)


def quick(
    *endpoints: Endpoint, attempt_timeout_ms: int = 2000, timeout_ms: int = 60_000, **options: Any
) -> QuorumClient:
    return QuorumClient(
        endpoints,
        timeout_ms=timeout_ms,
        settings=ClientSettings(
            attempt_timeout_ms=attempt_timeout_ms,
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
            rng=random.Random(1),
        ),
        **options,
    )


# What works.


async def test_writes_read_back_by_key_by_prefix_and_by_offset():
    async with node(MemoryService()) as at, quick(at) as client:
        put = await client.put("Europe/Berlin", b"\x00tz")
        raw = await client.append([b"one", b"", b"x" * 600_000])
        value = await client.get("Europe/Berlin")
        assert value is not None
        assert (value.value, value.offset, value.epoch) == (b"\x00tz", put.last_offset, put.epoch)
        page = await client.list("Europe/")
        assert [(one.key, one.value) for one in page.entries] == [("Europe/Berlin", b"\x00tz")]
        log = await client.read(raw.base_offset)
        assert [one.value for one in log.records] == [b"one", b"", b"x" * 600_000]
        assert all(one.key is None for one in log.records)
        await client.delete("Europe/Berlin")
        assert await client.get("Europe/Berlin") is None
        assert client.leader == at


@pytest.mark.parametrize("key", ["..", ".", "a/../b", "/", "//", "%2F", "é ?#&=+", "\0", "a%"])
async def test_key_travels_unchanged(key: str):
    service = MemoryService()
    async with node(service) as at, quick(at) as client:
        await client.put(key, b"v")
        assert service.kv.get(key.encode()) is not None
        value = await client.get(key, consistency="local")
        assert value is not None
        assert [one.key for one in (await client.list(key)).entries] == [key]


async def test_list_goes_on_from_next():
    async with node(MemoryService()) as at, quick(at) as client:
        for key in ("a", "b", "c"):
            await client.put(key, b"")
        first = await client.list(limit=2)
        second = await client.list(limit=2, after=first.next)
        assert [one.key for one in (*first.entries, *second.entries)] == ["a", "b", "c"]
        assert second.next is None


async def test_follow_yields_each_record_once_also_those_written_later():
    async with node(MemoryService()) as at, quick(at) as client:
        end = (await client.read()).next_offset
        await client.put("a", b"0")
        seen: list[bytes | None] = []
        async for record in client.follow(end, max_wait_ms=2000):
            seen.append(record.value)
            if len(seen) == 3:
                break
            await client.put("a", b"%d" % len(seen))
        assert seen == [b"0", b"1", b"2"]


async def test_quorum_calls_reach_the_leader():
    service = MemoryService()
    service.observe_replica(OTHER)
    spec = VoterSpec(node_id=2, directory_id=format_directory_id(OTHER.directory_id))
    async with node(service) as at, quick(at) as client:
        before = await client.describe_quorum(confirmed=True)
        added = await client.add_voter(spec, before.voter_record)
        assert Replica.of(OTHER) in added.voters
        with pytest.raises(RefusedError) as caught:
            await client.remove_voter(Replica.of(OTHER), before.voter_record)
        assert caught.value.error == "STALE_VOTER_RECORD"
        removed = await client.remove_voter(Replica.of(OTHER), added.voter_record)
        assert Replica.of(OTHER) not in removed.voters
        assert (await client.resign()).epoch > before.epoch


async def test_blank_node_is_described_formed_and_joined():
    first, second = MemoryService(cluster_id=None), MemoryService(2, cluster_id=None)
    async with node(first) as at, node(second) as other, quick(at) as client:
        assert (await client.describe_node(at)).cluster_id is None
        own = VoterSpec(
            node_id=1, directory_id=format_directory_id(first.key.directory_id), endpoint="n:9093"
        )
        formed = await client.form(at, FormRequest(cluster_id="c", voters=(own,)))
        assert formed.cluster_id == "c"
        assert (await client.join(other, JoinRequest(cluster_id="c"))).role == "observer"
        with pytest.raises(RefusedError, match="INCONSISTENT_CLUSTER_ID"):
            await client.join(other, JoinRequest(cluster_id="d"))


async def test_hosts_file_gives_addresses_and_is_read_again(tmp_path: Path):
    hosts = tmp_path / "hosts"
    async with node(MemoryService()) as at:
        named = Endpoint("node-0.quorum.default.svc", at.port)
        async with quick(named, hosts_file=hosts, timeout_ms=3000) as client:
            hosts.write_text("127.99.99.99 node-0.quorum.default.svc\n")
            with pytest.raises(UnavailableError):
                await client.describe_node(named)
            hosts.write_text("127.0.0.1  other node-0.quorum.default.svc # moved\n")
            assert (await client.describe_node(named)).node_id == 1


async def test_fields_that_only_newer_nodes_send_are_skipped():
    async with node(MemoryService()) as at, quick(at) as client:
        known = (await client.describe_quorum()).model_dump(mode="json")
    known["invented"] = 1
    known["voters"][0]["invented"] = {"x": 1}

    async def newer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        respond(writer, 200, known)

    async with raw_server(newer) as at, quick(at) as client:
        assert (await client.describe_quorum()).cluster_id == "memory"


# Finding the leader.


async def test_hint_leads_to_the_leader_which_is_remembered():
    leader, follower = MemoryService(1), MemoryService(2)
    async with node(leader) as leads, node(follower) as follows:
        follower.follow(leader.key, leads)
        async with quick(follows) as client:
            await client.put("a", b"1")
            assert client.leader == leads
            assert (leader.appends, follower.appends) == (1, 0)


@pytest.mark.rule("P31")
async def test_voter_change_that_is_given_to_a_follower_gets_to_the_leader():
    leader, follower = MemoryService(1), MemoryService(2)
    leader.observe_replica(OTHER)
    spec = VoterSpec(node_id=2, directory_id=format_directory_id(OTHER.directory_id))
    async with node(leader) as leads, node(follower) as follows:
        follower.follow(leader.key, leads)
        record = (await leader.describe_quorum(confirmed=False, timeout_ms=1000)).voter_record
        async with quick(follows) as client:
            added = await client.add_voter(spec, record)
    assert Replica.of(OTHER) in added.voters


async def test_nodes_that_point_at_each_other_end_in_unavailable_not_in_a_tight_loop():
    one, two = MemoryService(1), MemoryService(2)
    asked = 0

    async with node(one) as first, node(two) as second:
        one.follow(two.key, second)
        two.follow(one.key, first)
        async with QuorumClient(
            [first],
            timeout_ms=1000,
            settings=ClientSettings(retry_backoff_ms=50, rng=random.Random(1)),
        ) as client:
            # A read: the outcome of a write that is cut off by the deadline would be unknown.
            with pytest.raises(UnavailableError) as caught:
                await client.get("a")
            asked = len(caught.value.attempts)
    assert asked == 2


async def test_chain_of_ever_new_hints_is_bounded():
    asked = 0

    async def pointing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await read_request(reader)
        asked += 1
        error = {
            "error": "NOT_LEADER",
            "message": "x",
            "leader_api": f"127.0.0.{asked + 1}:9",
            "outcome": "not_done",
        }
        respond(writer, 421, error)

    async with raw_server(pointing) as at, quick(at, timeout_ms=200) as client:
        with pytest.raises(UnavailableError):
            await client.get("a")
    assert asked < 300


async def test_refused_connections_are_passed_over(absent):
    service = MemoryService()
    async with node(service) as at, quick(absent(), absent(), at) as client:
        for _ in range(5):
            await client.put("a", b"1")
    assert service.appends == 5


@pytest.mark.parametrize(
    "key",
    ["..", "a/../b", "../quorum/resign", "//", "%2F", "%", "a?b#c", "ü b+c", ";", "\0", "a\nb"],
)
async def test_key_is_the_same_on_both_sides_whatever_is_in_it(key: str):
    service = MemoryService()
    async with node(service) as at, quick(at) as client:
        await client.put(key, b"1")
        found = await client.get(key)
        assert found is not None
        assert found.value == b"1"
        assert [entry.key for entry in (await client.list()).entries] == [key]
        await client.delete(key)
        assert await client.get(key) is None


@pytest.mark.parametrize("status", [421, 429, 503, 502])
async def test_write_is_not_repeated_on_the_word_of_something_between(status: int):
    """A gateway's error has the same shape, but it may have passed the write on."""
    requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1
        respond(writer, status, {"error": "Unavailable", "message": "upstream timed out"})

    async with raw_server(handle) as at, quick(at, sessions=False) as client:
        with pytest.raises(OutcomeUnknownError, match=f"HTTP {status}"):
            await client.put("a", b"1")
    assert requests == 1


async def test_blank_node_is_passed_over():
    service = MemoryService()
    async with (
        node(MemoryService(2, cluster_id=None)) as blank,
        node(service) as at,
        quick(blank, at) as client,
    ):
        for _ in range(5):
            await client.put("a", b"1")
            client._asker._forget(at)
    assert service.appends == 5


async def test_write_waits_for_a_node_that_is_not_up_yet(absent):
    service = MemoryService()
    later = absent()
    async with quick(later) as client, AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as group:
            write = group.create_task(client.put("a", b"1"))
            await stack.enter_async_context(node(service, later))
        assert write.result().epoch == 1
    assert service.appends == 1


async def test_refusals_that_may_pass_are_retried():
    service = MemoryService()
    service.fail_next(refusal("QUEUE_FULL", "later"))
    async with node(service) as at, quick(at) as client:
        await client.put("a", b"1")
    assert service.appends == 1


async def test_deadline_with_no_server_there_says_what_each_said(absent):
    unused = absent()
    async with quick(unused, timeout_ms=200) as client:
        with pytest.raises(UnavailableError, match="cannot connect: ") as caught:
            await client.put("a", b"1")
    assert isinstance(caught.value, NotDoneError)
    assert list(caught.value.attempts) == [unused]


# The rule.


async def test_connection_cut_after_sending_is_unknown_and_never_sent_again():
    requests = 0

    async def cutting(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1

    spare = MemoryService()
    async with raw_server(cutting) as at, node(spare), quick(at, sessions=False) as client:
        for write in (
            client.put("a", b"1"),
            client.delete("a"),
            client.append([b"1"]),
            client.resign(),
            client.join(at, JoinRequest(cluster_id="c")),
        ):
            with pytest.raises(OutcomeUnknownError) as caught:
                await write
            assert caught.value.endpoint == at
    assert requests == 5


@pytest.mark.parametrize("write", ["put", "delete"])
async def test_kept_connection_that_dies_does_not_make_aiohttp_send_twice(write: str):
    """aiohttp repeats PUT and DELETE by itself on a connection that it had kept."""
    heads: list[bytes] = []

    async def once_then_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        respond(writer, 200, {"base_offset": 1, "last_offset": 1, "epoch": 1})
        heads.append(await read_request(reader))

    async with raw_server(once_then_cut) as at, quick(at, sessions=False) as client:
        await client.put("a", b"1")
        with pytest.raises(OutcomeUnknownError):
            await (client.put("a", b"2") if write == "put" else client.delete("a"))
    assert len(heads) == 1


async def test_write_that_is_not_answered_in_time_is_unknown():
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await reader.read()

    async with raw_server(silent) as at, quick(at, timeout_ms=1000, sessions=False) as client:
        with pytest.raises(OutcomeUnknownError, match="no answer within"):
            await client.put("a", b"1")


@pytest.mark.parametrize("error", ["TIMED_OUT", "LEADERSHIP_LOST", "INTERNAL"])
async def test_node_that_says_unknown_is_believed(error: str):
    service = MemoryService()
    service.fail_next(refusal(error, "who knows"))
    async with node(service) as at, quick(at) as client:
        with pytest.raises(OutcomeUnknownError, match=error) as caught:
            await client.put("a", b"1")
        assert caught.value.answer is not None
    assert service.appends == 0


@pytest.mark.parametrize(
    ("status", "body"),
    [(502, b"<html>"), (200, b"<html>"), (503, b"proxy"), (200, {"other": 1}), (302, b"")],
)
async def test_answer_of_something_that_is_no_node_is_unknown_for_a_write(status: int, body: Any):
    requests = 0

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1
        respond(writer, status, body, "Location: /elsewhere\r\n")

    async with raw_server(proxy) as at, quick(at, sessions=False) as client:
        with pytest.raises(OutcomeUnknownError):
            await client.put("a", b"1")
    assert requests == 1


async def test_final_refusal_is_raised_at_once_with_its_name():
    service = MemoryService()
    service.fail_next(refusal("RECORD_TOO_LARGE", "too large"))
    async with node(service) as at, quick(at) as client:
        with pytest.raises(RefusedError) as caught:
            await client.put("a", b"1")
    assert (caught.value.error, caught.value.status) == ("RECORD_TOO_LARGE", 413)
    assert service.appends == 0


async def test_reads_go_on_after_cuts_and_silence():
    async def cutting(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        raw_server(cutting) as one,
        raw_server(silent) as two,
        node(MemoryService()) as at,
        quick(one, two, at, attempt_timeout_ms=300) as client,
    ):
        for _ in range(4):
            assert await client.get("a") is None
            await client.read()


async def test_read_that_is_not_what_the_api_promises_is_said():
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        respond(writer, 200, {"records": "?"})

    async with raw_server(odd) as at, quick(at) as client:
        with pytest.raises(UnexpectedAnswerError, match="ReadResult"):
            await client.read()
        with pytest.raises(UnexpectedAnswerError, match="Raft-Offset"):
            await client.get("a")


async def test_client_without_endpoints_or_outside_its_context_is_a_mistake(absent):
    with pytest.raises(ValueError, match="at least one"):
        QuorumClient([])
    with pytest.raises(RuntimeError, match="context manager"):
        await quick(absent()).put("a", b"1")
