"""P54, P56: real processes with static voters, upgraded while they run."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from proofkit.localquorum import eventually
from raftnode.api.model import VoterSpec
from raftnode.client.errors import NotDoneError

pytestmark = [pytest.mark.timeout(300), pytest.mark.extended, pytest.mark.rule("P54", "P56")]


async def raftnode(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("raftnode"))
    return await asyncio.to_thread(
        subprocess.run, [program, *arguments], capture_output=True, text=True, check=False
    )


async def test_running_quorum_of_static_voters_goes_to_version_2_and_grows(quorum):
    formed = await quorum.form(3, raft_version=0)
    assert (formed.raft_version, formed.formation_completed) == (0, False)
    await quorum.client.put("before", b"1")
    spare = quorum.nodes[3]
    spare.start()
    observer = await quorum.observe(spare)
    voter = VoterSpec(node_id=observer.node_id, directory_id=observer.directory_id)
    with pytest.raises(NotDoneError, match="UNSUPPORTED_VERSION"):
        await quorum.client.add_voter(voter, formed.voter_record)
    # Whatever restarts is still at 0: the latch on its disk says so.
    leader = await quorum.leader()
    leader.kill()
    leader.start()
    await quorum.wait_running([leader])

    async def all_caught_up() -> bool | None:
        return all(voter.caught_up for voter in (await quorum.describe()).voters) or None

    await eventually(all_caught_up, what="all voters, which an upgrade wants, to be caught up")
    leader = await quorum.leader()
    server = str(leader.api)
    done = await raftnode(
        "metadata-quorum", "upgrade", "--raft-version", "2", "--bootstrap-server", server
    )
    assert (done.returncode, done.stdout) == (0, "raft.version is now 2, and is never lowered\n"), (
        done.stderr
    )
    lower = await raftnode(
        "metadata-quorum", "upgrade", "--raft-version", "1", "--bootstrap-server", server
    )
    assert lower.returncode
    assert "VERSION_NOT_LOWERED" in lower.stderr
    now = await quorum.describe()
    assert (now.raft_version, now.raft_version_committed) == (2, True)
    await quorum.client.add_voter(voter, now.voter_record)
    await quorum.put("after", b"2")
    assert (await quorum.client.get("before")).value == b"1"
    assert len((await quorum.describe()).committed_voters) == 4
