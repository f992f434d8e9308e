"""Metrics and administration on listeners of their own, of real processes."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.client import ClientError, Credentials, QuorumClient, RefusedError

METRICS_PORT, ADMIN_PORT = 9081, 9082
CLUSTER_ID = "ListenersListenersList"


@pytest.fixture
async def quorum(tmp_path: Path, network: LoopbackNetwork) -> AsyncIterator[LocalQuorum]:
    async with LocalQuorum(tmp_path, 3, network) as made:
        set_apart(made)
        yield made


@pytest.fixture
async def secured(tmp_path: Path, network: LoopbackNetwork) -> AsyncIterator[LocalQuorum]:
    """With TLS and an access file; `security` has a subject for each kind of client."""
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID)
    security.grant("prometheus", "metrics")
    security.grant("shop", "read", "write")
    security.grant("voters", "admin")
    async with LocalQuorum(tmp_path, 3, network, cluster_id=CLUSTER_ID, security=security) as made:
        set_apart(made)
        yield made


def set_apart(quorum: LocalQuorum) -> None:
    for node in quorum.nodes:
        node.environment["RAFTNODE_METRICS_LISTEN"] = f"{node.host}:{METRICS_PORT}"
        node.environment["RAFTNODE_ADMIN_LISTEN"] = f"{node.host}:{ADMIN_PORT}"


async def get(host: str, port: int, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{host}:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_a_quorum_forms_serves_and_changes_its_leader_with_all_listeners_apart(
    quorum: LocalQuorum,
) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    await quorum.client.put("a", b"1")

    # Administration: refused by the client listener, before anything happens.
    with pytest.raises(RefusedError, match=rf"WRONG_LISTENER.*{leader.host}:{ADMIN_PORT}"):
        await quorum.client.resign_node(leader.api)
    assert (await quorum.leader()).node_id == leader.node_id
    async with QuorumClient([node.admin for node in quorum.nodes]) as admin:
        await admin.resign()

    async def moved() -> LocalNode | None:
        now = await quorum.leader()
        return now if now.node_id != leader.node_id else None

    await eventually(moved, what="another leader")
    assert await quorum.client.get("a") is not None

    # Metrics: on their port, with the connections of each listener, and nothing else there.
    status, text = await get(leader.host, METRICS_PORT, "/metrics")
    assert status == 200
    for listener in ("api", "admin", "metrics"):
        assert f'raftnode_client_connections{{listener="{listener}"}}' in text
        assert f'raftnode_client_refusals_total{{limit="head_time",listener="{listener}"}}' in text
    assert (await get(leader.host, METRICS_PORT, "/healthz/ready"))[0] == 200
    for path in ("/v1/node", "/v1/kv/a", "/v1/log", "/v1/quorum"):
        assert (await get(leader.host, METRICS_PORT, path))[0] == 403
    assert (await get(leader.host, 9080, "/metrics"))[0] == 403
    assert (await get(leader.host, ADMIN_PORT, "/v1/kv/a"))[0] == 403


async def test_the_hook_before_a_stop_finds_the_admin_listener(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    hook = await asyncio.create_subprocess_exec(
        leader.command[0],
        "node",
        "transfer-leadership",
        "--timeout-ms=20000",
        env={**os.environ, **leader.environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await hook.communicate()
    assert hook.returncode == 0, output


async def test_a_flood_of_the_metrics_listener_takes_no_connection_of_clients(
    quorum: LocalQuorum,
) -> None:
    """Each listener has limits of its own: 300 connections that wait are too many for this one."""
    await quorum.form(1)
    leader = await quorum.leader()
    idle = [await asyncio.open_connection(leader.host, METRICS_PORT) for _ in range(300)]
    try:
        await quorum.client.put("b", b"2")
        status, text = await get(leader.host, 9080, "/v1/kv/b")
        assert status == 200, text
    finally:
        for _, writer in idle:
            writer.transport.abort()

    async def counted() -> str | None:
        _, text = await get(leader.host, METRICS_PORT, "/metrics")
        lines = [line for line in text.splitlines() if "refusals_total{" in line]
        refused = [line for line in lines if not line.endswith(" 0.0")]
        return refused[0] if refused else None

    refused = await eventually(counted, what="refusals counted")
    assert 'listener="metrics"' in refused


async def test_a_node_with_a_damaged_disk_answers_the_probes_on_the_metrics_listener(
    quorum: LocalQuorum,
) -> None:
    node = quorum.nodes[0]
    node.start()
    await eventually(lambda: _alive(node), what="alive")
    node.kill()
    next(node.directory.rglob("meta.properties")).write_text("damaged")
    node.environment["RAFTNODE_DAMAGE_REPORT_MS"] = "30000"
    node.start()
    text = await eventually(lambda: _alive(node), what="the damage on the metrics listener")
    assert "damaged" in text
    status, text = await get(node.host, METRICS_PORT, "/metrics")
    assert status == 200
    assert "raftnode_storage_damaged 1.0" in text


async def ask(
    quorum: LocalQuorum, address: str, path: str, subject: str | None, method: str = "GET"
) -> tuple[int, str]:
    """A request over TLS as Prometheus and curl send it; the error's name if it is refused."""
    assert quorum.security is not None
    files = quorum.security.credentials(subject or "shop")
    context = ssl.create_default_context(cafile=files.ca_file)
    headers = {}
    if subject is not None:
        assert files.token_file is not None
        headers["Authorization"] = f"Bearer {files.token_file.read_text()}"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, f"https://{address}{path}", json={}, ssl=context) as answer,
    ):
        text = await answer.text()
        return answer.status, json.loads(text)["error"] if answer.status >= 400 else text


