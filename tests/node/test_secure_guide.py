"""The examples of docs/howto/secure-a-quorum.md, run as a reader runs them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from guidelib.pages import ROOT, Page
from guidelib.reader import Reader
from proofkit.localquorum import LocalQuorum
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity

PAGE = "howto/secure-a-quorum.md"
EXAMPLE = ROOT / "examples" / "access.json"
CLUSTER_ID = "SecureSecureSecureSecu"


class NodeReader(Reader):
    """A reader whose `node-0` is a node of this test, without TLS."""

    server = "node-0:9080"

    def _here(self, text: str) -> str:
        plain = text.replace("--ca-file ca.crt", "--plaintext-token")
        return plain.replace("node-0:9080", self.server)


def test_the_page_shows_the_example_and_the_node_takes_it(tmp_path: Path):
    reader = NodeReader(PAGE, tmp_path)
    assert Page(PAGE).examples["access"] == EXAMPLE.read_text()
    reader.save("access", "access.json")
    reader.run("check")


async def test_the_steps_of_the_page_give_an_application_its_keys(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    reader = NodeReader(PAGE, tmp_path)
    hashed = reader.run("token").strip()
    assert (tmp_path / "shop.token").stat().st_mode & 0o077 == 0
    security = QuorumSecurity(
        tmp_path / "security", CLUSTER_ID, peer_tls="disabled", api_tls="disabled"
    )
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    quorum = LocalQuorum(tmp_path, 1, network, cache, cluster_id=CLUSTER_ID, security=security)
    async with quorum:
        await quorum.form(1)
        document: Any = json.loads(EXAMPLE.read_text())
        subject = next(entry for entry in document["subjects"] if entry["name"] == "shop")
        subject["token_hashes"] = [hashed]
        document["subjects"] += json.loads(security.access_file.read_text())["subjects"]
        security.access_file.write_text(json.dumps(document))
        reader.server = str(quorum.nodes[0].api)
        await asyncio.to_thread(reader.until_shows, "allowed")
        await asyncio.to_thread(reader.run, "refused", fails=True)
