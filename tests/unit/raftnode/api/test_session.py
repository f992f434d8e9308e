"""A session over a real WebSocket, with a node in memory behind it."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api import session as session_module
from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits
from raftnode.api.metrics import HttpMetrics, SessionMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.api.service import NewRecord
from raftnode.core.types import Endpoint
from raftnode.limits.model import ClientLimits
from raftnode.logformat import Record, encode_data_batch, encode_keyless_batch
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import AnswerKind
from raftnode.session.operations import Kind

LIMITS = ApiLimits(record_max_bytes=64 << 10, batch_max_bytes=128 << 10)
TIMEOUT_MS = 60_000


@dataclass
class Client:
    """The other end, byte for byte."""

    websocket: aiohttp.ClientWebSocketResponse
    greeting: answers.Greeting
    got: dict[int, answers.Answer] = field(default_factory=dict)
    messages: int = 0

    async def send(self, *asked: tuple[int, Kind | int, bytes], timeout_ms: int = TIMEOUT_MS):
        parts: list[bytes] = []
        for number, kind, body in asked:
            parts += (operations.encode_head(number, timeout_ms, kind, body), body)
        await self.websocket.send_bytes(operations.encode_message(parts))

    async def answer(self, number: int) -> answers.Answer:
        while number not in self.got:
            data = await asyncio.wait_for(self.websocket.receive_bytes(), 30)
            self.messages += 1
            self.got |= {answer.operation_id: answer for answer in answers.decode_message(data)}
        return self.got.pop(number)

    async def refused(self, number: int) -> tuple[int, str, str]:
        answer = await self.answer(number)
        assert answer.kind == AnswerKind.REFUSED
        refusal = answers.decode_refusal(answer.body)
        error = json.loads(refusal.error)
        return refusal.status, error["error"], error["message"]

    async def closed(self) -> tuple[int | None, str]:
        while True:
            message = await asyncio.wait_for(self.websocket.receive(), 30)
            if message.type is aiohttp.WSMsgType.CLOSE:
                return message.data, message.extra or ""
            if message.type is not aiohttp.WSMsgType.BINARY:
                return self.websocket.close_code, ""


@dataclass
class Api:
    service: MemoryService
    http: aiohttp.ClientSession
    at: Endpoint
    registry: CollectorRegistry

    async def open(self) -> Client:
        websocket = await self.http.ws_connect(
            f"http://{self.at}{PATH}", protocols=(SUBPROTOCOL,), max_msg_size=0
        )
        return Client(websocket, answers.decode_greeting(await websocket.receive_bytes()))


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    registry, service = CollectorRegistry(), MemoryService()
    app = make_app(
        service,
        registry=registry,
        version="1",
        limits=LIMITS,
        observer=HttpMetrics(registry),
        session_observer=SessionMetrics(registry),
    )
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        async with aiohttp.ClientSession() as http:
            yield Api(service, http, at, registry)
    finally:
        await server.stop()


@pytest.fixture
async def client(api: Api) -> AsyncIterator[Client]:
    client = await api.open()
    yield client
    await client.websocket.close()


async def true(condition: Callable[[], bool]) -> None:
    """Wait until it is."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def batch(*values: bytes) -> bytes:
    return encode_keyless_batch(values, 0)


BATCH = batch(bytes(60_000), bytes(10_000))
KEYED_BATCH = encode_data_batch([Record(None, bytes(60_000)), Record(b"k", bytes(9_000))], 0)


def put(number: int, key: bytes, value: bytes) -> tuple[int, Kind, bytes]:
    return number, Kind.PUT, operations.put_body(key, value)


def get(number: int, key: bytes, *, linearizable: bool = True) -> tuple[int, Kind, bytes]:
    return number, Kind.GET, operations.get_body(key, linearizable=linearizable)


async def test_the_greeting_has_the_nodes_limits(client: Client):
    assert client.greeting == answers.Greeting(
        session_module.CREDIT_BYTES, LIMITS.record_max_bytes, LIMITS.batch_max_bytes, 65_536
    )


