"""Actions on the voter set and its observers: compare and set, with a deadline (S11).

The leader compares a change with the set that was observed. If an engine's leader does not, the
operator observes and decides again first.
"""

from __future__ import annotations

from kraftquorum_operator.errors import STALE_BASIS, NodeRefusedError, NodeUnreachableError
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.model.observation import Basis, ReplicaId, VoterRecord
from kraftquorum_operator.plan.actions import (
    AddVoter,
    Decision,
    Done,
    JoinNode,
    MoveLeadership,
    RemoveVoter,
    Wait,
    describe,
)
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


def _record(basis: Basis) -> ApiVoterRecord:
    assert isinstance(basis, VoterRecord)  # noqa: S101 - a node reports no other basis
    return ApiVoterRecord(offset=basis.offset, epoch=basis.epoch)


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


async def _decide_again(change: AddVoter | RemoveVoter, tools: Tools) -> None:
    """Check directly before the request that the change is still decided, if the leader will not.

    Such a leader carries out a change whatever set it was decided on, also if the voters that stay
    are no majority.

    Raises:
        NodeRefusedError: it is not decided any more; nothing was requested.
    """
    if tools.observation.engine.leader_checks_changes:
        return
    decision = await tools.decide_again() if tools.decide_again is not None else None
    if decision != change:
        reason = f"{describe(change)} was decided on {change.basis}; now {_in_words(decision)}"
        raise NodeRefusedError(STALE_BASIS, reason)


def _in_words(decision: Decision | None) -> str:
    match decision:
        case None:
            return "the resource is gone or being deleted"
        case Wait(guard, why):
            return f"{guard} blocks it: {why}"
        case Done(why):
            return f"nothing is to do: {why}"
        case AddVoter(basis=basis) | RemoveVoter(basis=basis):
            return f"the decision is {describe(decision)} on {basis}"
        case action:
            return f"the decision is {describe(action)}"


async def add_voter(action: AddVoter, tools: Tools) -> str:
    """Ask the leader to add a voter to the very set that was observed.

    Raises:
        NodeRefusedError: the set is another one now, or the leader refused.
    """
    await _decide_again(action, tools)
    request = AddVoterRequest(
        voter=VoterSpec(
            node_id=action.replica.node_id,
            directory_id=action.replica.directory_id,
            endpoint=action.endpoint,
        ),
        expected=_record(action.basis),
        replaces=_replica(action.replaces) if action.replaces else None,
        timeout_ms=tools.change_timeout_ms,
    )
    await tools.nodes.add_voter(_leader_address(tools), request)
    replaced = f" in place of {action.replaces}" if action.replaces else ""
    return f"{action.replica}{replaced}"


async def remove_voter(action: RemoveVoter, tools: Tools) -> str:
    """Ask the leader to remove a voter from the very set that was observed.

    Raises:
        NodeRefusedError: the set is another one now, or the leader refused.
    """
    await _decide_again(action, tools)
    request = RemoveVoterRequest(
        voter=_replica(action.replica),
        expected=_record(action.basis),
        timeout_ms=tools.change_timeout_ms,
    )
    await tools.nodes.remove_voter(_leader_address(tools), request)
    return str(action.replica)


async def move_leadership(action: MoveLeadership, tools: Tools) -> str:
    """Have the leader resign; if it leads no longer, it says so and nothing happens."""
    request = ResignRequest(preferred=_replica(action.preferred))
    await tools.nodes.resign(tools.address(action.leader.node_id), request)
    return f"from {action.leader} to {action.preferred}"