async def test_with_tls_and_access_each_listener_asks_for_its_role(secured: LocalQuorum) -> None:
    await secured.form(3)
    leader = await secured.leader()
    api, metrics, admin = (f"{leader.host}:{port}" for port in (9080, METRICS_PORT, ADMIN_PORT))
    await secured.client.put("a", b"1")

    # As Prometheus scrapes: the CA, the name of the certificate and a token of the role.
    status, text = await ask(secured, metrics, "/metrics", "prometheus")
    assert status == 200
    for listener in ("api", "admin", "metrics"):
        assert f'raftnode_client_connections{{listener="{listener}"}}' in text
    for subject, refused in (
        (None, (401, "AUTHENTICATION_FAILED")),
        ("shop", (403, "AUTHORIZATION_FAILED")),
        ("voters", (403, "AUTHORIZATION_FAILED")),
    ):
        assert await ask(secured, metrics, "/metrics", subject) == refused
    assert (await ask(secured, metrics, "/healthz/ready", None))[0] == 200
    wrong = (403, "WRONG_LISTENER")
    assert await ask(secured, api, "/metrics", "prometheus") == wrong
    assert await ask(secured, metrics, "/v1/kv/a", "shop") == wrong

    # Administration: the role and the listener, and nothing changes without both.
    for subject, address, refused in (
        ("voters", api, wrong),
        ("voters", metrics, wrong),
        ("shop", admin, (403, "AUTHORIZATION_FAILED")),
        ("prometheus", admin, (403, "AUTHORIZATION_FAILED")),
        (None, admin, (401, "AUTHENTICATION_FAILED")),
    ):
        assert await ask(secured, address, "/v1/quorum/resign", subject, "POST") == refused
    assert (await secured.leader()).node_id == leader.node_id

    # Plain connections are closed by all three.
    for port in (9080, METRICS_PORT, ADMIN_PORT):
        with pytest.raises(aiohttp.ClientError):
            await get(leader.host, port, "/healthz/live")
    files = secured.security.credentials("voters") if secured.security else Credentials()
    plain = Credentials(token_file=files.token_file, plaintext_token=True)
    admins = [node.admin for node in secured.nodes]
    async with QuorumClient(admins, credentials=plain, timeout_ms=2000) as client:
        with pytest.raises(ClientError):
            await client.resign()
    assert (await secured.leader()).node_id == leader.node_id
    async with QuorumClient(admins, credentials=files) as client:
        await client.resign()

    async def moved() -> LocalNode | None:
        now = await secured.leader()
        return now if now.node_id != leader.node_id else None

    await eventually(moved, what="another leader")


async def test_the_metrics_listener_takes_a_new_certificate_and_no_scrape_fails(
    secured: LocalQuorum,
) -> None:
    await secured.form(1)
    node, security = secured.nodes[0], secured.security
    assert security is not None
    serials: set[int] = set()

    async def serial() -> int:
        context = ssl.create_default_context(cafile=security.credentials("prometheus").ca_file)
        _, writer = await asyncio.open_connection(node.host, METRICS_PORT, ssl=context)
        try:
            certificate = writer.get_extra_info("peercert")
            return int(certificate["serialNumber"], 16)
        finally:
            writer.close()

    serials.add(await serial())
    security.issue_node(0, [node.host, "localhost"])

    async def renewed() -> bool | None:
        scrape = await ask(secured, f"{node.host}:{METRICS_PORT}", "/metrics", "prometheus")
        assert scrape[0] == 200
        return await serial() not in serials or None

    await eventually(renewed, what="the new certificate on the metrics listener")


async def _alive(node: LocalNode) -> str | None:
    status, text = await get(node.host, METRICS_PORT, "/healthz/live")
    return text if status == 200 else None