@pytest.mark.without("api.session:greeting_of", "RECORDS_MAX * RECORD_BYTES_MAX", "0")
def test_the_credits_suffice_for_the_largest_batch():
    batch_max_bytes = 16 << 20
    greeting = session_module.greeting_of(ApiLimits(1 << 20, batch_max_bytes))
    value = bytes(batch_max_bytes // 10_000)
    body = batch(*[value] * 9_999, bytes(batch_max_bytes - len(value) * 9_999))
    assert operations.cost_bytes(body) + 1 <= greeting.credit_bytes


async def test_what_is_put_is_read_with_its_offset_and_epoch(client: Client):
    await client.send(put(1, b"a/b", b"\x00value"))
    written = answers.decode_written((await client.answer(1)).body)
    assert written.base_offset == written.last_offset
    for linearizable in (True, False):
        await client.send(get(2, b"a/b", linearizable=linearizable))
        answer = await client.answer(2)
        assert answer.kind == AnswerKind.VALUE
        value = answers.decode_value(answer.body)
        assert value == (written.base_offset, written.epoch, written.base_offset + 1, b"\x00value")


async def test_a_deleted_key_has_no_value(client: Client):
    await client.send(put(1, b"key", b"value"), (2, Kind.DELETE, b"key"), get(3, b"key"))
    written = answers.decode_written((await client.answer(2)).body)
    answer = await client.answer(3)
    assert answer.kind == AnswerKind.NO_VALUE
    assert answers.decode_no_value(answer.body) == written.last_offset + 1


async def test_records_that_are_appended_together_read_back_in_order(client: Client):
    await client.send((1, Kind.APPEND, operations.append_body([b"a", b"", b"c"])))
    written = answers.decode_written((await client.answer(1)).body)
    assert written.last_offset == written.base_offset + 2
    await client.send((2, Kind.READ, operations.read_body(written.base_offset, 1 << 20, 0)))
    page = answers.decode_records((await client.answer(2)).body)
    assert [(record.key, record.value) for record in page.records] == [
        (None, b"a"),
        (None, b""),
        (None, b"c"),
    ]
    assert page.next_offset == page.high_watermark == written.last_offset + 1


async def test_a_finished_batch_reads_back_in_order(client: Client):
    values = [b"a" * 40_000, b"", b"b" * 30_000]
    await client.send((1, Kind.APPEND_BATCH, batch(*values)))
    written = answers.decode_written((await client.answer(1)).body)
    assert written.last_offset - written.base_offset == 2
    await client.send((2, Kind.READ, operations.read_body(written.base_offset, 1 << 20, 0)))
    records = answers.decode_records((await client.answer(2)).body).records
    assert [(record.offset, record.key, record.value) for record in records] == [
        (written.base_offset + number, None, value) for number, value in enumerate(values)
    ]


async def test_control_records_are_described_in_json(client: Client):
    await client.send((1, Kind.READ, operations.read_body(0, 1 << 20, 0)))
    page = answers.decode_records((await client.answer(1)).body)
    kinds = [json.loads(record.value or b"")["control"] for record in page.records]
    assert kinds == ["LeaderChange", "RaftVersion", "AddVoter", "FormationCompleted"]
    assert all(record.is_control for record in page.records)


async def test_a_read_waits_for_a_record_while_other_operations_are_answered(client: Client):
    await client.send((1, Kind.READ, operations.read_body(4, 1 << 20, 30_000)))
    await client.send(get(2, b"key"))
    assert (await client.answer(2)).kind == AnswerKind.NO_VALUE
    assert 1 not in client.got
    await client.send(put(3, b"key", b"value"))
    page = answers.decode_records((await client.answer(1)).body)
    assert [record.value for record in page.records] == [b"value"]


async def test_the_answers_of_a_turn_share_a_message(client: Client):
    await client.send(*(put(number, b"key", b"v") for number in range(1000)))
    for number in range(1000):
        assert (await client.answer(number)).kind == AnswerKind.WRITTEN
    assert client.messages < 100


async def test_a_refusal_has_the_apis_error_and_the_session_goes_on(api: Api, client: Client):
    other = MemoryService(2).key
    api.service.follow(other, Endpoint("other", 9080))
    await client.send(put(1, b"key", b"value"), get(2, b"key"), get(3, b"key", linearizable=False))
    for number in (1, 2):
        status, error, message = await client.refused(number)
        assert (status, error) == (421, "NOT_LEADER")
        assert "other:9080" in message
    assert (await client.answer(3)).kind == AnswerKind.NO_VALUE, "a local read asks no leader"
    api.service.lead()
    await client.send(put(4, b"key", b"value"))
    assert (await client.answer(4)).kind == AnswerKind.WRITTEN


@pytest.mark.parametrize(
    "row",
    [
        (Kind.PUT, b"", "INVALID_REQUEST", "PUT"),
        (Kind.PUT, b"\x00\x05key", "INVALID_REQUEST", "length is 5; 3 bytes"),
        (Kind.PUT, operations.put_body(b"", b"v"), "INVALID_REQUEST", "key: is empty"),
        (Kind.PUT, operations.put_body(b"k" * 1025, b"v"), "INVALID_REQUEST", "at most 1024"),
        (Kind.PUT, operations.put_body(b"\xff", b"v"), "INVALID_REQUEST", "UTF-8"),
        (Kind.PUT, operations.put_body(b"k", bytes(70_000)), "RECORD_TOO_LARGE", "70001"),
        (Kind.DELETE, b"", "INVALID_REQUEST", "key: is empty"),
        (Kind.GET, b"", "INVALID_REQUEST", "GET"),
        (Kind.GET, b"\x02key", "INVALID_REQUEST", "begins with 02"),
        (Kind.APPEND, b"", "INVALID_REQUEST", "APPEND"),
        (Kind.APPEND, operations.append_body([]), "INVALID_REQUEST", "0 records"),
        (Kind.APPEND, struct.pack(">I", 2**32 - 1), "INVALID_REQUEST", "4294967295 records"),
        (Kind.APPEND, struct.pack(">II", 1, 9) + b"short", "INVALID_REQUEST", "length of 9"),
        (Kind.APPEND, operations.append_body([b"a"]) + b"x", "INVALID_REQUEST", "1 bytes after"),
        (Kind.APPEND, operations.append_body([bytes(60_000)] * 3), "BATCH_TOO_LARGE", "180000"),
        (Kind.APPEND_BATCH, b"", "INVALID_REQUEST", "a batch of 0 bytes"),
        (Kind.APPEND_BATCH, batch(b"small"), "INVALID_REQUEST", "expected 65536 or more"),
        (Kind.APPEND_BATCH, bytes(70_000), "INVALID_REQUEST", "impossible header"),
        (Kind.APPEND_BATCH, BATCH[:-1], "INVALID_REQUEST", "says that it has"),
        (Kind.APPEND_BATCH, BATCH[:-1] + b"x", "INVALID_REQUEST", "checksum"),
        (Kind.APPEND_BATCH, KEYED_BATCH, "INVALID_REQUEST", "record 1 has a key"),
        (Kind.APPEND_BATCH, batch(*[b"12345"] * 10_001), "INVALID_REQUEST", "1 to 10000"),
        (Kind.APPEND_BATCH, batch(b"", bytes(70_000)), "RECORD_TOO_LARGE", "records.1: 70000"),
        (Kind.APPEND_BATCH, batch(*[bytes(60_000)] * 3), "BATCH_TOO_LARGE", "180000"),
        (Kind.READ, b"", "INVALID_REQUEST", "READ"),
        (Kind.READ, operations.read_body(0, 0, 0), "INVALID_REQUEST", "max_bytes 0"),
        (Kind.READ, operations.read_body(0, 1, 60_001), "INVALID_REQUEST", "max_wait_ms 60001"),
        (Kind.READ, operations.read_body(1 << 63, 1, 0), "INVALID_REQUEST", "offset"),
        (77, b"", "INVALID_REQUEST", "kind: 77"),
    ],
)
async def test_a_malformed_operation_is_refused_by_name_and_nothing_is_written(
    api: Api, client: Client, row: tuple[int, bytes, str, str]
):
    kind, body, error, says = row
    await client.send((1, kind, body))
    _, name, message = await client.refused(1)
    assert name == error
    assert says in message
    assert api.service.appends == 0
    await client.send(put(2, b"key", b"value"))
    assert (await client.answer(2)).kind == AnswerKind.WRITTEN, "the session goes on"


@pytest.mark.parametrize("timeout_ms", [0, 600_001, 2**32 - 1])
async def test_a_time_out_that_is_none_is_refused(client: Client, timeout_ms: int):
    await client.send(put(1, b"key", b"value"), timeout_ms=timeout_ms)
    _, name, message = await client.refused(1)
    assert (name, "timeout_ms" in message) == ("INVALID_REQUEST", True)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "begins with nothing"),
        (b"\x01", "no operation"),
        (b"\x02", "begins with 02"),
        (b"\x01\x00", "its head has 17"),
        (b"\x01" + struct.pack(">IQIB", 12, 1, 1, 1), "its length is 12"),
        (b"\x01" + struct.pack(">IQIB", 14, 1, 1, 1), "its length is 14"),
        (b"\x01" + struct.pack(">IQIB", 2**32 - 1, 1, 1, 1), "its length is 4294967295"),
    ],
)
async def test_a_malformed_message_ends_the_session_with_the_reason(
    client: Client, data: bytes, says: str
):
    await client.websocket.send_bytes(data)
    code, reason = await client.closed()
    assert code == aiohttp.WSCloseCode.POLICY_VIOLATION
    assert says in reason


