"""No secret of a client or of the settings is in what a node writes, answers or shows."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from proofkit.accounttokens import AccountIssuer, write_keys
from proofkit.localquorum import LocalNode, LocalQuorum
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.settings import NodeSettings

pytestmark = pytest.mark.timeout(120)

SECRET = "Zm9yYmlkZGVuLXNlY3JldA"
"""What a client sends as its token, and what a file of the settings holds."""

AUTHORIZATION = f"Authorization: Bearer {SECRET}"
NOT_SECRET = frozenset({"hosts_file", "audit_log_file", "hosts_files"})

HEADS = (
    f"GET /nothing HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}\r\n\r\n",
    f"POST /metrics HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}\r\n\r\n",
    f"GET /v1/log?offset=x&token={SECRET} HTTP/1.1\r\nHost: node\r\n\r\n",
    f"GET /v1/kv/key?{SECRET}=1 HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}\r\n\r\n",
    f"GET /metrics?token={SECRET} HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}\r\n\r\n",
    f"PUT /v1/kv/key HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}\x01\r\n\r\n",
    f"PUT /v1/kv/key HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}{'x' * 9000}\r\n\r\n",
    f"PUT /v1/kv/key HTTP/1.1\r\nHost: node\r\n {AUTHORIZATION}\r\n\r\n",
    f"{AUTHORIZATION}\r\n\r\n",
    f"GET /v1/session HTTP/1.1\r\nHost: node\r\n{AUTHORIZATION}\r\nUpgrade: websocket\r\n\r\n",
)
"""Requests that end in each kind of error, and some that do not."""

NAMED_BY_THE_CLIENT = 3
"""The head whose query has the secret as a name: the answer names the parameter to its client."""


async def answer_to(node: LocalNode, head: str) -> str:
    reader, writer = await asyncio.open_connection(node.api.host, node.api.port)
    try:
        writer.write(head.encode())
        writer.write_eof()
        async with asyncio.timeout(20):
            return (await reader.read()).decode(errors="replace")
    finally:
        writer.transport.abort()


COMMAND = (str(Path(sys.executable).with_name("raftnode")), "run")


@pytest.mark.quorum_settings(RAFTNODE_LOG_LEVEL="debug", RAFTNODE_API_HEAD_TIMEOUT_MS="1000")
async def test_a_clients_token_is_in_no_log_no_answer_and_no_metric(quorum: LocalQuorum) -> None:
    await quorum.form(1)
    node = quorum.nodes[0]
    answers = [await answer_to(node, head) for head in HEADS]
    async with aiohttp.ClientSession(
        f"http://{node.api}", headers={"Authorization": f"Bearer {SECRET}"}
    ) as session:
        async with session.put("/v1/kv/key", data=b"value") as response:
            assert response.status == 200
        for path in ("/metrics", "/openapi.json", "/v1/node", "/v1/quorum"):
            async with session.get(path) as response:
                answers.append(await response.text())
    quoting = [at for at, answer in enumerate(answers) if SECRET in answer]
    assert quoting in ([], [NAMED_BY_THE_CLIENT])
    node.stop()
    said = node.output()
    assert "listener_started" in said
    assert SECRET not in said
    assert SECRET not in node.termination_message.read_text()


async def test_no_secret_of_access_control_is_in_a_log_an_answer_or_a_metric(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
) -> None:
    """Of a token that is known, one that is not, and a signed one that is refused."""
    cluster_id = "SecretSecretSecretSecr"
    security = QuorumSecurity(
        tmp_path / "security", cluster_id, peer_tls="disabled", api_tls="disabled"
    )
    issuer, keys = AccountIssuer(), tmp_path / "jwks.json"
    write_keys(keys, issuer)
    settings = {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis"),
        "RAFTNODE_ACCESS_JWKS_FILE": str(keys),
        "RAFTNODE_LOG_LEVEL": "debug",
    }
    quorum = LocalQuorum(tmp_path, 1, network, settings, cluster_id=cluster_id, security=security)
    async with quorum:
        await quorum.form(1)
        node = quorum.nodes[0]
        admin = security.token_file("admin").read_text()
        tokens = [admin, SECRET, issuer.token(), issuer.token(aud=SECRET), f"a.{SECRET}.c"]
        said: list[str] = []
        for token in tokens:
            async with aiohttp.ClientSession(
                f"http://{node.api}", headers={"Authorization": f"Bearer {token}"}
            ) as session:
                for path in ("/metrics", "/v1/node", "/v1/log", "/openapi.json", "/v1/session"):
                    async with session.get(path) as response:
                        said.append(await response.text())
                async with session.post("/v1/quorum/resign", json={}) as response:
                    said.append(await response.text())
        node.stop()
        said += [node.output(), node.termination_message.read_text()]
        assert '"event": "refused"' in said[-2]
        hashes = [hashlib.sha256(token.encode()).hexdigest() for token in tokens]
        secrets = [*hashes, *(part for token in tokens for part in token.split(".") if part[1:])]
        for text in said:
            assert not [secret for secret in secrets if secret in text]


def reading(name: str, path: Path) -> list[str]:
    """The options with which a node reads the file of a setting."""
    listener = name.partition("_tls_")[0]
    if "_tls_" in name:
        names = [f"{listener}_tls_{file}_file" for file in ("certificate", "key", "ca")]
        flags = [f"--{listener}-tls", "required"]
    else:
        names, flags = ["access_file", name], []
    for option in dict.fromkeys(names):
        flags += [f"--{option.replace('_', '-')}", str(path)]
    return flags


def test_a_file_of_the_settings_is_never_quoted(tmp_path: Path) -> None:
    """Whether the node takes the file or refuses it, which the settings of one node decide."""
    holding = [
        name
        for name in NodeSettings.model_fields
        if name.endswith("_file") and name not in NOT_SECRET
    ]
    directory = tmp_path / "node"
    directory.mkdir()
    for name in holding:
        path = tmp_path / name
        path.write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n{SECRET}\n")
        done = subprocess.run(
            [
                *COMMAND,
                *("--node-id", "0", "--log-dir", str(directory), "--api-listen", "127.0.0.1:0"),
                *("--peer-listen", "127.0.0.1:0", *reading(name, path)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert SECRET not in done.stdout + done.stderr, name


def test_a_wrong_setting_is_named_without_its_value_if_it_is_secret(tmp_path: Path) -> None:
    """A token in clear in the environment is no setting: the node names the variable alone."""
    command = [*COMMAND, "--node-id", "0", "--log-dir", str(tmp_path)]
    done = subprocess.run(
        command,
        env={"RAFTNODE_TOKEN": SECRET, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "RAFTNODE_TOKEN" in said
    assert SECRET not in said


CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@pytest.fixture
def unlimited_core_dumps() -> Iterator[None]:
    """The processes of the test may dump what they like, as those of a container may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.mark.usefixtures("unlimited_core_dumps")
