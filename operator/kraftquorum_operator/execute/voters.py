"""Actions on the voter set and its observers: compare and set, with a deadline (S11)."""

from __future__ import annotations

from kraftquorum_operator.errors import NodeUnreachableError
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.model.observation import ReplicaId, VoterRecord
from kraftquorum_operator.plan.actions import AddVoter, JoinNode, MoveLeadership, RemoveVoter
from raftnode.api.model import (
    AddVoterRequest,
    JoinRequest,
    RemoveVoterRequest,
    ResignRequest,
    VoterSpec,
)
from raftnode.api.model import Replica as ApiReplica
from raftnode.api.model import VoterRecord as ApiVoterRecord


def _replica(given: ReplicaId) -> ApiReplica:
    return ApiReplica(node_id=given.node_id, directory_id=given.directory_id)


def _record(given: VoterRecord) -> ApiVoterRecord:
    return ApiVoterRecord(offset=given.offset, epoch=given.epoch)


def _leader_address(tools: Tools) -> str:
    if tools.observation.quorum is None:
        msg = "no leader has answered yet"
        raise NodeUnreachableError(msg)
    return tools.address(tools.observation.quorum.leader.node_id)


async def join_node(action: JoinNode, tools: Tools) -> str:
    """Send the cluster id, after reading again which replica is at that address.

    Raises:
        NodeUnreachableError: another replica answers there now.
    """
    address = tools.address(action.replica.node_id)
    now = await tools.nodes.node(address)
    if (now.node_id, now.directory_id) != (action.replica.node_id, action.replica.directory_id):
        msg = f"replica {now.node_id}-{now.directory_id} answers at {address}, not {action.replica}"
        raise NodeUnreachableError(msg)
    if now.cluster_id is None:
        await tools.nodes.join(address, JoinRequest(cluster_id=action.cluster_id))
    return str(action.replica)


async def add_voter(action: AddVoter, tools: Tools) -> str:
    """Ask the leader to add a voter to the very set that was observed."""
    request = AddVoterRequest(
        voter=VoterSpec(
            node_id=action.replica.node_id,
            directory_id=action.replica.directory_id,
            endpoint=action.endpoint,
        ),
        expected=_record(action.expected),
        replaces=_replica(action.replaces) if action.replaces else None,
        timeout_ms=tools.change_timeout_ms,
    )
    await tools.nodes.add_voter(_leader_address(tools), request)
    replaced = f" in place of {action.replaces}" if action.replaces else ""
    return f"{action.replica}{replaced}"


async def remove_voter(action: RemoveVoter, tools: Tools) -> str:
    """Ask the leader to remove a voter from the very set that was observed."""
    request = RemoveVoterRequest(
        voter=_replica(action.replica),
        expected=_record(action.expected),
        timeout_ms=tools.change_timeout_ms,
    )
    await tools.nodes.remove_voter(_leader_address(tools), request)
    return str(action.replica)


async def move_leadership(action: MoveLeadership, tools: Tools) -> str:
    """Have the leader resign; if it leads no longer, it says so and nothing happens."""
    request = ResignRequest(preferred=_replica(action.preferred))
    await tools.nodes.resign(tools.address(action.leader.node_id), request)
    return f"from {action.leader} to {action.preferred}"
