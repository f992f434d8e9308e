"""What strangers and broken peers do to the port, and that the others are served all the same."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from raftnode.core.messages import ErrorCode
from raftnode.core.types import NodeId, Offset, ReplicaKey
from raftnode.transport import Identity, RefusalReason
from raftnode.transport.hello import Hello, Refusal, decode_hello, encode_hello
from raftnode.wire import ErrorFrame, ResponseFrame
from raftnode.wire.envelope import decode_envelope, encode_envelope

from .conftest import CLUSTER, LONG_MS, PATIENT, Replica, fetch, fetched


class Stranger:
    """A raw WebSocket to a replica's server."""

    def __init__(self, session: ClientSession, to: Replica, me: Replica) -> None:
        self.session, self.to, self.me = session, to, me
        self.opened: list[ClientWebSocketResponse] = []

    async def open(self):
        self.ws = await self.session.ws_connect(f"ws://{self.to.endpoint}/v1/peer")
        self.opened.append(self.ws)
        return self

    async def close(self) -> None:
        for ws in self.opened:
            await ws.close()

    async def greet(self, **changes):
        await self.open()
        hello = replace(Hello(self.me.identity, wants=self.to.key), **changes)
        await self.ws.send_bytes(encode_hello(hello))
        return decode_hello(await self.ws.receive_bytes())

    def frame(self, token: int = 0, *, compact: bool = True, **changes) -> bytes:
        raw = self.me.codec.encode_request(
            fetch(self.me.key, token),
            source=self.me.key,
            target=self.to.key,
            cluster_id=CLUSTER,
            correlation_id=token,
            compact=compact,
        )
        envelope, body = decode_envelope(raw)
        return encode_envelope(replace(envelope, **changes)) + bytes(body)

    async def ask(self, frame: bytes):
        await self.ws.send_bytes(frame)
        return self.me.codec.decode(await self.ws.receive_bytes())

    async def closed(self) -> None:
        """Wait until the server has closed; whatever else it says first is passed over."""
        while True:
            message = await self.ws.receive()
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR):
                return


@pytest.fixture
async def stranger(replica):
    me, to = replica(8), replica(2)
    await to.listen()
    async with ClientSession() as session:
        caller = Stranger(session, to, me)
        yield caller
        await still_serves(replica, to)
        # A traceback may hold it past the end of the loop, which the collector then complains of.
        await caller.close()


async def still_serves(replica, server: Replica) -> None:
    """Another peer gets its answer: asked at the end of every test."""
    server.echo()
    other = replica(9)
    other.addresses.learn_hello(server.key, server.endpoint)
    other.pool.send(server.key, fetch(other.key, 5), LONG_MS)
    _, _, response = await other.responses.get()
    assert response.round_token == 5


async def test_welcome_hello_is_answered_with_the_servers_identity(stranger) -> None:
    answer = await stranger.greet()
    assert isinstance(answer, Hello)
    assert answer.identity == stranger.to.identity
    stranger.to.echo()
    frame = await stranger.ask(stranger.frame(3))
    assert isinstance(frame, ResponseFrame)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        (RefusalReason.WRONG_REPLICA, {"wants": "another"}),
        (RefusalReason.WRONG_CLUSTER, {"identity": "other cluster"}),
        (RefusalReason.UNSUPPORTED_VERSION, {"version_min": 3, "version_max": 9}),
    ],
)
@pytest.mark.without(
    "transport.server:PeerServer._greet", "self._on_refused(refusal.reason, key,", "print(key,"
)
async def test_unwelcome_hello_is_refused_by_name_and_closed(stranger, reason, changes) -> None:
    if "wants" in changes:
        changes = {"wants": replace(stranger.to.key, node_id=NodeId(77))}
    elif "identity" in changes:
        changes = {"identity": replace(stranger.me.identity, cluster_id="other cluster")}
    answer = await stranger.greet(**changes)
    assert isinstance(answer, Refusal)
    assert answer.reason is reason
    assert answer.replica == stranger.to.key
    await stranger.closed()
    assert stranger.to.refused == [(reason, stranger.me.key, "127.0.0.1")]


@pytest.mark.parametrize("known", [{}, {"cluster_id": None, "log_end": Offset(7)}])
@pytest.mark.without("transport.server:PeerServer._greet", " and not is_own:", ":")
async def test_a_replica_that_calls_itself_has_refused_no_other(stranger, known) -> None:
    """Also if it has learned of its cluster between the two hellos, such as during its formation."""
    own = replace(stranger.to.identity, **known)
    assert (await stranger.greet(identity=own, wants=None)).reason is RefusalReason.OWN_KEY
    await stranger.closed()
    assert stranger.to.refused == []


