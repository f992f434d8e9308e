"""A lost disk is replaced as KIP-856 describes it: the new replica is not given its cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork, claim_loopback
from raftnode.api.model import Replica, ReplicaProgress, VoterSpec
from raftnode.client import QuorumClient
from raftnode.client.errors import NotDoneError, OutcomeUnknownError

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("S5", "P53", "P55")]


async def announced(quorum: LocalQuorum, node_id: int) -> ReplicaProgress:
    """Wait until a blank replica of a node id is among the leader's observers."""

    async def look() -> ReplicaProgress | None:
        for observer in (await quorum.describe()).observers:
            if observer.node_id == node_id and observer.blank:
                return observer
        return None

    return await eventually(look, what=f"a blank replica of node {node_id}")


async def add(quorum: LocalQuorum, found: ReplicaProgress, old: Replica | None = None) -> None:
    voter = VoterSpec(node_id=found.node_id, directory_id=found.directory_id)
    before = (await quorum.describe()).voter_record
    await quorum.client.add_voter(voter, before, replaces=old, timeout_ms=60_000)


async def test_lost_disk_is_replaced_without_a_word_to_the_new_replica(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    await quorum.put("before", b"value")
    leader = await quorum.leader()
    lost = next(node for node in quorum.nodes[:3] if node is not leader)
    old = Replica.of((await replica_of(quorum, lost)).key)
    lost.kill()
    lost.wipe()
    lost.start()
    await quorum.wait_running([lost])
    found = await announced(quorum, lost.node_id)
    assert found.directory_id != old.directory_id
    assert found.could_be_voter
    assert found.acknowledged_offset == -1
    info = await quorum.info(lost)
    assert (info.role, info.cluster_id, info.log_end_offset) == ("blank", None, 0)

    await add(quorum, found, old)

    async def replaced() -> bool | None:
        described = await quorum.describe()
        keys = {voter.key for voter in described.voters}
        return (found.key in keys and old.key not in keys) or None

    await eventually(replaced, what="the new disk in the place of the old")
    info = await quorum.info(lost)
    assert (info.role, info.cluster_id) == ("follower", quorum.cluster_id)
    # It is a member for good: its next start knows the cluster, and it leads when it is asked to.
    lost.kill()
    lost.start()
    await quorum.wait_running([lost])
    await quorum.lead(lost)
    assert (await quorum.client.get("before")).value == b"value"


async def replica_of(quorum: LocalQuorum, node: LocalNode) -> ReplicaProgress:
    voters = (await quorum.describe()).voters
    return next(voter for voter in voters if voter.node_id == node.node_id)


async def test_of_two_clusters_at_its_addresses_a_new_disk_joins_the_one_that_adds_it(
    quorum: LocalQuorum, tmp_path: Path
) -> None:
    """One of its addresses leads to another cluster, as after a name was given away.

    It announces itself to the leader that it meets first. The other leader adds it all the same.
    """
    with claim_loopback() as network:
        async with other_quorum(tmp_path, network) as other:
            await asyncio.gather(quorum.form(1), other.form(1))
            new = quorum.nodes[4]
            servers = f"{quorum.nodes[0].peer},{other.nodes[0].peer}"
            new.environment["RAFTNODE_BOOTSTRAP_SERVERS"] = servers
            new.start()
            await quorum.wait_running([new])
            first = await first_to_see(quorum, other, new.node_id)
            holder = other if first is quorum else quorum
            found = await announced(holder, new.node_id)
            info = await quorum.info(new)
            assert (info.role, info.cluster_id) == ("blank", None), "neither has been chosen"
            await add(holder, found)
            assert (await quorum.info(new)).cluster_id == holder.cluster_id
            voter = VoterSpec(node_id=found.node_id, directory_id=found.directory_id)
            # A client that knew the new node would be sent on to the cluster that it has joined.
            async with QuorumClient([first.nodes[0].api]) as client:
                record = (await client.describe_quorum()).voter_record
                # This leader has listed it, and waits for it until the client's deadline.
                with pytest.raises((NotDoneError, OutcomeUnknownError)):
                    await client.add_voter(voter, record, timeout_ms=3000)
                described = await client.describe_quorum()
            assert described.cluster_id == first.cluster_id
            assert new.node_id not in {replica.node_id for replica in described.voters}
            assert (await quorum.info(new)).cluster_id == holder.cluster_id


def other_quorum(root: Path, network: LoopbackNetwork) -> LocalQuorum:
    return LocalQuorum(root / "other", 1, network, cluster_id="OtherOtherOtherOtherOt")


async def first_to_see(one: LocalQuorum, two: LocalQuorum, node_id: int) -> LocalQuorum:
    async def look() -> LocalQuorum | None:
        for quorum in (one, two):
            if any(o.node_id == node_id for o in (await quorum.describe()).observers):
                return quorum
        return None

    return await eventually(look, what="a leader that sees the blank replica")
