"""Real processes that reach each other and are reached by IPv6 only, and by both families.

The machine has one IPv6 loopback address, so each node takes free ports instead of an address.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.model.observation import Pod
from kraftquorum_operator.observe.quorum import Silence, ask_leader, ask_nodes, read_quorum
from proofkit.localquorum import CLUSTER_ID, LocalNode, eventually
from proofkit.loopback import LoopbackNetwork
from raftnode.api.model import FormRequest, NodeInfo, VoterSpec
from raftnode.client import QuorumClient
from raftnode.core.types import Endpoint


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")


def node_at(
    number: int, listen: str, root: Path, network: LoopbackNetwork, cache: Path, **more: str
) -> LocalNode:
    directory = root / f"node-{number}"
    environment = {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(cache),
        "RAFTNODE_NODE_ID": str(number),
        "RAFTNODE_LOG_DIR": str(directory),
        "RAFTNODE_PEER_LISTEN": listen,
        "RAFTNODE_API_LISTEN": listen,
        "TERMINATION_LOG": str(directory.with_suffix(".termination")),
        **more,
    }
    return LocalNode(number, "::1", directory, environment, network)


async def listening(node: LocalNode) -> Endpoint:
    """Where a node's API listens, by its log."""

    async def look() -> Endpoint | None:
        for line in node.output().splitlines():
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if told.get("event") == "listener_started" and told["what"] == "api_listen":
                return Endpoint.parse(told["endpoint"])
        assert node.process is not None
        assert node.process.poll() is None, node.output()
        return None

    return await eventually(look, what="a node that listens")


@asynccontextmanager
async def running(*nodes: LocalNode) -> AsyncGenerator[list[Endpoint]]:
    try:
        for node in nodes:
            node.start()
        yield [await listening(node) for node in nodes]
    finally:
        for node in nodes:
            node.kill()


async def test_a_quorum_forms_writes_and_fails_over_by_ipv6_alone(
    tmp_path: Path, network: LoopbackNetwork, pytestconfig: pytest.Config
) -> None:
    cache = pytestconfig.rootpath / ".hypothesis"
    nodes = [node_at(n, "[::1]:0", tmp_path, network, cache) for n in range(3)]
    async with running(*nodes) as apis, QuorumClient(apis) as client:
        found = [await client.describe_node(api) for api in apis]
        assert all(info.peer_endpoint.startswith("[::1]:") for info in found)
        assert [info.api_endpoint for info in found] == [str(api) for api in apis]
        voters = tuple(
            VoterSpec(
                node_id=info.node_id, directory_id=info.directory_id, endpoint=info.peer_endpoint
            )
            for info in found
        )
        for api in apis:
            await client.form(api, FormRequest(cluster_id=CLUSTER_ID, voters=voters))
        await eventually(lambda: client.put("before", b"1"), what="a write")
        described = await client.describe_quorum(confirmed=True)
        assert [voter.endpoint for voter in described.voters] == [v.endpoint for v in voters]
        nodes[described.leader.node_id].kill()
        await eventually(lambda: client.put("after", b"2"), what="a write to the next leader")
        value = await client.get("before")
        assert value is not None
        assert value.value == b"1"


async def test_the_operator_looks_at_a_replica_of_an_ipv6_only_pod(
    tmp_path: Path,
    network: LoopbackNetwork,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the pod's address and port, which an URL takes in brackets only."""
    cache = pytestconfig.rootpath / ".hypothesis"
    advertised = {"RAFTNODE_PEER_ADVERTISED": "demo-0.demo-peers.test.svc.cluster.local:9093"}
    node = node_at(0, "[::1]:0", tmp_path, network, cache, **advertised)
    async with running(node) as (api,), QuorumClient([api]) as client:
        monkeypatch.setattr("kraftquorum_operator.names.API_PORT", api.port)
        info = await client.describe_node(api)
        own = VoterSpec(node_id=0, directory_id=info.directory_id, endpoint=info.peer_endpoint)
        await client.form(api, FormRequest(cluster_id=CLUSTER_ID, voters=(own,)))
        await eventually(lambda: client.put("key", b"1"), what="a write")
        pods = [Pod(name="demo-0", uid="u", ordinal=0, address="::1")]
        nodes = HttpNodes(60.0)
        try:
            infos = await ask_nodes(nodes, pods, "demo-peers.test.svc.cluster.local")
            assert infos[0].directory_id == info.directory_id
            leader = await ask_leader(nodes, pods, infos)
        finally:
            await nodes.close()
        assert leader is not None
        assert read_quorum(leader, Silence(), 0).confirmed


async def test_a_node_on_every_address_is_reached_by_both_families(
    tmp_path: Path, network: LoopbackNetwork, pytestconfig: pytest.Config
) -> None:
    """`kubectl port-forward` connects to a pod's localhost, which has both in most clusters."""
    cache = pytestconfig.rootpath / ".hypothesis"
    node = node_at(0, "[::]:0", tmp_path, network, cache)
    async with running(node) as (api,):
        assert api.host == "::"
        seen: list[NodeInfo] = []
        for host in ("127.0.0.1", "::1"):
            at = Endpoint(host, api.port)
            async with QuorumClient([at]) as client:
                seen.append(await client.describe_node(at))
        assert seen[0].directory_id == seen[1].directory_id
        assert seen[0].api_endpoint == f"{socket.gethostname()}:{api.port}"