async def test_a_copied_disk_is_refused_with_its_name(stranger) -> None:
    copied = replace(stranger.to.identity, incarnation=7)
    assert (await stranger.greet(identity=copied, wants=None)).reason is RefusalReason.OWN_KEY
    await stranger.closed()
    assert stranger.to.refused == [(RefusalReason.OWN_KEY, stranger.to.key, "127.0.0.1")]


async def test_versions_are_negotiated_by_range(stranger) -> None:
    assert isinstance(await stranger.greet(version_min=0, version_max=9), Hello)


@pytest.mark.parametrize(
    "first", [b"", b"{", b"\xff" * 100, b"[]", b'{"replica": 3}', b"x" * 60_000]
)
async def test_garbage_for_a_hello_is_refused_and_closed(stranger, first: bytes) -> None:
    await stranger.open()
    await stranger.ws.send_bytes(first)
    answer = decode_hello(await stranger.ws.receive_bytes())
    assert isinstance(answer, Refusal)
    assert answer.reason is RefusalReason.BAD_HELLO
    await stranger.closed()
    assert stranger.to.refused == [(RefusalReason.BAD_HELLO, None, "127.0.0.1")]


async def test_text_for_a_hello_is_refused(stranger) -> None:
    await stranger.open()
    await stranger.ws.send_str("hello")
    assert isinstance(decode_hello(await stranger.ws.receive_bytes()), Refusal)
    await stranger.closed()


async def test_hello_that_does_not_come_ends_the_connection(stranger, monkeypatch) -> None:
    hasty = replace(PATIENT, hello_timeout_ms=200)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(stranger.to.server, "_settings", hasty)
        await stranger.open()
        await asyncio.wait_for(stranger.closed(), 30)


async def test_connection_that_ends_before_its_hello_is_forgotten(stranger) -> None:
    await stranger.open()
    stranger.ws._response.connection.transport.abort()


async def test_garbage_frames_close_the_connection(stranger) -> None:
    rng = random.Random(7)
    for size in (0, 1, 31, 32, 33, 200, 4000):
        await stranger.greet()
        await stranger.ws.send_bytes(rng.randbytes(size))
        await stranger.closed()
    assert stranger.to.requests.empty()


async def test_text_frame_closes_the_connection(stranger) -> None:
    await stranger.greet()
    await stranger.ws.send_str("GET / HTTP/1.1")
    await stranger.closed()


async def test_oversized_frame_closes_the_connection(stranger) -> None:
    await stranger.greet()
    await stranger.ws.send_bytes(bytes(PATIENT.request_bytes_max + 1))
    await stranger.closed()


async def test_unknown_api_is_answered_with_unsupported_version(stranger) -> None:
    await stranger.greet()
    for change in ({"api_key": 999}, {"api_version": 16}):
        answer = await stranger.ask(stranger.frame(4, **change))
        assert isinstance(answer, ErrorFrame)
        assert answer.error is ErrorCode.UNSUPPORTED_VERSION
        assert answer.envelope.correlation_id == 4


@pytest.mark.rule("S28")
@pytest.mark.without(
    "transport.server:_Connection._respond", "request.api_key == compact_fetch.API_KEY", "True"
)
async def test_a_fetch_is_answered_in_the_form_in_which_it_was_asked(stranger) -> None:
    """A peer of an earlier program reads Kafka's form only."""
    stranger.to.echo()
    await stranger.greet(version_max=1)
    for token, compact, api_key in ((4, False, 1), (5, True, 1001)):
        answer = await stranger.ask(stranger.frame(token, compact=compact))
        assert isinstance(answer, ResponseFrame)
        assert answer.envelope.api_key == api_key
        assert answer.message.round_token == token


async def test_truncated_body_is_an_error_reply(stranger) -> None:
    await stranger.greet()
    answer = await stranger.ask(stranger.frame()[:-3])
    assert isinstance(answer, ErrorFrame)
    assert answer.error is ErrorCode.INVALID_REQUEST


async def test_frame_for_another_uuid_is_refused_by_name(stranger) -> None:
    await stranger.greet()
    other = stranger.me.key
    answer = await stranger.ask(stranger.frame(target=other))
    assert isinstance(answer, ErrorFrame)
    assert answer.error is ErrorCode.INVALID_VOTER_KEY
    assert str(other) in answer.message
    assert str(stranger.to.key) in answer.message


