"""How the operator reaches nodes with TLS: over real connections, by name, with its certificate."""

from __future__ import annotations

import gc
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kraftquorum_operator.clients.node_access import AccessFiles, NodeAccess
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import NodeUnreachableError
from kraftquorum_operator.execute.certificate_signing import (
    LeafNames,
    Pair,
    issue_leaf,
    make_authority,
)
from proofkit.loopback import LoopbackNetwork

CA = make_authority("ca", 10**6, time.time())
NAME = "demo-0.demo-peers.test.svc.cluster.local"


def issued(*hosts: str) -> Pair:
    names = LeafNames(
        "node", frozenset({"spiffe://kraftquorum/cluster/c/operator"}), frozenset(hosts)
    )
    return issue_leaf(CA, names, 10**5, time.time())


@asynccontextmanager
async def node(host: str, tmp_path: Path) -> AsyncIterator[tuple[str, list[object]]]:
    """A listener that answers its state, and notes the certificates of those who ask."""
    seen: list[object] = []

    async def state(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("peercert"))
        return web.json_response({"state": "here"})

    pair, ca = issued(NAME), tmp_path / "ca.crt"
    (tmp_path / "tls.pem").write_bytes(pair.certificate + pair.key)
    ca.write_bytes(CA.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.pem")
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    application = web.Application()
    application.router.add_get("/v1/node/state", state)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, host, 9080, ssl_context=context).start()
    try:
        yield f"{host}:9080", seen
    finally:
        await runner.cleanup()


async def test_it_presents_its_certificate_and_checks_the_pod_s_name(
    network: LoopbackNetwork, tmp_path: Path
) -> None:
    own = issued()
    access = NodeAccess(CA.certificate, own.certificate + own.key, NAME)
    other = NodeAccess(CA.certificate, own.certificate + own.key, "demo-1.demo-peers.test.svc")
    nodes = HttpNodes(5.0)
    async with node(network.host(1), tmp_path) as (address, seen):
        for quorum, wanted in (("test/demo", access), ("test/demo", other)):
            nodes.secure(quorum, {address: wanted})
            if wanted is access:
                assert await nodes.of("test/demo").state(address, "", 1.0) == "here"
            else:
                with pytest.raises(NodeUnreachableError):
                    await nodes.of("test/demo").state(address, "", 1.0)
        nodes.secure("test/demo", {})
        with pytest.raises(NodeUnreachableError):
            await nodes.of("test/demo").state(address, "", 1.0)
        assert len(seen) == 1
        assert "spiffe://kraftquorum/cluster/c/operator" in repr(seen[0])
        await nodes.close()


@pytest.mark.without(
    "kraftquorum_operator.clients.nodes:HttpNodes._access",
    "self._accesses.get(self._quorum, {}).get(address)",
    "next((a[address] for a in self._accesses.values() if address in a), None)",
)
async def test_a_quorum_at_an_address_that_another_had_gets_no_token_of_it(
    network: LoopbackNetwork,
) -> None:
    """A pod whose machine is down keeps its address in the API, and another may have it."""
    tokens: list[str | None] = []

    async def state(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization"))
        return web.json_response({"state": "here"})

    application = web.Application()
    application.router.add_get("/v1/node/state", state)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, network.host(1), 9080).start()
    nodes, address = HttpNodes(5.0), f"{network.host(1)}:9080"
    nodes.secure("test/old", {address: NodeAccess(token="of-the-old-quorum")})
    try:
        assert await nodes.of("test/new").state(address, "", 1.0) == "here"
        assert await nodes.of("test/old").state(address, "", 1.0) == "here"
    finally:
        await nodes.close()
        await runner.cleanup()
    assert tokens == [None, "Bearer of-the-old-quorum"]


def test_files_are_in_memory_and_go_with_their_client() -> None:
    own = issued()
    files = AccessFiles(NodeAccess(CA.certificate, own.certificate + own.key))
    path = files.credentials.certificate_file
    assert path is not None
    assert path.read_bytes() == own.certificate + own.key
    assert own.key.decode() not in repr(files.credentials)
    assert "PRIVATE" not in repr(NodeAccess(CA.certificate, own.certificate + own.key))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    del files
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors - 2