async def test_a_text_message_ends_the_session(client: Client):
    await client.websocket.send_str("hello")
    assert await client.closed() == (1008, "a text message; send binary ones")


async def test_an_operation_id_that_is_in_use_ends_the_session(api: Api, client: Client):
    api.service.hold()
    await client.send(put(7, b"key", b"value"), get(7, b"key"))
    code, reason = await client.closed()
    assert (code, "id 7 is in use" in reason) == (1008, True)


async def test_credits_bound_what_is_unanswered_and_come_back_with_the_answers(
    api: Api, client: Client
):
    body = operations.put_body(b"key", bytes(60_000))
    fits = client.greeting.credit_bytes // operations.cost_bytes(body)
    for _ in range(2):
        api.service.hold()
        await client.send(*((number, Kind.PUT, body) for number in range(fits)))
        await asyncio.sleep(0.05)
        api.service.release()
        for number in range(fits):
            assert (await client.answer(number)).kind == AnswerKind.WRITTEN
    api.service.hold()
    for number in range(fits):
        await client.send((number, Kind.PUT, body))
    await client.send((fits, Kind.PUT, body))
    code, reason = await client.closed()
    assert code == 1008
    assert "credits overdrawn" in reason


async def test_a_message_larger_than_all_credits_ends_the_session(client: Client):
    # The node reads no more of it, so that the connection may be reset before the reason comes.
    try:
        await client.websocket.send_bytes(bytes(client.greeting.credit_bytes + 1))
        code, _ = await client.closed()
    except ConnectionError:
        return
    assert code in {aiohttp.WSCloseCode.MESSAGE_TOO_BIG, aiohttp.WSCloseCode.ABNORMAL_CLOSURE}


