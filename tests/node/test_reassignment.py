"""P33, P34, S15: real processes go from {0,1,2} to {3,4} while a client writes."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from proofkit.localquorum import LocalNode, eventually

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.extended,
    pytest.mark.rule("P33", "P34", "S15"),
]


async def raftnode(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("raftnode"))
    return await asyncio.to_thread(
        subprocess.run, [program, *arguments], capture_output=True, text=True, check=False
    )


async def test_voters_are_reassigned_by_one_command(quorum):
    await quorum.form(3)
    await quorum.client.put("before", b"1")
    for node in quorum.nodes[3:5]:
        node.start()
        await quorum.observe(node)
    servers = ",".join(str(node.api) for node in quorum.nodes)
    command = ("metadata-quorum", "reassign", "--bootstrap-server", servers)
    done = await raftnode(*command, "--targets", "3,4")
    assert done.returncode == 0, done.stderr
    assert "target voters: 3-" in done.stdout

    async def reached():
        info = await quorum.describe()
        ids = {one.node_id for one in info.committed_voters}
        return info if ids == {3, 4} and not info.target_voters else None

    info = await eventually(reached, what="the target")
    assert info.leader.node_id in {3, 4}
    await quorum.put("after", b"2")
    assert (await quorum.client.get("before")).value == b"1"
    # Those that are voters no more observe, and the new ones do without them.
    for node in quorum.nodes[:3]:

        async def observes(node: LocalNode = node) -> bool | None:
            return (await quorum.info(node)).role == "observer" or None

        await eventually(observes, what=f"node {node.node_id} to observe")
        node.kill()
    await quorum.put("alone", b"3")
    taken_back = await raftnode(*command, "--cancel")
    assert (taken_back.returncode, taken_back.stdout) == (
        0,
        "committed; the voters need no further change\n",
    ), taken_back.stderr
