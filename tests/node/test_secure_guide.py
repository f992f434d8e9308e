"""The examples of docs/howto/secure-a-quorum.md, run as a reader runs them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proofkit.localquorum import LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "secure-a-quorum.md").read_text()
EXAMPLE = ROOT / "examples" / "access.json"
CLUSTER_ID = "SecureSecureSecureSecu"


def run(tmp_path: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", command],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_page_shows_the_example_and_the_node_takes_it(tmp_path: Path):
    [shown] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert shown == EXAMPLE.read_text()
    checked = run(tmp_path, f"raftnode access check {EXAMPLE}")
    assert checked.stdout == (
        "operator: admin, metrics, read\nshop: read, write\nreports: read\nprometheus: metrics\n"
    )


async def test_the_steps_of_the_page_give_an_application_its_keys(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    [commands] = re.findall(r"<!-- example -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    made = run(tmp_path, commands)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "shop.token").stat().st_mode & 0o077 == 0
    security = QuorumSecurity(
        tmp_path / "security", CLUSTER_ID, peer_tls="disabled", api_tls="disabled"
    )
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    quorum = LocalQuorum(tmp_path, 1, network, cache, cluster_id=CLUSTER_ID, security=security)
    async with quorum:
        await quorum.form(1)
        document: Any = json.loads(EXAMPLE.read_text())
        subject = next(one for one in document["subjects"] if one["name"] == "shop")
        subject["token_hashes"] = [made.stdout.strip()]
        document["subjects"] += json.loads(security.access_file.read_text())["subjects"]
        security.access_file.write_text(json.dumps(document))
        [allowed, refused] = re.findall(r"^raftnode kv put .*$", PAGE, re.MULTILINE)

        def here(command: str) -> str:
            return command.replace("node-0:9080", str(quorum.nodes[0].api)).replace(
                "--ca-file ca.crt", "--plaintext-token"
            )

        async def put() -> bool | None:
            done = await asyncio.to_thread(run, tmp_path, here(allowed))
            return done.returncode == 0 or None

        await eventually(put, what="the access file of the page")
        done = await asyncio.to_thread(run, tmp_path, here(refused))
        assert done.returncode == 3
        assert "AUTHORIZATION_FAILED" in done.stderr
