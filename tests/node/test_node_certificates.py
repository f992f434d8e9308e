"""A node's own certificate at the API: its hook makes that node resign, and nothing else passes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.client import Credentials, QuorumClient, RefusedError

pytestmark = pytest.mark.timeout(300)

CLUSTER_ID = "NodeCertNodeCertNodeCA"


def refusals(node: LocalNode) -> list[Any]:
    """The refusals in the audit log."""
    return [line for line in node.audited() if line.get("error")]


async def run_hook(node: LocalNode, files: Path) -> tuple[int, str]:
    """Run the hook with the environment that the operator gives to a node's container."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("raftnode")),
        "node",
        "transfer-leadership",
        env={
            **os.environ,
            **node.environment,
            "RAFTNODE_CLIENT_CERTIFICATE_FILE": str(files / "tls.crt"),
            "RAFTNODE_CLIENT_KEY_FILE": str(files / "tls.key"),
            "RAFTNODE_CLIENT_CA_FILE": str(files / "ca.crt"),
            "RAFTNODE_CLIENT_SERVER_NAME": "localhost",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_a_nodes_certificate_makes_that_node_resign_and_nothing_else(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID, client_certificates=True)
    both = security.client_ca.read_bytes() + security.authority.pem
    security.client_ca.write_bytes(both)
    settings = {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis"),
        "RAFTNODE_API_TLS_CLIENT_CERTIFICATES": "required",
        "RAFTNODE_FETCH_TIMEOUT_MS": "10000",
    }
    async with LocalQuorum(
        tmp_path, 3, network, settings, cluster_id=CLUSTER_ID, security=security
    ) as quorum:
        before = await quorum.form(3)
        leader = await quorum.leader()
        own = security.node_directory(leader.node_id)
        follower = next(node for node in quorum.nodes[:3] if node is not leader)

        def client_of(node: LocalNode) -> QuorumClient:
            files = security.node_directory(node.node_id)
            credentials = Credentials(
                ca_file=files / "ca.crt",
                certificate_file=files / "tls.crt",
                key_file=files / "tls.key",
            )
            return QuorumClient([leader.api], credentials=credentials)

        async with client_of(leader) as client:
            for refused in (
                client.put("key", b"1"),
                client.get("key"),
                client.remove_voter(before.voters[0], before.voter_record),
            ):
                with pytest.raises(RefusedError, match="AUTHORIZATION_FAILED"):
                    await refused
        async with client_of(follower) as client:
            with pytest.raises(RefusedError, match="AUTHENTICATION_FAILED"):
                await client.resign_node(leader.api)
        after = await quorum.describe()
        assert (after.epoch, after.voter_record) == (before.epoch, before.voter_record)

        async def has_both() -> bool | None:  # the log is written on a thread
            ways = {line["authenticated_by"] for line in refusals(leader)}
            return ways >= {"node", "certificate"} or None

        await eventually(has_both, what="lines of both callers")

        code, said = await run_hook(leader, own)
        assert code == 0, said
        assert "transferred leadership to" in said
        assert (await quorum.describe()).voter_record == before.voter_record
