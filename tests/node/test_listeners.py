"""Metrics and administration on listeners of their own, of real processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from raftnode.client import QuorumClient, RefusedError

METRICS_PORT, ADMIN_PORT = 9081, 9082


@pytest.fixture
async def quorum(tmp_path: Path, network: LoopbackNetwork) -> AsyncIterator[LocalQuorum]:
    async with LocalQuorum(tmp_path, 3, network) as made:
        for node in made.nodes:
            node.environment["RAFTNODE_METRICS_LISTEN"] = f"{node.host}:{METRICS_PORT}"
            node.environment["RAFTNODE_ADMIN_LISTEN"] = f"{node.host}:{ADMIN_PORT}"
        yield made


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


async def _alive(node: LocalNode) -> str | None:
    status, text = await get(node.host, METRICS_PORT, "/healthz/live")
    return text if status == 200 else None
