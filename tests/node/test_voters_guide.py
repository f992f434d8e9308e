"""The examples of docs/howto/voters.md, run as a reader runs them on real nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from guidelib.reader import Reader
from proofkit.localquorum import eventually

pytestmark = [pytest.mark.timeout(300), pytest.mark.extended]


class NodeReader(Reader):
    """A reader whose `n0` to `n2` are the nodes of this test."""

    servers = ""

    def _here(self, text: str) -> str:
        return text.replace("n0:9080,n1:9080,n2:9080", self.servers)


async def test_voters_are_changed_as_the_page_says(quorum, tmp_path: Path):
    await quorum.form(3)
    for node in quorum.nodes[3:5]:
        node.start()
        await quorum.observe(node)
    reader = NodeReader("howto/voters.md", tmp_path)
    reader.servers = ",".join(str(node.api) for node in quorum.nodes)

    async def run(name: str) -> None:
        await asyncio.to_thread(reader.run, "servers", name)

    async def is_reached(voters: set[int]) -> bool | None:
        info = await quorum.describe()
        return {voter.node_id for voter in info.committed_voters} == voters or None

    await run("list")
    await run("change")
    assert await is_reached({0, 1, 3})
    await run("reassign")
    await eventually(lambda: is_reached({1, 3, 4}), what="the target")
    await run("another")
    if (await quorum.describe()).leader.node_id == 1:  # the page moves leadership to it
        elsewhere = f"{reader.example('servers')}\n{reader.example('transfer')}".replace(
            "--to 1", "--to 3"
        )
        code, printed = await asyncio.to_thread(reader.type, elsewhere)
        assert code == 0, printed
    await run("transfer")
    await run("upgrade")
