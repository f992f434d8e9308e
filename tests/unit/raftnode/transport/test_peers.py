"""Requests and responses between real sockets, and every way in which they can fail."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from raftnode.core.messages import BeginQuorumEpochRequest, ErrorCode, VoteRequest, VoteResponse
from raftnode.core.types import Endpoint, Epoch, LogPosition, Offset
from raftnode.transport import FailureReason, RefusalReason, TransportSettings

from .conftest import LONG_MS, PATIENT, Replica, fetch, fetched

pytestmark = pytest.mark.rule("S6")
ASKS_DNS = replace(PATIENT, connect_timeout_ms=1000)
"""The system's resolver may be long in saying that there is no such name."""


async def pair(replica) -> tuple[Replica, Replica]:
    a, b = replica(1), replica(2)
    await b.listen()
    a.addresses.learn_hello(b.key, b.endpoint)
    return a, b


async def test_request_is_answered_with_its_source_and_itself(replica) -> None:
    a, b = await pair(replica)
    vote = VoteRequest(Epoch(2), a.key, b.key, LogPosition(Epoch(1), Offset(5)), pre_vote=False)
    a.pool.send(b.key, vote, LONG_MS)
    source, request, respond = await b.requests.get()
    assert (source, request) == (a.key, vote)
    answer = VoteResponse(ErrorCode.NONE, Epoch(2), None, granted=True)
    respond(answer)
    assert await a.responses.get() == (b.key, vote, answer)
    assert a.pool.connected == (b.identity,)
    assert b.hellos == [a.identity]


async def test_responses_may_come_later_and_out_of_order(replica) -> None:
    a, b = await pair(replica)
    for token in range(5):
        a.pool.send(b.key, fetch(a.key, token), LONG_MS)
    asked = [await b.requests.get() for _ in range(5)]
    for _, request, respond in reversed(asked):
        respond(fetched(request.round_token, b"x" * request.round_token))
        respond(fetched(99))  # a second answer does nothing
    got = [await a.responses.get() for _ in range(5)]
    assert [response.round_token for _, _, response in got] == [4, 3, 2, 1, 0]
    assert all(request.round_token == response.round_token for _, request, response in got)
    assert b.server.connections[a.key] == 1


async def test_leader_named_in_a_response_is_learned(replica) -> None:
    a, b = await pair(replica)
    leader = replica(3).key
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, respond = await b.requests.get()
    respond(fetched(leader=leader))
    await a.responses.get()
    assert a.addresses.candidates(leader) == (Endpoint("127.0.0.1", 9),)


async def test_another_uuid_at_the_address_is_refused_by_name(replica) -> None:
    a, b = await pair(replica)
    old = replica(2, directory=7).key
    a.addresses.learn_hello(old, b.endpoint)
    a.pool.send(old, fetch(a.key), LONG_MS)
    target, _, failure = await a.failures.get()
    assert target == old
    assert failure.reason is FailureReason.REFUSED
    assert failure.refusal is RefusalReason.WRONG_REPLICA
    assert str(old) in failure.detail
    assert str(b.key) in failure.detail
    assert b.requests.empty()
    assert a.addresses.candidates(b.key) == (b.endpoint,)


async def test_another_cluster_is_refused(replica) -> None:
    a, b = replica(1, cluster_id="other"), replica(2)
    a.addresses.learn_hello(b.key, await b.listen())
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.refusal is RefusalReason.WRONG_CLUSTER


