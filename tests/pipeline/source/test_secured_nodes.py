"""The log from nodes with TLS, client certificates and tokens, without Spark."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from kraftquorum_pipeline.errors import (
    ClusterIdError,
    DeniedError,
    OptionError,
    PipelineExitCode,
    UnreachableError,
)
from kraftquorum_pipeline.jobs.restore import look
from kraftquorum_pipeline.source.nodes import NodeLog
from kraftquorum_pipeline.source.options import parse_options
from proofkit.certificates import Authority, CertificateFiles, replace_file
from proofkit.guardednode import GuardedNode, guarded_node
from raftnode.client import Credentials, QuorumClient, RefusedError

TOKEN = "t0ken-73aa"


@pytest.fixture
def server(tmp_path: Path) -> CertificateFiles:
    return Authority("nodes").issue(tmp_path / "node", hosts=["127.0.0.1"])


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    replace_file(path, TOKEN.encode())
    return path


@asynccontextmanager
async def secured(server: CertificateFiles, token: Path) -> AsyncIterator[GuardedNode]:
    """A node with 20 keys that only the token's subject reads."""
    async with guarded_node(server.server_context(), {TOKEN}) as node:
        credentials = Credentials(ca_file=server.ca, token_file=token)
        async with QuorumClient([node.at], credentials=credentials) as client:
            for number in range(20):
                await client.put(f"key-{number}", b"value")
        node.requests.clear()
        yield node


def options_of(node: GuardedNode, server: CertificateFiles, token: Path, **more: str):
    return {
        "bootstrapServers": f"https://{node.at}",
        "caFile": str(server.ca),
        "tokenFile": str(token),
        "timeoutMs": "20000",
        **more,
    }


def read(options: dict[str, str]) -> pa.Table:
    log = NodeLog(parse_options(options))
    state = log.look()
    parts = pickle.loads(pickle.dumps(log.parts(0, state.end)))  # they go to the executors
    return pa.Table.from_batches([batch for part in parts for batch in part.read()])


def test_records_are_read_over_tls_with_a_token(server: CertificateFiles, token: Path):
    async def work() -> None:
        async with secured(server, token) as node:
            table = await asyncio.to_thread(read, options_of(node, server, token))
            keys = [key for key in table["key"].to_pylist() if key is not None]
            assert [key.decode() for key in keys] == [f"key-{number}" for number in range(20)]
            assert {given for _, _, given in node.requests} == {TOKEN}

    asyncio.run(work())


def test_credentials_that_are_refused_are_reported_at_once(
    server: CertificateFiles, token: Path, tmp_path: Path
):
    unknown = tmp_path / "unknown"
    unknown.write_bytes(b"unknown")
    other = Authority().issue(tmp_path / "other", common_name="x").ca

    async def work() -> None:
        async with secured(server, token) as node:
            for change, error, words in (
                ({"tokenFile": str(unknown)}, DeniedError, "AUTHENTICATION_FAILED"),
                ({"caFile": str(other), "timeoutMs": "500"}, UnreachableError, "unknown CA"),
                ({"caFile": "/absent"}, OptionError, "No such file"),
            ):
                options = options_of(node, server, token, **change)
                with pytest.raises(error, match=words) as caught:
                    async with asyncio.timeout(15):
                        await asyncio.to_thread(read, options)
                assert TOKEN not in str(caught.value)
            assert DeniedError.exit_code is PipelineExitCode.DENIED

    asyncio.run(work())


def test_another_cluster_is_refused(server: CertificateFiles, token: Path):
    async def work() -> None:
        async with secured(server, token) as node:
            options = options_of(node, server, token, clusterId="Other")
            with pytest.raises(ClusterIdError):
                await asyncio.to_thread(read, options)

    asyncio.run(work())


def test_the_comparison_with_a_running_quorum_takes_credentials(
    server: CertificateFiles, token: Path
):
    async def work() -> None:
        async with secured(server, token) as node:
            credentials = Credentials(ca_file=server.ca, token_file=token)
            living = await look([node.at], None, 0, (), credentials=credentials)
            assert len(living.listed) == 20
            with pytest.raises(RefusedError, match="AUTHENTICATION_FAILED"):
                await look([node.at], None, 0, (), credentials=Credentials(ca_file=server.ca))

    asyncio.run(work())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tokenFile": "/t"}, "tokenFile is given without caFile"),
        ({"keyFile": "/k", "caFile": "/c"}, "keyFile is given without certificateFile"),
        ({"plaintextToken": "yes"}, "plaintextToken is 'yes'; allowed are false, true"),
        ({"bootstrapServers": "https://a:1,b:2"}, "bootstrapServers: some addresses"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, str], reason: str):
    with pytest.raises(OptionError, match=reason):
        parse_options({"bootstrapServers": "a:1", **options})
