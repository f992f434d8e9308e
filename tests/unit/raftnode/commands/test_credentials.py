"""Commands against a node with TLS and tokens: by flags, by the environment, and what they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from commandtree import commands_of
from proofkit.certificates import Authority, CertificateFiles, replace_file
from proofkit.guardednode import CLUSTER_ID, GuardedNode, guarded_node
from raftnode.cli import make_app
from raftnode.commands.output import CommandExitCode
from raftnode.errors import ExitCode

TOKEN = "t0ken-91c4-s3cr3t"
FLAGS = (
    "--ca-file",
    "--certificate-file",
    "--key-file",
    "--token-file",
    "--server-name",
    "--plaintext-token",
    "--cluster-id",
)


def test_every_command_that_asks_a_node_takes_credentials_by_flag_and_by_environment():
    asking = {
        path: options
        for path, options in commands_of(make_app()).items()
        if {"--timeout-ms", "--hosts-file"} <= options.keys()
    }
    assert len(asking) == 13
    for path, options in asking.items():
        for flag in FLAGS:
            assert flag in options, f"{path} {flag}"
            variable = f"RAFTNODE_CLIENT_{flag.removeprefix('--').replace('-', '_').upper()}"
            assert options[flag].envvar == variable


@pytest.fixture
def server(tmp_path: Path) -> CertificateFiles:
    return Authority("nodes").issue(tmp_path / "node", hosts=["127.0.0.1"])


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    replace_file(path, f"{TOKEN}\n".encode())
    return path


async def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    """Run a command as a process would, in a thread with a loop of its own."""
    return await asyncio.to_thread(
        CliRunner().invoke, make_app(), [str(part) for part in arguments], env=env
    )


async def test_flags_reach_a_node_with_tls_client_certificates_and_tokens(
    server: CertificateFiles, token: Path, tmp_path: Path
):
    apps = Authority("apps")
    app = apps.issue(tmp_path / "app", common_name="app")
    async with guarded_node(server.server_context(clients=apps), {TOKEN}) as node:
        flags = [
            *("--bootstrap-server", f"https://{node.at}", "--ca-file", str(server.ca)),
            *("--certificate-file", str(app.certificate), "--key-file", str(app.key)),
            *("--token-file", str(token), "--cluster-id", CLUSTER_ID),
        ]
        result = await run("kv", "put", "colour", "blue", *flags)
        assert result.exit_code == 0, result.output
        result = await run("kv", "get", "colour", *flags)
        assert (result.exit_code, result.stdout) == (0, "blue")
        result = await run("metadata-quorum", *flags, "--describe", "replication")
        assert result.exit_code == 0, result.output
        assert all(given == TOKEN for _, _, given in node.requests)


async def test_the_environment_reaches_it_too(server: CertificateFiles, token: Path):
    async with guarded_node(server.server_context(), {TOKEN}) as node:
        env = environment(node, server, token)
        result = await run("log", "append", "one", env=env)
        assert result.exit_code == 0, result.output
        result = await run("node", "transfer-leadership", "--api", str(node.at), env=env)
        assert result.exit_code == 0, result.output
        assert "only voter" in result.stdout


def environment(node: GuardedNode, server: CertificateFiles, token: Path) -> dict[str, str]:
    return {
        "RAFTNODE_BOOTSTRAP_SERVER": str(node.at),
        "RAFTNODE_CLIENT_CA_FILE": str(server.ca),
        "RAFTNODE_CLIENT_TOKEN_FILE": str(token),
        "RAFTNODE_CLIENT_CLUSTER_ID": CLUSTER_ID,
    }


async def test_a_pods_hook_reaches_its_own_node_by_the_name_of_its_certificate(
    token: Path, tmp_path: Path
):
    server = Authority().issue(tmp_path / "pod", hosts=["demo-0.demo.ns.svc"])
    async with guarded_node(server.server_context(), {TOKEN}) as node:
        env = environment(node, server, token)
        result = await run("node", "transfer-leadership", "--api", str(node.at), env=env)
        assert result.exit_code == CommandExitCode.UNAVAILABLE
        assert "its certificate is not for 127.0.0.1" in result.stderr
        env["RAFTNODE_CLIENT_SERVER_NAME"] = "demo-0.demo.ns.svc"
        result = await run("node", "transfer-leadership", "--api", str(node.at), env=env)
        assert result.exit_code == 0, result.output


async def test_each_refusal_has_its_code_and_its_words(
    server: CertificateFiles, token: Path, tmp_path: Path
):
    async with guarded_node(server.server_context(), {TOKEN}) as node:
        env = environment(node, server, token)
        unknown = tmp_path / "unknown"
        replace_file(unknown, b"unknown")
        node.readers.add(TOKEN)
        for variables, name in (
            ({}, "AUTHORIZATION_FAILED"),
            ({"RAFTNODE_CLIENT_TOKEN_FILE": str(unknown)}, "AUTHENTICATION_FAILED"),
            ({"RAFTNODE_CLIENT_CLUSTER_ID": "Other"}, "INCONSISTENT_CLUSTER_ID"),
        ):
            if name == "INCONSISTENT_CLUSTER_ID":
                node.readers.clear()
            upgrade = ("metadata-quorum", "upgrade", "--raft-version", "2")
            result = await run(*upgrade, env={**env, **variables})
            assert result.exit_code == CommandExitCode.REFUSED, (name, result.output)
            assert name in result.stderr
        other = Authority().issue(tmp_path / "other", common_name="x").ca
        result = await run(
            *("kv", "get", "a", "--timeout-ms", "300"),
            env={**env, "RAFTNODE_CLIENT_CA_FILE": str(other)},
        )
        assert result.exit_code == CommandExitCode.UNAVAILABLE
        assert "of an unknown CA" in result.stderr
        assert TOKEN not in result.output


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--token-file", "TOKEN"], "--token-file is given without --ca-file"),
        (["--key-file", "TOKEN"], "--key-file is given without --certificate-file"),
        (["--certificate-file", "TOKEN"], "a client certificate needs TLS"),
        (["--cluster-id", "no id"], "--cluster-id is 'no id'"),
        (["--ca-file", "ABSENT"], "No such file or directory"),
        (["--ca-file", "TOKEN"], "it has no PEM certificate"),
        (["--bootstrap-server", "https://a:1,b:2"], "--bootstrap-server: some addresses"),
        (["--bootstrap-server", "http://a:1", "--ca-file", "CA"], "http:// and --ca-file"),
        (["--server-name", "demo"], "--server-name is given without --ca-file"),
    ],
)
async def test_flags_that_cannot_work_are_a_fault_of_usage(
    flags: list[str], reason: str, server: CertificateFiles, token: Path
):
    files = {"TOKEN": str(token), "ABSENT": "/absent", "CA": str(server.ca)}
    result = await run("kv", "get", "a", *(files.get(flag, flag) for flag in flags))
    assert result.exit_code == ExitCode.USAGE
    assert reason in result.stderr
    assert TOKEN not in result.output


async def test_a_token_goes_over_plain_http_if_the_user_says_so(token: Path):
    async with guarded_node(tokens={TOKEN}) as node:
        at = ("--bootstrap-server", str(node.at), "--token-file", str(token))
        result = await run("kv", "put", "a", "b", *at, "--plaintext-token")
        assert result.exit_code == 0, result.output
