"""A quorum of real processes behaves as the specification says."""

from collections import Counter

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum
from proofkit.specification import traces
from proofkit.specification.realnodes import trace_of
from proofkit.specification.recorder import Trace
from raftnode.api.model import Replica, VoterSpec

pytestmark = [pytest.mark.tlc, pytest.mark.timeout(300)]


async def add(quorum: LocalQuorum, node: LocalNode) -> Replica:
    """Start a node on a blank disk, and make a voter of it."""
    node.start()
    replica = await quorum.observe(node)
    info = await quorum.info(node)
    voter = VoterSpec(
        node_id=info.node_id, directory_id=info.directory_id, endpoint=info.peer_endpoint
    )
    await quorum.client.add_voter(voter, (await quorum.describe()).voter_record)
    return replica


async def write(quorum: LocalQuorum, name: str) -> None:
    for number in range(5):
        await quorum.put(f"{name}-{number}", name.encode())


def recorded(quorum: LocalQuorum) -> Trace:
    for node in quorum.nodes:
        node.kill()
    files = [node.directory.with_suffix(".trace") for node in quorum.nodes]
    return trace_of([path for path in files if path.exists()])


async def test_real_nodes_do_what_the_specification_permits(traced):
    """An election, a lost disk, a scale-up and a scale-down, each while clients write."""
    await traced.form(3)
    await write(traced, "formed")

    leader = await traced.leader()
    leader.kill()
    await write(traced, "elected")
    leader.start()
    await traced.wait_running([leader])

    leader = await traced.leader()
    victim = next(node for node in traced.nodes[:3] if node is not leader)
    info = await traced.info(victim)
    old = Replica(node_id=info.node_id, directory_id=info.directory_id)
    victim.kill()
    victim.wipe()
    await add(traced, victim)
    await traced.client.remove_voter(old, (await traced.describe()).voter_record)
    await write(traced, "replaced")

    grown = await add(traced, traced.nodes[3])
    await write(traced, "grown")
    await traced.client.remove_voter(grown, (await traced.describe()).voter_record)
    await write(traced, "shrunk")

    trace = recorded(traced)
    actions = Counter(step[0] for step in trace.steps)
    assert actions["BecomeLeader"] >= 2
    assert actions["Restart"] >= 5
    assert (actions["LoseDisk"], actions["AddVoter"], actions["RemoveVoter"]) == (1, 2, 2)
    assert actions["Write"] >= 20
    refusal = traces.check([trace])
    assert refusal is None, str(refusal)
