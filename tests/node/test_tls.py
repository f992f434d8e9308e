"""TLS of real nodes: what a quorum with it does, and what it refuses without changing anything."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proofkit.certificates import SPIFFE
from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.client import QuorumClient

pytestmark = [pytest.mark.timeout(300)]

CLUSTER_ID = "SecuredSecuredSecuredS"


def quorum_of(
    tmp_path: Path,
    network: LoopbackNetwork,
    request: pytest.FixtureRequest,
    settings: dict[str, str] | None = None,
    **options: Any,
) -> LocalQuorum:
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID, tokens=False, **options)
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    return LocalQuorum(
        tmp_path, 3, network, cache | (settings or {}), cluster_id=CLUSTER_ID, security=security
    )


@asynccontextmanager
async def load(client: QuorumClient, tasks: int = 4) -> AsyncGenerator[dict[str, bytes]]:
    """Writes without a pause; the failure of one fails the test. Each must be there at the end."""
    written: dict[str, bytes] = {}
    stop = asyncio.Event()

    async def work(task: int) -> None:
        number = 0
        while not stop.is_set():
            key, value = f"key-{task}-{number}", f"{number}".encode()
            await client.put(key, value, timeout_ms=30_000)
            written[key] = value
            number += 1

    async with asyncio.TaskGroup() as group:
        for task in range(tasks):
            group.create_task(work(task))
        yield written
        stop.set()
    for key, value in written.items():
        entry = await client.get(key)
        assert entry is not None, key
        assert entry.value == value


async def grows(written: dict[str, bytes], by: int = 50) -> None:
    end = len(written) + by

    async def look() -> bool | None:
        return len(written) >= end or None

    await eventually(look, what="writes")


async def metrics_of(quorum: LocalQuorum, node: LocalNode) -> dict[str, float]:
    assert quorum.security is not None
    credentials = quorum.security.credentials()
    context = ssl.create_default_context(cafile=str(credentials.ca_file))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://{node.api}/metrics", ssl=context) as answer,
    ):
        lines = (await answer.text()).splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def failures(listener: str, reason: str) -> str:
    return f'raftnode_tls_handshake_failures_total{{listener="{listener}",reason="{reason}"}}'


async def test_a_quorum_with_tls_shows_its_certificates_and_takes_writes(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    quorum = quorum_of(tmp_path, network, request)
    async with quorum:
        await quorum.form(3)
        await quorum.put("colour", b"blue")
        for node in quorum.nodes:
            peer, api = (await quorum.info(node)).certificates
            assert (peer.listener, api.listener) == ("peer", "api")
            assert peer.uri_names == (f"{SPIFFE}/{CLUSTER_ID}/node/{node.node_id}",)
            assert peer.problem is None
            assert len(peer.trusted_ca_sha256) == 1
            assert node.host in api.ip_addresses
            assert "localhost" in api.dns_names
        peer_port = socket.create_connection((quorum.nodes[0].host, quorum.nodes[0].peer.port))
        with peer_port:
            peer_port.sendall(b"GET /v1/peer HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert peer_port.recv(100) == b""