async def test_node_without_a_cluster_id_may_fetch_and_nothing_else(replica) -> None:
    a, b = replica(1, cluster_id=None), replica(2)
    a.addresses.learn_hello(b.key, await b.listen())
    b.echo()
    a.pool.send(b.key, fetch(a.key, 3), LONG_MS)
    _, _, response = await a.responses.get()
    assert response.round_token == 3
    a.pool.send(b.key, BeginQuorumEpochRequest(Epoch(1), a.key, b.key, None), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.INVALID
    assert [hello.cluster_id for hello in b.hellos] == [None]
    a.identity = replace(a.identity, cluster_id=b.identity.cluster_id)
    assert a.pool.connected == (), "it has not said hello as a member"
    a.pool.send(b.key, fetch(a.key, 4), LONG_MS)
    _, _, response = await a.responses.get()
    assert response.round_token == 4
    # The gate remembers a start by its hello (S3), so the member says hello again.
    assert [hello.cluster_id for hello in b.hellos] == [None, b.identity.cluster_id]
    assert a.pool.connected == (b.identity,)


async def test_own_key_is_refused(replica) -> None:
    a, _ = await pair(replica)
    a.pool.send(a.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.refusal is RefusalReason.OWN_KEY


async def test_nothing_listening_and_no_address_are_unreachable(replica) -> None:
    a, b = await pair(replica)
    await b.stop_listening()
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.UNREACHABLE
    a.pool.send(replica(3).key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.UNREACHABLE
    assert "no address" in failure.detail


async def test_name_that_does_not_exist_yet_is_retried_by_further_sends(replica) -> None:
    a, b = replica(1, settings=ASKS_DNS), replica(2)
    a.addresses.learn_hello(b.key, Endpoint("no-such-host.invalid", 1))
    for _ in range(3):
        a.pool.send(b.key, fetch(a.key), LONG_MS)
        _, _, failure = await a.failures.get()
        assert failure.reason is FailureReason.UNREACHABLE


async def test_host_that_no_url_can_hold_is_unreachable(replica) -> None:
    a, b = replica(1, settings=ASKS_DNS), replica(2)
    for host in ("a b", "ü" * 200, "[", "a/../b", "user@x:1"):
        a.addresses.learn_hello(b.key, Endpoint(host, 1))
        a.pool.send(b.key, fetch(a.key), LONG_MS)
        _, _, failure = await a.failures.get()
        assert failure.reason is FailureReason.UNREACHABLE


async def test_request_without_a_response_times_out_and_a_late_one_is_ignored(replica) -> None:
    a, b = await pair(replica)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await b.requests.get()
    a.pool.send(b.key, fetch(a.key, 1), 50)
    _, _, late = await b.requests.get()
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.TIMED_OUT
    late(fetched(1))
    b.echo()
    a.pool.send(b.key, fetch(a.key, 2), LONG_MS)
    _, _, response = await a.responses.get()
    assert response.round_token == 2
    assert a.failures.empty()


async def test_lost_connection_fails_what_was_sent(replica) -> None:
    a, b = await pair(replica)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await b.requests.get()
    await b.stop_listening()
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.DISCONNECTED


async def test_restarted_peer_is_reached_by_the_next_request(replica) -> None:
    a, b = await pair(replica)
    b.echo()
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await a.responses.get()
    port = b.port
    await b.stop_listening()
    down_until = time.monotonic() + 0.7
    while time.monotonic() < down_until:  # each send makes one attempt, paced by the backoff
        a.pool.send(b.key, fetch(a.key), LONG_MS)
        await a.failures.get()
    await b.listen(port)
    b.echo()
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await a.responses.get()


async def test_pause_before_the_next_attempt_ends_when_the_peer_is_noticed(replica) -> None:
    pause_ms = 10 * LONG_MS
    slow = replace(PATIENT, backoff_initial_ms=pause_ms, backoff_quick_max_ms=pause_ms)
    a, b = replica(1, settings=slow), replica(2)
    a.addresses.learn_hello(b.key, Endpoint("127.0.0.1", 1))
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await a.failures.get()
    a.addresses.learn_hello(b.key, await b.listen())
    b.echo()
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    a.pool.noticed(b.key)
    await a.responses.get()


async def test_requests_beyond_the_limit_fail_at_once(replica) -> None:
    few = replace(PATIENT, outstanding_max=3)
    a, b = replica(1, settings=few), replica(2)
    a.addresses.learn_hello(b.key, await b.listen())
    for token in range(5):
        a.pool.send(b.key, fetch(a.key, token), LONG_MS)
    assert a.failures.empty(), "callbacks never run within send"
    for _ in range(2):
        _, _, failure = await a.failures.get()
        assert failure.reason is FailureReason.OVERLOADED
    for _ in range(3):
        await b.requests.get()


async def test_server_forgets_the_oldest_request_beyond_its_limit(replica) -> None:
    a = replica(1)
    b = replica(2, settings=replace(PATIENT, outstanding_max=2))
    a.addresses.learn_hello(b.key, await b.listen())
    for token in range(3):
        a.pool.send(b.key, fetch(a.key, token), LONG_MS)
    asked = [await b.requests.get() for _ in range(3)]
    for _, request, respond in asked:
        respond(fetched(request.round_token))
    answered = {(await a.responses.get())[2].round_token for _ in range(2)}
    assert answered == {1, 2}


async def test_bootstrap_reaches_a_server_and_learns_which(replica) -> None:
    b = replica(2)
    await b.listen()
    a = replica(1, bootstrap=(Endpoint("127.0.0.1", 1), b.endpoint))
    b.echo()
    for token in range(6):
        a.pool.send_bootstrap(fetch(a.key, token), LONG_MS)
        source, _, response = await a.responses.get()
        assert (source, response.round_token) == (b.key, token)
    assert a.failures.empty()


async def test_bootstrap_passes_over_its_own_address(replica) -> None:
    b = replica(2)
    await b.listen()
    b.echo()
    a = replica(1)
    await a.listen()
    a.addresses.bootstrap = (a.endpoint, b.endpoint)
    for token in range(4):
        a.pool.send_bootstrap(fetch(a.key, token), LONG_MS)
        source, _, _ = await a.responses.get()
        assert source == b.key


async def test_bootstrap_fails_when_no_server_is_there(replica) -> None:
    a = replica(1)
    a.pool.send_bootstrap(fetch(a.key), LONG_MS)
    target, _, failure = await a.failures.get()
    assert target is None
    assert failure.reason is FailureReason.UNREACHABLE
    a.addresses.bootstrap = (Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2))
    a.pool.send_bootstrap(fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.UNREACHABLE


async def test_unknown_address_is_found_through_bootstrap(replica) -> None:
    b, c = replica(2), replica(3)
    await b.listen()
    await c.listen()
    c.echo()
    a = replica(1, bootstrap=(b.endpoint, c.endpoint))
    a.pool.send(c.key, fetch(a.key, 8), LONG_MS)
    source, _, response = await a.responses.get()
    assert (source, response.round_token) == (c.key, 8)


async def test_large_responses_pass(replica) -> None:
    a, b = await pair(replica)
    data = bytes(range(256)) * 8192
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, respond = await b.requests.get()
    respond(fetched(data=data))
    _, _, response = await a.responses.get()
    assert response.batches[0].data == data


async def test_response_larger_than_a_frame_is_an_error_reply(replica) -> None:
    a, b = await pair(replica)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, respond = await b.requests.get()
    respond(fetched(data=bytes(b.codec.frame_bytes_max)))
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.REJECTED
    assert "UNKNOWN_SERVER_ERROR" in failure.detail


async def test_answer_of_another_kind_is_a_bad_response(replica) -> None:
    a, b = await pair(replica)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, respond = await b.requests.get()
    respond(VoteResponse(ErrorCode.NONE, Epoch(1), None, granted=True))
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.BAD_RESPONSE


async def test_sends_after_closing_fail(replica) -> None:
    a, b = await pair(replica)
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await b.requests.get()
    await a.pool.close()
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.DISCONNECTED
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    a.pool.send_bootstrap(fetch(a.key), LONG_MS)
    for _ in range(2):
        await a.failures.get()


async def test_links_are_bounded_and_idle_ones_forgotten(replica) -> None:
    a = replica(1, settings=TransportSettings(links_max=2))
    for node_id in (2, 3, 4, 5):
        a.pool.send(replica(node_id).key, fetch(a.key), LONG_MS)
        await a.failures.get()
    assert len(a.pool._links) <= 2


@pytest.mark.without(
    "transport.peers:PeerPool._link",
    "self._links.get(name)",
    "next((link for key, link in self._links.items() if key.node_id == name.node_id), None)",
)
async def test_two_storages_of_a_node_have_connections_of_their_own(replica) -> None:
    a = replica(1)
    keys = [replica(2).key, replica(2, directory=7).key]
    for key in keys:
        a.pool.send(key, fetch(a.key), LONG_MS)
        await a.failures.get()
    assert list(a.pool._links) == keys


async def test_connection_sends_small_frames_at_once(replica) -> None:
    a, b = await pair(replica)
    b.echo()
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await a.responses.get()
    (link,) = a.pool._links.values()
    sock = link._connection.dialled.socket.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("cut", ["dialler", "called"])
async def test_silent_cut_is_noticed_within_the_heartbeat(replica, cut: str) -> None:
    watchful = replace(PATIENT, heartbeat_ms=200)
    a, b = replica(1, settings=watchful), replica(2, settings=watchful)
    await b.listen()
    relay = await Relay.start(b.endpoint)
    a.addresses.learn_hello(b.key, Endpoint(b.host, relay.port))
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    await b.requests.get()
    relay.silent = True
    async with asyncio.timeout(LONG_MS / 2000):  # the request itself waits for longer
        if cut == "dialler":
            _, _, failure = await a.failures.get()
            assert failure.reason is FailureReason.DISCONNECTED
        else:
            await asyncio.wait([task for task in b.tasks.running if "write to" in task.get_name()])
    await relay.close()


class Relay:
    """A TCP relay that can fall silent without closing anything."""

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._tasks: list[asyncio.Task] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.silent = False

    @classmethod
    async def start(cls, target: Endpoint) -> Relay:
        relay = cls(target)
        relay._server = await asyncio.start_server(relay._accept, target.host, 0)
        relay.port = relay._server.sockets[0].getsockname()[1]
        return relay

    async def _accept(self, reader, writer) -> None:
        there, back = await asyncio.open_connection(self._target.host, self._target.port)
        self._writers += [writer, back]
        async with asyncio.TaskGroup() as group:
            self._tasks += [
                group.create_task(self._pump(reader, back)),
                group.create_task(self._pump(there, writer)),
            ]

    async def _pump(self, reader, writer) -> None:
        try:
            while data := await reader.read(65536):
                if not self.silent:
                    writer.write(data)
        except OSError:
            return

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
