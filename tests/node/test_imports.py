"""A node keeps in memory what its process imports, so what it does not need stays out."""

from __future__ import annotations

import json
import sys

import aiohttp

from proofkit.localquorum import LocalQuorum

STAYS_OUT = frozenset(
    {
        # The command line, and output for people.
        "typer",
        "click",
        "rich",
        "pygments",
        "markdown_it",
        "raftnode.commands",
        "raftnode.program_version",
        # The readers of settings are our own.
        "pydantic_settings",
        "dotenv",
        "difflib",
        "yaml",
        # Only for TLS and tokens.
        "cryptography",
        "jwt",
        # What a node has no use for.
        "hypothesis",
        "jinja2",
        "kopf",
        "kraftquorum_operator",
        "kraftquorum_pipeline",
        "kubernetes",
        "numpy",
        "unittest",
    }
)
"""What the process of a plain node must not import: it would take memory in every pod."""

_PROGRAM = """
import atexit, json, os, sys
from raftnode.cli import main

def write():
    # `None` stands for a module that must not be imported.
    imported = sorted(name for name, module in sys.modules.items() if module is not None)
    client = sys.modules["aiohttp.connector"]
    authorities = client._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509_ca"]
    with open(os.environ["IMPORTED"], "w") as file:
        json.dump({"modules": imported, "authorities": authorities}, file)

atexit.register(write)
main()
"""


async def test_a_node_that_has_served_requests_has_imported_nothing_that_it_does_not_need(
    quorum: LocalQuorum,
):
    node = quorum.nodes[0]
    path = node.directory.with_suffix(".imported")
    node.command = (sys.executable, "-c", _PROGRAM, "run")
    node.environment["IMPORTED"] = str(path)
    await quorum.form(1)
    await quorum.put("key", b"value")
    assert await quorum.client.get("key")
    async with aiohttp.ClientSession() as session:
        for address in ("metrics", "healthz/ready", "v1/node"):
            async with session.get(f"http://{node.api}/{address}") as answer:
                assert answer.status == 200
    assert node.stop() == 0
    imported = json.loads(path.read_text())
    modules = set(imported["modules"])
    assert {"raftnode.runtime.server", "aiohttp.web", "structlog"} <= modules
    assert modules & STAYS_OUT == set()
    assert imported["authorities"] == 0
