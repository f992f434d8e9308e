"""Operations through sessions: one outcome each, sent at most once, whatever the node does."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api.errors import not_leader, refusal
from raftnode.api.http import error_model
from raftnode.api.server import ApiServer, make_app
from raftnode.client import (
    ClientSettings,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
    UnavailableError,
)
from raftnode.client.exchange import CutError, NotSentError
from raftnode.client.session import NodeSession, NoSessionsError
from raftnode.client.sessions import Sessions
from raftnode.core.types import Endpoint
from raftnode.logformat import encode_keyless_batch
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import AnswerKind, Greeting, Refusal, Written
from raftnode.session.operations import Kind, Operation

GREETING = Greeting(10_000, 1 << 20, 1 << 20)
LONG_S = 60.0

Serve = Callable[["Node", web.WebSocketResponse], Awaitable[None]]


class Node:
    """A node that does what the test says with the operations it gets."""

    def __init__(self, greeting: bytes) -> None:
        self.greeting = greeting
        self.got: list[Operation] = []
        self.messages = 0
        self.sessions = 0
        self.answers: Callable[[Operation], bytes | None] = written
        self.at = Endpoint("127.0.0.1", 0)
        self.websocket: web.WebSocketResponse | None = None
        self.arrived = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.sessions += 1
        self.websocket = websocket = web.WebSocketResponse(protocols=(SUBPROTOCOL,))
        await websocket.prepare(request)
        await websocket.send_bytes(self.greeting)
        async for message in websocket:
            self.messages += 1
            taken = operations.decode_message(message.data)
            self.got += taken
            self.arrived.set()
            answered = [answer for op in taken if (answer := self.answers(op)) is not None]
            if answered:
                await websocket.send_bytes(answers.encode_message(answered))
        return websocket

    async def has(self, count: int) -> None:
        async with asyncio.timeout(LONG_S):
            while len(self.got) < count:
                self.arrived.clear()
                await self.arrived.wait()


def written(operation: Operation) -> bytes:
    return answers.encode_written(operation.operation_id, Written(7, 7, 3))


def nothing(_operation: Operation) -> None:
    return None


@asynccontextmanager
async def node(greeting: bytes | None = None) -> AsyncGenerator[Node]:
    served = Node(greeting or answers.encode_greeting(GREETING))
    app = web.Application()
    app.router.add_get(PATH, served.handle)
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        served.at = await server.start(Endpoint("127.0.0.1", 0))
        yield served
    finally:
        await server.stop()


@asynccontextmanager
async def opened(at: Endpoint) -> AsyncGenerator[NodeSession]:
    async with aiohttp.ClientSession() as http:
        session = await NodeSession.open(http, at, timeout_s=LONG_S)
        try:
            yield session
        finally:
            await session.close()


def client_of(*endpoints: Endpoint, timeout_ms: int = 60_000) -> QuorumClient:
    return QuorumClient(
        endpoints,
        timeout_ms=timeout_ms,
        settings=ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5, rng=random.Random(1)),
    )


def ask(
    session: NodeSession, body: bytes = b"key", timeout_s: float = LONG_S
) -> asyncio.Task[answers.Answer]:
    return asyncio.get_running_loop().create_task(session.ask(Kind.DELETE, body, timeout_s))


async def test_operations_of_a_turn_go_in_one_message_and_each_gets_its_own_answer():
    async with node() as served, opened(served.at) as session:
        served.answers = lambda operation: answers.encode_written(
            operation.operation_id, Written(int(operation.body), int(operation.body), 3)
        )
        asked = [ask(session, b"%d" % number) for number in range(50)]
        got = [answers.decode_written((await task).body).base_offset for task in asked]
        assert got == list(range(50))
        assert served.messages == 1


async def test_what_the_credits_do_not_cover_waits_for_answers():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        body = bytes(1000)
        covered = GREETING.credit_bytes // operations.cost_bytes(body)
        asked = [ask(session, body) for _ in range(3 * covered)]
        await served.has(covered)
        await asyncio.sleep(0.05)
        assert len(served.got) == covered
        served.answers = written
        assert served.websocket is not None
        await served.websocket.send_bytes(
            answers.encode_message([written(operation) for operation in served.got])
        )
        await asyncio.gather(*asked)
        assert len(served.got) == 3 * covered


async def test_a_lost_session_leaves_what_was_sent_unknown_and_what_waited_not_sent():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        body = bytes(9000)
        sent, waiting = ask(session, body), ask(session, body)
        await served.has(1)
        assert served.websocket is not None
        await served.websocket.close()
        with pytest.raises(CutError):
            await sent
        with pytest.raises(NotSentError):
            await waiting
        assert not session.usable
        with pytest.raises(NotSentError):
            await session.ask(Kind.DELETE, b"key", LONG_S)


async def test_what_is_overdue_is_cut_and_a_silent_node_gets_no_further_operation():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        patient = ask(session)
        quick = ask(session, timeout_s=0.05)
        with pytest.raises(CutError, match="no answer in time"):
            await quick
        assert not session.usable
        assert not patient.done(), "its time is not over, and the node may still answer"
        assert served.websocket is not None
        await served.websocket.send_bytes(
            answers.encode_message([written(operation) for operation in served.got])
        )
        assert (await patient).kind == AnswerKind.WRITTEN


async def test_a_silent_node_is_noticed_although_its_callers_were_cancelled():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        asked = ask(session, timeout_s=0.1)
        await served.has(1)
        asked.cancel()
        async with asyncio.timeout(LONG_S):
            while session.usable:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)


async def test_a_session_with_a_silent_node_is_closed_once_nothing_waits_for_it():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        with pytest.raises(CutError):
            await session.ask(Kind.DELETE, b"key", 0.05)
        assert served.websocket is not None
        async with asyncio.timeout(LONG_S):
            while not served.websocket.closed:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)


async def test_many_different_deadlines_are_kept_by_one_timer():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        looks = 0
        timer = session._timer
        expire = timer._expire

        def counted(now_s: float) -> float | None:
            nonlocal looks
            looks += 1
            return expire(now_s)

        timer._expire = counted
        asked = [ask(session, b"k", 0.05 + number / 2000) for number in range(100)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(result, CutError) for result in results)
        assert 1 <= looks <= 10


async def test_what_waits_for_credits_too_long_was_not_sent():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        body = bytes(9000)
        first = ask(session, body)
        await served.has(1)
        with pytest.raises(NotSentError, match="no answer in time"):
            await session.ask(Kind.DELETE, body, 0.05)
        assert session.usable, "the node has not been late with anything"
        first.cancel()


async def test_the_node_is_told_less_time_than_the_client_waits():
    async with node() as served, opened(served.at) as session:
        await session.ask(Kind.DELETE, b"key", 10.0)
        assert 8_000 < served.got[0].timeout_ms <= 9_000


async def test_an_operation_that_is_cancelled_before_it_is_sent_is_not_sent():
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        body = bytes(9000)
        first, cancelled = ask(session, body), ask(session, body)
        await served.has(1)
        cancelled.cancel()
        served.answers = written
        assert served.websocket is not None
        await served.websocket.send_bytes(answers.encode_message([written(served.got[0])]))
        await first
        await session.ask(Kind.DELETE, b"key", LONG_S)
        assert [operation.body for operation in served.got] == [body, b"key"]


@pytest.mark.parametrize(
    "greeting",
    [b"", b"\x02", b"\x00\x00", b"\x01" + answers.encode_greeting(GREETING)[1:]],
)
async def test_what_does_not_greet_is_no_node(greeting: bytes):
    async with node(greeting or b"\xff") as served, aiohttp.ClientSession() as http:
        with pytest.raises(NotSentError, match="greeting"):
            await NodeSession.open(http, served.at, timeout_s=LONG_S)


FOR_SESSION = "client.exchange:AppendCall.for_session"


@pytest.mark.without(FOR_SESSION, "smallest and", "")
@pytest.mark.without(FOR_SESSION, ">= smallest", "> smallest")
async def test_records_go_in_the_form_that_the_node_takes():
    """In a quorum under a rolling upgrade, some nodes are older."""
    values = [b"x" * 300, b"", b"y" * 200]
    records = (Kind.APPEND, operations.append_body(values))
    finished = (Kind.APPEND_BATCH, encode_keyless_batch(values, 0))
    for greeting, sent in (
        (answers.encode_greeting(GREETING)[:13], records),
        (answers.encode_greeting(GREETING), records),
        (answers.encode_greeting(GREETING._replace(batch_min_bytes=501)), records),
        (answers.encode_greeting(GREETING._replace(batch_min_bytes=500)), finished),
    ):
        async with node(greeting) as served, client_of(served.at) as client:
            assert (await client.append(values)).last_offset == 7
            [operation] = served.got
            assert (operation.kind, operation.body) == sent


async def test_an_append_goes_from_a_newer_node_to_an_older_leader_in_its_form():
    new, old = GREETING._replace(batch_min_bytes=1), answers.encode_greeting(GREETING)[:13]
    async with node(answers.encode_greeting(new)) as follower, node(old) as leader:
        error = error_model(not_leader(None, leader.at)).model_dump_json().encode()
        follower.answers = lambda operation: answers.encode_refusal(
            operation.operation_id, Refusal(421, error)
        )
        async with client_of(follower.at) as client:
            assert (await client.append([b"value"])).last_offset == 7
    assert [operation.kind for operation in follower.got] == [Kind.APPEND_BATCH]
    assert [operation.kind for operation in leader.got] == [Kind.APPEND]


@pytest.mark.without("client.exchange:AppendCall.write", "return True", "return False")
async def test_a_finished_batch_whose_session_is_lost_is_unknown_and_never_sent_again():
    greeting = answers.encode_greeting(GREETING._replace(batch_min_bytes=1))
    async with node(greeting) as first, node(greeting) as second:
        first.answers = nothing
        async with client_of(first.at, second.at) as client:
            client._asker.leader = first.at
            write = asyncio.get_running_loop().create_task(client.append([b"value"]))
            await first.has(1)
            assert first.websocket is not None
            await first.websocket.close()
            with pytest.raises(OutcomeUnknownError):
                await write
    assert [operation.kind for operation in first.got] == [Kind.APPEND_BATCH]
    assert second.got == []


async def test_a_greeting_may_grow_at_its_end():
    async with (
        node(answers.encode_greeting(GREETING) + b"later") as served,
        opened(served.at) as session,
    ):
        assert (await session.ask(Kind.DELETE, b"key", LONG_S)).kind == AnswerKind.WRITTEN


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x02\x00", b"\x02" + answers.encode_no_value(999, 1)[:-1] + b""]
)
async def test_answers_that_cannot_be_read_end_the_session(data: bytes):
    async with node() as served, opened(served.at) as session:
        served.answers = nothing
        asked = ask(session)
        await served.has(1)
        assert served.websocket is not None
        await served.websocket.send_bytes(data)
        with pytest.raises(CutError, match="cannot be read"):
            await asked
        assert not session.usable


async def test_an_answer_to_nothing_ends_the_session():
    async with node() as served, opened(served.at) as session:
        served.answers = lambda operation: written(operation._replace(operation_id=99))
        with pytest.raises(CutError, match="answer to 99"):
            await session.ask(Kind.DELETE, b"key", LONG_S)


async def test_an_operation_larger_than_the_credits_is_not_for_a_session():
    async with node() as served, opened(served.at) as session:
        with pytest.raises(NoSessionsError):
            await session.ask(Kind.DELETE, bytes(GREETING.credit_bytes), LONG_S)
        assert not served.got


# Through the client.


@asynccontextmanager
async def real(service: MemoryService) -> AsyncGenerator[Endpoint]:
    app = make_app(service, registry=CollectorRegistry(), version="1")
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        service.api_endpoint = await server.start(Endpoint("127.0.0.1", 0))
        yield service.api_endpoint
    finally:
        await server.stop()


async def test_a_write_whose_session_is_lost_is_unknown_and_never_sent_again():
    spare = MemoryService()
    async with node() as served, real(spare) as other, client_of(served.at) as client:
        served.answers = nothing
        asked = asyncio.get_running_loop().create_task(client.put("a", b"1"))
        await served.has(1)
        assert served.websocket is not None
        await served.websocket.close()
        with pytest.raises(OutcomeUnknownError) as caught:
            await asked
        assert caught.value.endpoint == served.at
        assert spare.appends == 0
        del other


async def test_a_read_whose_session_is_lost_goes_to_another_node():
    service = MemoryService()
    async with node() as served, real(service) as other:
        served.answers = nothing
        async with client_of(served.at, other) as client:
            await client.put("a", b"1") if client.leader == other else None
            service.kv.apply(service.kv.next_offset, b"b", b"2", epoch=1)
            client._asker.leader = served.at
            asked = asyncio.get_running_loop().create_task(client.get("b"))
            await served.has(1)
            assert served.websocket is not None
            await served.websocket.close()
            value = await asked
            assert value is not None
            assert value.value == b"2"


async def test_a_refusal_that_names_the_leader_leads_there():
    follower, leader = MemoryService(1), MemoryService(2)
    async with real(follower) as first, real(leader) as second, client_of(first) as client:
        follower.follow(leader.key, second)
        assert (await client.put("a", b"1")).epoch == 1
        assert client.leader == second
        assert (follower.appends, leader.appends) == (0, 1)


@pytest.mark.parametrize("name", ["TIMED_OUT", "LEADERSHIP_LOST", "INTERNAL"])
async def test_an_unknown_outcome_is_believed(name: str):
    async with node() as served, client_of(served.at) as client:
        error = error_model(refusal(name, "m")).model_dump_json().encode()
        served.answers = lambda operation: answers.encode_refusal(
            operation.operation_id, Refusal(504, error)
        )
        with pytest.raises(OutcomeUnknownError):
            await client.put("a", b"1")
        assert len(served.got) == 1


async def test_an_answer_of_the_wrong_kind_is_unknown_for_a_write():
    async with node() as served, client_of(served.at) as client:
        served.answers = lambda operation: answers.encode_no_value(operation.operation_id, 1)
        with pytest.raises(OutcomeUnknownError, match="kind 3"):
            await client.put("a", b"1")
        assert len(served.got) == 1


async def test_a_node_without_sessions_is_asked_over_http():
    service = MemoryService()
    app = make_app(service, registry=CollectorRegistry(), version="0")
    old = web.Application()
    asked: list[str] = []

    async def anything(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == PATH:
            raise web.HTTPNotFound
        return await app._handle(request)

    app.freeze()
    old.router.add_route("*", "/{path:.*}", anything)
    server = ApiServer(old, shutdown_grace_ms=0)
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        async with client_of(at) as client:
            for number in range(3):
                await client.put(f"key-{number}", b"1")
            value = await client.get("key-0")
            assert value is not None
            assert value.value == b"1"
        assert asked.count(PATH) == 1, "it is not tried again at once"
        assert service.appends == 3
    finally:
        await server.stop()


async def test_a_value_too_large_for_a_session_is_refused_with_the_nodes_limit():
    async with real(MemoryService()) as at, client_of(at) as client:
        with pytest.raises(RefusedError) as caught:
            await client.put("a", bytes(5 << 20))
        assert caught.value.error == "RECORD_TOO_LARGE"
        with pytest.raises(RefusedError) as caught:
            await client.put("a", bytes(2 << 20))
        assert caught.value.error == "RECORD_TOO_LARGE"
        assert (await client.put("a", bytes(1 << 19))).epoch == 1


async def test_many_clients_share_a_session_and_a_new_one_is_opened_after_it_is_lost():
    async with node() as served, client_of(served.at) as client:
        await asyncio.gather(*(client.delete(f"key-{number}") for number in range(200)))
        assert served.sessions == 1
        assert served.websocket is not None
        await served.websocket.close()
        await client.delete("key")
        assert served.sessions == 2


async def test_a_closed_client_opens_no_further_session():
    async with node() as served:
        sessions = Sessions(aiohttp.ClientSession(), connect_timeout_s=LONG_S)
        await sessions.to(served.at, timeout_s=LONG_S)
        await sessions.close()
        with pytest.raises(NotSentError, match="closed"):
            await sessions.to(served.at, timeout_s=LONG_S)
        assert served.sessions == 1


async def test_a_node_that_does_not_answer_the_handshake_is_passed_over():
    silent: list[asyncio.StreamWriter] = []

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    service = MemoryService()
    async with real(service) as other:
        async with QuorumClient(
            [Endpoint(host, port), other],
            settings=ClientSettings(connect_timeout_ms=200, rng=random.Random(1)),
        ) as client:
            client._asker.leader = Endpoint(host, port)
            assert (await client.put("a", b"1")).epoch == 1
        with pytest.raises(UnavailableError, match="no answer within"):
            async with QuorumClient(
                [Endpoint(host, port)],
                settings=ClientSettings(connect_timeout_ms=100),
                timeout_ms=400,
            ) as client:
                await client.put("a", b"1")
    for writer in silent:
        writer.close()
    server.close()
    assert service.appends == 1


async def test_a_caller_waits_for_anothers_handshake_no_longer_than_its_own_time():
    connected = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    at = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    settings = ClientSettings(connect_timeout_ms=20_000)
    async with server, QuorumClient([at], timeout_ms=20_000, settings=settings) as client:
        patient = asyncio.get_running_loop().create_task(client.put("a", b"1"))
        await connected.wait()
        began_s = time.monotonic()
        with pytest.raises(UnavailableError):
            await client.put("b", b"2", timeout_ms=100)
        assert time.monotonic() - began_s < 10
        assert not patient.done()
        patient.cancel()


async def test_a_refusal_that_cannot_be_read_is_unknown_for_a_write():
    async with node() as served, client_of(served.at) as client:
        served.answers = lambda operation: (
            answers.HEAD.pack(10, operation.operation_id, AnswerKind.REFUSED) + b"\0"
        )
        with pytest.raises(OutcomeUnknownError, match="REFUSED"):
            await client.put("a", b"1")
        assert len(served.got) == 1


async def test_what_fits_into_no_operation_is_refused_before_it_is_sent():
    async with node() as served, client_of(served.at) as client:
        for call in (
            client.put("k" * 70_000, b"v"),
            client.read(-1),
            client.read(0, max_bytes=-1),
            client.read(0, max_wait_ms=1 << 40),
        ):
            with pytest.raises(ValueError, match=r"key|offset"):
                await call
        assert served.sessions == 0
