"""Peers whose names DNS does not know yet: no node ends, none floods its log, all go on then."""

import asyncio

import pytest

from proofkit.localquorum import CLUSTER_ID, PEER_PORT, LocalQuorum
from raftnode.api.model import FormRequest, VoterSpec

pytestmark = pytest.mark.timeout(300)

NAMELESS_S = 3.0
LINES_MAX = 40


def name(node_id: int) -> str:
    return f"demo-{node_id}.peers.invalid"  # RFC 6761: no DNS ever knows it


async def test_nodes_wait_for_names_quietly_and_elect_a_leader_once_they_are_there(
    tmp_path, network, request
):
    hosts = tmp_path / "hosts"
    hosts.write_text("")
    peers = ",".join(f"{name(n)}:{PEER_PORT}" for n in range(3))
    settings = {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis"),
        "KRAFTQUORUM_HOSTS_FILE": str(hosts),
        "RAFTNODE_BOOTSTRAP_SERVERS": peers,
    }
    async with LocalQuorum(tmp_path, 3, network, settings) as quorum:
        for node in quorum.nodes:
            node.environment["RAFTNODE_PEER_ADVERTISED"] = f"{name(node.node_id)}:{PEER_PORT}"
            node.start()
        found = await quorum.wait_running(quorum.nodes)
        voters = tuple(
            VoterSpec(
                node_id=info.node_id, directory_id=info.directory_id, endpoint=info.peer_endpoint
            )
            for info in found
        )
        assert {voter.endpoint for voter in voters} == set(peers.split(","))
        for node in quorum.nodes:
            await quorum.client.form(node.api, FormRequest(cluster_id=CLUSTER_ID, voters=voters))
        await asyncio.sleep(NAMELESS_S)
        for info in await quorum.wait_running(quorum.nodes):
            assert info.leader is None
        for node in quorum.nodes:
            lines = node.output().splitlines()
            assert len(lines) < LINES_MAX, "\n".join(lines)
        hosts.write_text("".join(f"{node.host} {name(node.node_id)}\n" for node in quorum.nodes))
        await quorum.leader()