async def test_each_operation_has_its_own_deadline_and_its_outcome(api: Api, client: Client):
    api.service.hold()
    await client.send(put(1, b"key", b"value"), timeout_ms=TIMEOUT_MS)
    await client.send(put(2, b"key", b"value"), get(3, b"key"), timeout_ms=40)
    assert (await client.refused(2))[:2] == (504, "TIMED_OUT")
    assert (await client.refused(3))[:2] == (503, "NOT_CONFIRMED")
    api.service.release()
    assert (await client.answer(1)).kind == AnswerKind.WRITTEN, "its time is not over"


async def test_what_a_client_that_leaves_has_asked_is_forgotten(api: Api, client: Client):
    api.service.hold()
    await client.send(put(1, b"key", b"value"), (2, Kind.READ, operations.read_body(9, 1, 60_000)))
    await true(lambda: bool(api.service.held))
    await client.websocket.close()
    await true(lambda: api.registry.get_sample_value("raftnode_sessions") == 0)
    api.service.release()
    again = await api.open()
    await again.send(get(1, b"key"))
    assert (await again.answer(1)).kind == AnswerKind.VALUE, "the write itself was not taken back"
    await again.websocket.close()


async def test_a_client_that_reads_no_answers_stops_its_session_and_no_other(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session_module, "UNREAD_S", 1.0)
    silent, other = await api.open(), await api.open()
    await other.send(put(1, b"key", bytes(60_000)))
    await other.answer(1)
    silent.websocket._response.connection.transport.pause_reading()
    for message in range(20):
        # 120 MB of answers for some kilobytes of credits.
        asked = [get(message * 100 + n, b"key", linearizable=False) for n in range(100)]
        await silent.send(*asked)
    for number in range(20):
        await other.send(get(number, b"key"))
        assert (await other.answer(number)).kind == AnswerKind.VALUE
    answered = counted(api)["get", "ok"] - 20
    assert answered * 60_000 < 64 << 20, "the node held back what it could not send"
    await true(lambda: api.registry.get_sample_value("raftnode_sessions") == 1)
    await other.send(get(99, b"key"))
    assert (await other.answer(99)).kind == AnswerKind.VALUE
    await other.websocket.close()