async def test_frame_of_another_cluster_is_refused(stranger) -> None:
    other = replace(stranger.me.identity, cluster_id=None)
    await stranger.greet(identity=other)
    raw = stranger.me.codec.encode_request(
        fetch(stranger.me.key),
        source=stranger.me.key,
        target=None,
        cluster_id="other",
        correlation_id=0,
    )
    answer = await stranger.ask(raw)
    assert isinstance(answer, ErrorFrame)
    assert answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.rule("S3", "S5")
async def test_member_that_said_hello_as_blank_has_to_say_it_again(stranger) -> None:
    """The gate did not remember that start, as a blank replica has promised nothing."""
    await stranger.greet(identity=replace(stranger.me.identity, cluster_id=None))
    await stranger.ws.send_bytes(stranger.frame())
    await stranger.closed()
    assert stranger.to.requests.empty()


async def test_frame_from_another_than_said_hello_closes_the_connection(stranger) -> None:
    await stranger.greet(
        identity=Identity(ReplicaKey(NodeId(3), stranger.me.key.directory_id), CLUSTER, 1)
    )
    await stranger.ws.send_bytes(stranger.frame())
    await stranger.closed()
    assert stranger.to.requests.empty()


async def test_response_where_requests_belong_closes_the_connection(stranger) -> None:
    await stranger.greet()
    raw = stranger.me.codec.encode_response(
        fetched(),
        source=stranger.me.key,
        target=stranger.to.key,
        cluster_id=CLUSTER,
        correlation_id=0,
    )
    await stranger.ws.send_bytes(raw)
    await stranger.closed()


async def test_correlation_id_in_use_closes_the_connection(stranger) -> None:
    await stranger.greet()
    await stranger.ws.send_bytes(stranger.frame())
    await stranger.ws.send_bytes(stranger.frame())
    await stranger.closed()


async def test_garbage_that_is_no_http_is_survived(stranger) -> None:
    rng = random.Random(11)
    for data in (
        rng.randbytes(5000),
        b"GET /v1/peer HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\r\n\r\n",
        b"\x16\x03\x01",
    ):
        reader, writer = await asyncio.open_connection(stranger.to.host, stranger.to.port)
        writer.write(data)
        writer.write_eof()
        await reader.read()
        writer.close()


async def test_peer_that_does_not_read_is_cut_off_at_the_limit(replica) -> None:
    small = replace(PATIENT, outbox_bytes_max=256 * 1024)
    server = replica(2, settings=small)
    await server.listen()
    async with ClientSession() as session:
        lazy = Stranger(session, server, replica(8))
        await lazy.greet()
        for token in range(16):
            await lazy.ws.send_bytes(lazy.frame(token))
        waiting = [await server.requests.get() for _ in range(16)]
        lazy.ws._response.connection.transport.pause_reading()
        for _, request, respond in waiting:
            respond(fetched(request.round_token, bytes(1 << 20)))
            await asyncio.sleep(0)
        writers = [task for task in server.tasks.running if "write to" in task.get_name()]
        await asyncio.gather(*writers, return_exceptions=True)
        assert not server.server.connections
        await still_serves(replica, server)


async def test_connections_are_bounded_per_replica(replica) -> None:
    server = replica(2, settings=replace(PATIENT, connections_per_replica_max=2))
    await server.listen()
    me = replica(8)
    async with ClientSession() as session:
        first = Stranger(session, server, me)
        await first.greet()
        others = [Stranger(session, server, me) for _ in range(2)]
        for each in others:
            await each.greet()
        await first.closed()
        assert server.server.connections[me.key] == 2


async def test_closing_ends_connections_and_refuses_new_ones(replica) -> None:
    server, me = replica(2), replica(8)
    await server.listen()
    async with ClientSession() as session:
        open_ = Stranger(session, server, me)
        await open_.greet()
        await open_.ws.send_bytes(open_.frame())
        _, _, respond = await server.requests.get()
        closing = asyncio.gather(server.server.close(), open_.closed())
        await asyncio.wait_for(closing, 30)
        respond(fetched())
        async with session.get(f"http://{server.endpoint}/v1/peer") as answer:
            assert answer.status == 503


async def test_dialler_refuses_a_server_of_another_identity(replica) -> None:
    """A server that ignores whom the dialler wants is caught by the dialler."""
    a, b = replica(1), replica(2)
    await b.listen()
    liar = replica(3)
    a.addresses.learn_hello(liar.key, b.endpoint)
    b.identity = replace(b.identity)
    original = b.server._greet

    async def agree(_request, socket):
        await socket.receive_bytes()
        await socket.send_bytes(encode_hello(Hello(b.identity)))

    b.server._greet = agree
    a.pool.send(liar.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.refusal is RefusalReason.WRONG_REPLICA
    b.server._greet = original
    assert a.addresses.candidates(b.key) == (b.endpoint,)
