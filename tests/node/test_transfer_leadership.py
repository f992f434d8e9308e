"""`raftnode node transfer-leadership`: what a pod's preStop hook runs, against real processes."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.api.model import Replica
from raftnode.client import QuorumClient, RefusedError
from raftnode.client.leadership_transfer import transfer_leadership
from raftnode.commands.output import CommandExitCode

pytestmark = pytest.mark.timeout(300)

NO_ELECTION = {"RAFTNODE_FETCH_TIMEOUT_MS": "10000"}
"""None but those that a test asks for: a busy machine may stand still for seconds."""


async def run_hook(node: LocalNode, *flags: str, **environment: str) -> tuple[int, str]:
    """Run the hook as the node's container would."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("raftnode")),
        "node",
        "transfer-leadership",
        *flags,
        env={**os.environ, **node.environment, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


@pytest.mark.quorum_settings(**NO_ELECTION)
async def test_leader_transfers_leadership_while_it_still_answers(quorum: LocalQuorum):
    before = await quorum.form(3)
    old = await quorum.leader()
    await quorum.client.put("key", b"value")

    code, said = await run_hook(old)

    assert code == 0, said
    assert "transferred leadership to" in said

    async def successor() -> Replica | None:
        return (await quorum.info(old)).leader

    new = await eventually(successor, what="a leader of which the old one, still there, tells")
    assert new.node_id != old.node_id
    # A busy machine may have elected once more since it was said.
    others = {f"{one.key}" for one in before.voters if one.node_id != old.node_id}
    assert said.split()[-1] in others
    after = await quorum.describe()
    assert after.leader.node_id != old.node_id
    assert after.voter_record == before.voter_record, "membership is not changed"
    assert {one.key for one in after.voters} == {one.key for one in before.voters}
    found = await quorum.client.get("key")
    assert found is not None
    assert found.value == b"value"

    assert old.stop() == 0
    assert (await quorum.describe()).epoch == after.epoch, "its end costs no election"


@pytest.mark.quorum_settings(**NO_ELECTION)
async def test_follower_has_no_leadership_to_transfer_and_disturbs_no_other_node(
    quorum: LocalQuorum,
):
    await quorum.form(3)
    before = await quorum.describe()
    follower = next(node for node in quorum.nodes[:3] if node.node_id != before.leader.node_id)
    for _ in range(2):
        code, said = await run_hook(follower)
        assert code == 0, said
        assert "no leadership to transfer" in said
    assert (await quorum.describe()).epoch == before.epoch


async def test_only_voter_is_not_held_up(quorum: LocalQuorum):
    await quorum.form(1)
    before = await quorum.describe()
    code, said = await run_hook(quorum.nodes[0])
    assert code == 0, said
    assert "only voter" in said
    assert (await quorum.describe()).epoch == before.epoch


@pytest.mark.quorum_settings(**NO_ELECTION)
async def test_node_that_lost_leadership_meanwhile_leaves_the_new_leader_alone(
    quorum: LocalQuorum,
):
    await quorum.form(3)
    before = await quorum.describe()
    follower = next(node for node in quorum.nodes[:3] if node.node_id != before.leader.node_id)
    with pytest.raises(RefusedError, match="NOT_LEADER"):
        await quorum.client.resign_node(follower.api)
    after = await quorum.describe()
    assert (after.epoch, after.leader.key) == (before.epoch, before.leader.key)


@pytest.mark.quorum_settings(RAFTNODE_FETCH_TIMEOUT_MS="12000")
async def test_leader_that_no_voter_can_follow_goes_on_leading_and_the_hook_ends(
    quorum: LocalQuorum,
):
    await quorum.form(3)
    leader = await quorum.leader()
    others = [node for node in quorum.nodes[:3] if node is not leader]
    for node in others:
        node.signal(signal.SIGSTOP)
    try:
        async with QuorumClient([leader.api], timeout_ms=2000) as client:
            # It resigns for want of a majority after 18 s; from 12 s on no voter is caught up.
            async def alone() -> bool | None:
                # A leader that no request disturbs has to look at the clock to tell.
                voters = (await client.describe_quorum()).voters
                return sum(one.caught_up for one in voters) == 1 or None

            await eventually(alone, what="no voter to be caught up")

            async def refused() -> bool:
                with pytest.raises(RefusedError, match="WAITING"):
                    await transfer_leadership(client, leader.api, timeout_ms=200)
                return True

            await eventually(refused, what="an answer")
            assert (await quorum.info(leader)).role == "leader"
    finally:
        for node in others:
            node.signal(signal.SIGCONT)


async def test_node_that_does_not_answer_is_said_so(quorum: LocalQuorum):
    code, said = await run_hook(quorum.nodes[0], "--timeout-ms", "500")
    assert code == CommandExitCode.UNAVAILABLE
    assert "127." in said


async def test_wildcard_address_is_asked_on_loopback(quorum: LocalQuorum):
    code, said = await run_hook(quorum.nodes[0], RAFTNODE_API_LISTEN="0.0.0.0:1")
    assert code == CommandExitCode.UNAVAILABLE
    assert "127.0.0.1:1" in said
    code, said = await run_hook(quorum.nodes[0], RAFTNODE_API_LISTEN="[::]:1")
    assert code == CommandExitCode.UNAVAILABLE
    assert "localhost:1" in said