@pytest.mark.parametrize("max_wait_ms", [0, 30_000])
async def test_reads_of_a_client_that_takes_no_answers_hold_no_more_than_other_answers(
    max_wait_ms: int, api: Api, monkeypatch: pytest.MonkeyPatch
):
    """Also those that have waited together for records."""
    monkeypatch.setattr(session_module, "UNREAD_S", 5.0)
    held = Held(api.service)
    monkeypatch.setattr(api.service, "read", held.read)
    silent = await api.open()
    records = [NewRecord(None, bytes(60_000))] * 16
    if not max_wait_ms:
        api.service.submit(records, lambda _: None)
    start = len(api.service._log) if max_wait_ms else 0
    asked = [
        (number, Kind.READ, operations.read_body(start, 1 << 20, max_wait_ms))
        for number in range(64)
    ]
    await silent.send(*asked)
    silent.websocket._response.connection.transport.pause_reading()
    if max_wait_ms:
        await asyncio.sleep(0.1)
        api.service.submit(records, lambda _: None)
    await true(lambda: held.reads >= 5)
    await asyncio.sleep(0.5)
    assert held.reads <= 16, "the node read no more than the client takes"
    silent.websocket._response.connection.transport.resume_reading()
    for number in range(64):
        assert (await silent.answer(number)).kind == AnswerKind.RECORDS
    assert held.reads == 64
    await silent.websocket.close()


async def test_reads_that_wait_for_records_hold_up_no_other_read(client: Client):
    await client.send(put(1, b"key", b"value"))
    await client.answer(1)
    waiting = operations.read_body(1000, 1 << 20, 30_000)
    await client.send(*((number, Kind.READ, waiting) for number in range(2, 20)))
    await client.send((20, Kind.READ, operations.read_body(0, 1 << 20, 30_000)))
    assert (await client.answer(20)).kind == AnswerKind.RECORDS


class Held:
    """Counts the reads of a service."""

    def __init__(self, service: MemoryService) -> None:
        self._read = service.read
        self.reads = 0

    async def read(self, offset, *, max_bytes, max_wait_ms):
        self.reads += 1
        return await self._read(offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms)