@pytest.mark.parametrize("setting", [None, "enabled"])
async def test_a_node_that_crashes_leaves_no_core_dump_unless_it_is_asked_for(
    setting: str | None, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
) -> None:
    """A dump has the key of TLS; with `enabled` one is made, so the test would see it."""
    if setting == "enabled" and not writes_cores():
        pytest.skip("this system writes no core dumps into the directory of a process")
    cluster_id = "CoreCoreCoreCoreCoreCo"
    settings = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    if setting is not None:
        settings["RAFTNODE_CORE_DUMPS"] = setting
    security = QuorumSecurity(tmp_path / "security", cluster_id)
    quorum = LocalQuorum(tmp_path, 1, network, settings, cluster_id=cluster_id, security=security)
    async with quorum:
        await quorum.form(1)
        node = quorum.nodes[0]
        assert node.process is not None
        pid = node.process.pid
        limit = core_limit(pid)
        node.signal(signal.SIGABRT)
        ended = await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        cores = cores_below(tmp_path)
        if setting == "enabled":
            assert ended.si_code == os.CLD_DUMPED
            assert cores
        else:
            assert limit == ["1", "1", "bytes"]
            assert ended.si_code == os.CLD_KILLED
            assert not cores
        for core in cores:
            core.unlink()


def core_limit(pid: int) -> list[str]:
    """The soft and the hard limit of a process, and their unit."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    [limit] = [line for line in lines if line.startswith("Max core file size")]
    return limit.split()[-3:]


def cores_below(directory: Path) -> list[Path]:
    return [*directory.rglob("core"), *directory.rglob("core.*")]


def writes_cores() -> bool:
    """Whether the system would write a core dump of a process into its directory."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    pattern = CORE_PATTERN.read_text().strip() if CORE_PATTERN.exists() else "|"
    return pattern.startswith("core") and hard == resource.RLIM_INFINITY


def test_the_settings_hold_no_secret_but_the_paths_of_files(tmp_path: Path) -> None:
    """So a dump of them, or their repr in an error, shows none."""
    secrets: dict[str, Path] = {
        name: tmp_path / name
        for name in NodeSettings.model_fields
        if name.endswith("_file") and name not in NOT_SECRET
    }
    for path in secrets.values():
        path.write_text(SECRET)
    settings = NodeSettings.model_validate(
        {**secrets}
        | {"node_id": 0, "log_dir": tmp_path, "peer_tls": "required", "api_tls": "required"}
    )
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert SECRET not in shown
    assert all(str(path) in shown for path in secrets.values())
