"""The operations on the voters over HTTP: each asks the service what its body says."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api.server import ApiServer, make_app
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, format_directory_id

ROUTES = "api.quorum_routes:quorum_routes"
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2 << 64 | 7))
REPLICA = {"node_id": 2, "directory_id": format_directory_id(OTHER.directory_id)}


class Http:
    """A client of one server; answers are a status and a body."""

    def __init__(self, session: aiohttp.ClientSession, where: Endpoint) -> None:
        self._session, self._where = session, where

    async def __call__(self, method: str, path: str, **body: object) -> tuple[int, dict]:
        data = {"data": json.dumps(body), "headers": {"Content-Type": "application/json"}}
        url = f"http://{self._where}{path}"
        async with self._session.request(method, url, **(data if body else {})) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def served(service: MemoryService) -> AsyncIterator[Http]:
    """Serve it, with routes that are made now."""
    server = ApiServer(
        make_app(service, registry=CollectorRegistry(), version="1"), shutdown_grace_ms=0
    )
    where = await server.start(Endpoint("127.0.0.1", 0))
    try:
        async with aiohttp.ClientSession() as session:
            yield Http(session, where)
    finally:
        await server.stop()


@pytest.mark.rule("P26")
@pytest.mark.without(ROUTES, "confirmed=query.confirmed", "confirmed=False")
async def test_the_quorum_is_described_and_confirmed_when_asked() -> None:
    service = MemoryService()
    service.observe_replica(OTHER)
    async with served(service) as http:
        for asked, confirmed in (("", False), ("?confirmed=true", True)):
            status, found = await http("GET", f"/v1/quorum{asked}")
            wanted = await service.describe_quorum(confirmed=confirmed, timeout_ms=1000)
            assert (status, found) == (200, wanted.model_dump(mode="json"))
            assert found["confirmed"] is confirmed
            assert [one["node_id"] for one in found["observers"]] == [2]


@pytest.mark.rule("P28", "P30", "P33", "P35", "P56")
@pytest.mark.without(ROUTES, "service.add_voter(body)", "service.remove_voter(body)")
@pytest.mark.without(ROUTES, "await service.remove_voter(body)", "service.describe_node()")
@pytest.mark.without(ROUTES, "await service.reassign(body)", "service.describe_node()")
@pytest.mark.without(ROUTES, "await service.upgrade(body)", "service.describe_node()")
async def test_voters_and_versions_change_as_the_bodies_say() -> None:
    service = MemoryService()
    service.observe_replica(OTHER)
    async with served(service) as http:

        async def record(name: str) -> object:
            return (await http("GET", "/v1/quorum"))[1][name]

        before = await record("voter_record")
        status, added = await http("POST", "/v1/quorum/voters", voter=REPLICA, expected=before)
        assert (status, [one["node_id"] for one in added.get("voters", [])]) == (200, [1, 2])
        before = await record("voter_record")
        status, removed = await http(
            "POST", "/v1/quorum/voters/remove", voter=REPLICA, expected=before
        )
        assert (status, [one["node_id"] for one in removed.get("voters", [])]) == (200, [1])
        before = await record("assignment_record")
        status, accepted = await http(
            "POST", "/v1/quorum/reassignment", targets=[{"node_id": 1}], expected=before
        )
        assert (status, "target_voters" in accepted) == (200, True)
        status, raised = await http("POST", "/v1/quorum/raft-version", raft_version=2)
        assert (status, raised.get("raft_version")) == (200, 2)