async def test_a_handshake_without_our_subprotocol_is_refused(api: Api):
    for protocols in ((), ("kraftquorum.session.v9",)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await api.http.ws_connect(f"http://{api.at}{PATH}", protocols=protocols)
        assert caught.value.status == 400
    async with api.http.get(
        f"http://{api.at}{PATH}", headers={"Sec-WebSocket-Protocol": SUBPROTOCOL}
    ) as plain:
        assert plain.status == 400, "a plain GET is no session"
        assert (await plain.json())["error"] == "INVALID_REQUEST"


async def test_more_sessions_than_the_node_accepts_are_refused(api: Api, client: Client):
    del client
    registry = CollectorRegistry()
    guard = Guard(ClientLimits(sessions_max=1))
    app = make_app(MemoryService(), registry=registry, version="1", guard=guard)
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        few = Api(api.service, api.http, at, registry)
        first = await few.open()
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await few.open()
        assert caught.value.status == 503
        await first.websocket.close()
        await asyncio.sleep(0.05)
        await (await few.open()).websocket.close()
    finally:
        await server.stop()


def counted(api: Api) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["operation"], sample.labels["outcome"]): sample.value
        for metric in api.registry.collect()
        for sample in metric.samples
        if sample.name == "raftnode_session_operations_total"
    }


async def test_operations_are_counted_by_kind_and_outcome(api: Api, client: Client):
    await client.send(put(1, b"key", b"value"), get(2, b"key"), (3, 77, b""))
    for number in (1, 2, 3):
        await client.answer(number)
    assert counted(api) == {("put", "ok"): 1, ("get", "ok"): 1, ("other", "not_done"): 1}
    assert api.registry.get_sample_value("raftnode_sessions") == 1


async def test_a_stopping_server_closes_its_sessions(api: Api):
    registry = CollectorRegistry()
    server = ApiServer(make_app(MemoryService(), registry=registry, version="1"))
    at = await server.start(Endpoint("127.0.0.1", 0))
    client = await Api(api.service, api.http, at, registry).open()
    stopped = asyncio.get_running_loop().create_task(server.stop())
    assert (await client.closed())[0] == aiohttp.WSCloseCode.GOING_AWAY
    await client.websocket.close()
    async with asyncio.timeout(1.5):
        await stopped


async def test_other_tasks_have_their_turns_between_operations_with_many_records(
    monkeypatch: pytest.MonkeyPatch, client: Client
):
    monkeypatch.setattr(session_module, "TURN_S", 0.0)
    body = operations.append_body([b""] * 5000)
    asked = [(number, Kind.APPEND, body) for number in range(20)]
    turns = 0
    counted = asyncio.Event()

    async def count() -> None:
        nonlocal turns
        while not counted.is_set():
            turns += 1
            await asyncio.sleep(0)

    begun: list[int] = []
    begin = session_module.Session._begin

    def note(session: session_module.Session, operation: operations.Operation) -> None:
        begun.append(turns)
        begin(session, operation)

    monkeypatch.setattr(session_module.Session, "_begin", note)
    counting = asyncio.get_running_loop().create_task(count())
    await client.send(*asked)
    for number, *_ in asked:
        await client.answer(number)
    counted.set()
    await counting
    assert len(set(begun)) == len(asked)


async def test_a_client_that_reads_nothing_does_not_hold_up_a_stopping_node():
    service = MemoryService()
    for number in range(4):
        await service.append([NewRecord(b"%d" % number, bytes(1 << 20))], timeout_ms=TIMEOUT_MS)
    server = ApiServer(
        make_app(service, registry=CollectorRegistry(), version="1"), shutdown_grace_ms=0
    )
    at = await server.start(Endpoint("127.0.0.1", 0))
    reader, writer = await asyncio.open_connection(at.host, at.port, limit=1 << 10)
    try:
        key = base64.b64encode(bytes(16)).decode()
        writer.write(
            f"GET {PATH} HTTP/1.1\r\nHost: {at}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        body = operations.get_body(b"1", linearizable=False)
        parts: list[bytes] = []
        for number in range(32):
            parts += (operations.encode_head(number, TIMEOUT_MS, Kind.GET, body), body)
        message = operations.encode_message(parts)
        # A binary frame; a mask of zeros changes nothing.
        writer.write(b"\x82\xfe" + struct.pack(">H", len(message)) + bytes(4) + message)
        await asyncio.sleep(1)
        began_s = time.monotonic()
        await server.stop()
        assert time.monotonic() - began_s < 10
    finally:
        writer.transport.abort()
