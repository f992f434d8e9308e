"""Peers with TLS: each end refuses a certificate of another node or cluster; renewed connections."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proofkit.certificates import SPIFFE, Authority
from raftnode.tls.files import TlsFiles
from raftnode.tls.material import TlsRules
from raftnode.transport import Failure, FailureReason, Identity, RefusalReason
from raftnode.transport.gate import OpenGate

from .conftest import CLUSTER, LONG_MS, PATIENT, Replica, fetch, fetched

OTHER = "OtherOtherOtherOtherOt"
SOON_S = 6.0
"""For what a rule that is taken out never lets happen: a run without it waits for so long."""


def files_of(
    directory: Path,
    authority: Authority,
    node_id: int,
    *,
    mode="required",
    cluster_id=CLUSTER,
    valid_for=dt.timedelta(hours=1),
) -> TlsFiles:
    uris = [f"{SPIFFE}/{cluster_id}/node/{node_id}"]
    files = authority.issue(directory, uris=uris, valid_for=valid_for)
    return TlsFiles(
        TlsRules(
            listener="peer",
            mode=mode,
            certificate_file=files.certificate,
            key_file=files.key,
            ca_file=files.ca,
            client_certificates="required",
            min_version="1.3",
            node_id=node_id,
        )
    )


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def answered(caller: Replica, callee: Replica) -> None:
    """A request of one replica reaches the other and is answered."""
    caller.pool.send(callee.key, fetch(caller.key, 7), LONG_MS)
    async with asyncio.timeout(30):
        _, request, respond = await callee.requests.get()
        respond(fetched(request.round_token))
        source, _, response = await caller.responses.get()
    assert (source, response.round_token) == (callee.key, 7)


async def refused(caller: Replica, callee: Replica) -> Failure:
    """A request does not come about; returns why."""
    callee.echo()
    caller.pool.send(callee.key, fetch(caller.key), LONG_MS)
    async with asyncio.timeout(30):
        while caller.failures.empty():
            assert caller.responses.empty(), "it was answered"
            await asyncio.sleep(0.01)
    return caller.failures.get_nowait()[2]


async def until(condition: Callable[[], object], within_s: float = 30) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_two_nodes_of_a_cluster_reach_each_other(replica, tmp_path, authority):
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1))
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2))
    a.addresses.learn_hello(b.key, await b.listen())
    await answered(a, b)
    assert a.tls_failures == b.tls_failures == []


WRONG = {
    "another_cluster": (2, OTHER, "wrong_cluster"),
    "another_node": (3, CLUSTER, "wrong_node"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.without("transport.dial:_verify", "if refusal is not None:", "if False:")
async def test_the_dialler_refuses_a_certificate_of(case, replica, tmp_path, authority):
    node_id, cluster_id, reason = WRONG[case]
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1))
    liar = files_of(tmp_path / "b", authority, node_id, cluster_id=cluster_id)
    b = replica(2, tls=liar, trusts_all=True)
    a.addresses.learn_hello(b.key, await b.listen())
    failure = await refused(a, b)
    assert failure.reason is FailureReason.REFUSED
    assert failure.refusal is RefusalReason.WRONG_CERTIFICATE
    assert a.tls_failures == [("dialled", reason)]


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.without(
    "transport.peer_tls:PeerTls._refusal",
    "return self._refusal_of(certificate, identity)",
    "return None",
)
async def test_the_dialled_side_refuses_a_certificate_of(case, replica, tmp_path, authority):
    node_id, cluster_id, reason = WRONG[case]
    liar = files_of(tmp_path / "a", authority, node_id, cluster_id=cluster_id)
    a = replica(2, tls=liar, trusts_all=True)
    b = replica(1, tls=files_of(tmp_path / "b", authority, 1))
    a.addresses.learn_hello(b.key, await b.listen())
    await refused(a, b)
    assert b.tls_failures == [("peer", reason)]


async def test_a_ca_that_is_not_trusted_ends_the_handshake_on_both_sides(
    replica, tmp_path, authority
):
    a = replica(2, tls=files_of(tmp_path / "a", Authority(), 2))
    b = replica(1, tls=files_of(tmp_path / "b", authority, 1))
    a.addresses.learn_hello(b.key, await b.listen())
    failure = await refused(a, b)
    assert failure.reason is FailureReason.UNREACHABLE
    assert a.tls_failures == [("dialled", "unknown_ca")]


@pytest.mark.parametrize(("caller", "callee"), [("permissive", None), (None, "permissive")])
async def test_a_permissive_node_and_a_plain_one_reach_each_other(
    caller, callee, replica, tmp_path, authority
):
    def tls(node_id: int, mode: str | None):
        return files_of(tmp_path / f"{node_id}", authority, node_id, mode=mode) if mode else None

    a, b = replica(1, tls=tls(1, caller)), replica(2, tls=tls(2, callee))
    a.addresses.learn_hello(b.key, await b.listen())
    await answered(a, b)
    assert a.tls_failures == b.tls_failures == []


@pytest.mark.without("transport.dial:_open", "return await connect(tls.client)", "raise OSError")
async def test_permissive_nodes_use_tls(replica, tmp_path, authority):
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1, mode="permissive"))
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2, mode="permissive"))
    a.addresses.learn_hello(b.key, await b.listen())
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    async with asyncio.timeout(30):
        while b.requests.empty():
            assert a.failures.empty(), a.failures
            await asyncio.sleep(0.01)
    [link] = a.pool._links.values()
    assert link._connection.dialled.renew_in_s is not None


@pytest.mark.without(
    "tls.handshakes:_Arriving._look",
    'if self._tls.files.rules.mode == "required":',
    "if False:",
    "transport.peer_tls:PeerTls._refusal",
    "if self.is_permissive:",
    "if True:",
)
async def test_a_plain_node_does_not_reach_one_that_requires_tls(replica, tmp_path, authority):
    a = replica(1)
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2))
    a.addresses.learn_hello(b.key, await b.listen())
    await refused(a, b)
    assert set(b.tls_failures) == {("peer", "plaintext")}


async def test_a_node_that_requires_tls_does_not_speak_plain(replica, tmp_path, authority):
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1))
    b = replica(2)
    a.addresses.learn_hello(b.key, await b.listen())
    failure = await refused(a, b)
    assert failure.reason is FailureReason.UNREACHABLE
    assert a.tls_failures == [("dialled", "plaintext")]


@pytest.mark.without(
    "transport.link:Link._converse",
    "if old is not None and not self._awaits(old):",
    "if old is not None:",
)
async def test_a_renewed_connection_loses_no_request(replica, tmp_path, authority):
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1))
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2))
    a.addresses.learn_hello(b.key, await b.listen())
    async with asyncio.timeout(60):
        a.pool.send(b.key, fetch(a.key, 1), LONG_MS)
        _, _, first = await b.requests.get()
        [link] = a.pool._links.values()
        old = link._connection
        a.pool.renew()
        await until(lambda: link._connection is not old)
        a.pool.send(b.key, fetch(a.key, 2), LONG_MS)
        _, _, second = await b.requests.get()
        assert sum(b.server.connections.values()) == 2
        second(fetched(2))
        assert (await a.responses.get())[2].round_token == 2
        await asyncio.sleep(0.1)
        first(fetched(1))
        while a.responses.empty():
            assert a.failures.empty(), a.failures.get_nowait()
            await asyncio.sleep(0.01)
        assert a.responses.get_nowait()[2].round_token == 1
        await until(lambda: sum(b.server.connections.values()) == 1)
    assert a.pool.connected


async def test_a_connection_is_renewed_before_a_certificate_expires(replica, tmp_path, authority):
    short = files_of(tmp_path / "b", authority, 2, valid_for=dt.timedelta(seconds=12))
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1))
    b = replica(2, tls=short)
    a.addresses.learn_hello(b.key, await b.listen())
    await answered(a, b)
    [link] = a.pool._links.values()
    old = link._connection
    authority.issue(tmp_path / "b", uris=[f"{SPIFFE}/{CLUSTER}/node/2"])
    assert not await short.look()
    assert await short.look()
    await until(lambda: link._connection is not old)
    assert a.failures.empty()
    await answered(a, b)


async def test_a_renewal_that_fails_leaves_the_connection(replica, tmp_path, authority):
    files = files_of(tmp_path / "a", authority, 1)
    a = replica(1, tls=files)
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2))
    a.addresses.learn_hello(b.key, await b.listen())
    await answered(a, b)
    stranger = Authority()
    new = stranger.issue(tmp_path / "a", uris=[f"{SPIFFE}/{CLUSTER}/node/1"])
    new.ca.write_bytes(stranger.pem + authority.pem)
    assert not await files.look()
    assert await files.look()
    a.pool.renew()
    await until(lambda: b.tls_failures)
    assert set(b.tls_failures) == {("peer", "unknown_ca")}
    await answered(a, b)


@pytest.mark.without("transport.server:PeerServer._end_former", "!= self._trusted", "!= trusted")
async def test_a_connection_that_a_former_ca_verified_ends(replica, tmp_path, authority):
    settings = replace(PATIENT, trust_grace_ms=200)
    files = files_of(tmp_path / "b", authority, 2)
    a = replica(1, tls=files_of(tmp_path / "a", authority, 1))
    b = replica(2, tls=files, settings=settings)
    a.addresses.learn_hello(b.key, await b.listen())
    await answered(a, b)
    # A new certificate alone leaves connections as they are.
    authority.issue(tmp_path / "b", uris=[f"{SPIFFE}/{CLUSTER}/node/2"])
    assert not await files.look()
    assert await files.look()
    b.server.renew()
    await asyncio.sleep(0.5)
    assert a.pool.connected
    (tmp_path / "b" / "ca.crt").write_bytes(authority.pem + Authority().pem)
    assert not await files.look()
    assert await files.look()
    b.server.renew()
    with contextlib.suppress(TimeoutError):
        await until(lambda: not a.pool.connected, SOON_S)
    assert not a.pool.connected
    await answered(a, b)


@pytest.mark.without(
    "transport.server:PeerServer.handle", "self._verified_by(request)", "self._trusted"
)
async def test_a_connection_whose_request_came_after_the_ca_changed_ends_too(
    replica, tmp_path, authority
):
    """Its handshake was before, and so the former CA verified it."""
    files = files_of(tmp_path / "b", authority, 2)
    b = replica(2, tls=files, settings=replace(PATIENT, trust_grace_ms=200))
    at = await b.listen()
    client = files_of(tmp_path / "a", authority, 1).material.client
    reader, writer = await asyncio.open_connection(at.host, at.port, ssl=client)
    (tmp_path / "b" / "ca.crt").write_bytes(authority.pem + Authority().pem)
    assert not await files.look()
    assert await files.look()
    writer.write(
        b"GET /v1/peer HTTP/1.1\r\nHost: b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    ended = False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SOON_S):
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            b.server.renew()
            with contextlib.suppress(ConnectionError):
                while await reader.read(100):
                    pass
            ended = True
    writer.close()
    assert ended


@pytest.mark.without(
    "transport.link:Link._replace", "if self._has_outlived_its_ca(old):", "if False:"
)
async def test_a_dialled_connection_that_a_former_ca_verified_ends(replica, tmp_path, authority):
    """The other end still has a certificate of that CA, so the connection cannot be renewed."""
    files = files_of(tmp_path / "a", authority, 1)
    a = replica(1, tls=files, settings=replace(PATIENT, trust_grace_ms=0))
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2))
    a.addresses.learn_hello(b.key, await b.listen())
    await answered(a, b)
    Authority().issue(tmp_path / "a", uris=[f"{SPIFFE}/{CLUSTER}/node/1"])
    assert not await files.look()
    assert await files.look()
    a.pool.renew()
    with contextlib.suppress(TimeoutError):
        await until(lambda: not a.pool.connected, SOON_S)
    assert not a.pool.connected


class Slow(OpenGate):
    """Admits when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.opened = asyncio.Event()

    async def admit(self, _peer: Identity) -> None:
        self.asked.set()
        await self.opened.wait()


@pytest.mark.without("transport.link:Link._converse", "0 if is_former else ", "")
async def test_a_connection_that_is_made_while_the_cas_change_is_renewed(
    replica, tmp_path, authority
):
    files, gate = files_of(tmp_path / "a", authority, 1), Slow()
    a = replica(1, tls=files)
    b = replica(2, tls=files_of(tmp_path / "b", authority, 2), gate=gate)
    a.addresses.learn_hello(b.key, await b.listen())
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    async with asyncio.timeout(30):
        await gate.asked.wait()
    (tmp_path / "a" / "ca.crt").write_bytes(authority.pem + Authority().pem)
    assert not await files.look()
    assert await files.look()
    a.pool.renew()
    gate.opened.set()
    with contextlib.suppress(TimeoutError):
        await until(lambda: len(b.hellos) == 2, SOON_S)
    assert len(b.hellos) == 2
