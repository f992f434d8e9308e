"""Actions of formation: create the latch, send what was read back (S18)."""

from __future__ import annotations

import base64
import uuid

from kraftquorum_operator.errors import ConflictError, NodeUnreachableError
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.observe.snapshot import LatchVoter
from kraftquorum_operator.plan.actions import AdoptQuorum, CreateLatch, JoinNode, SendLatch
from kraftquorum_operator.resources.latch import latch
from raftnode.api.model import FormRequest, JoinRequest, VoterSpec


def random_cluster_id() -> str:
    """A cluster id as Kafka writes them: 22 characters, the first a letter or a digit."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if text[0] not in "-_":
            return text


async def _create(cluster_id: str, voters: tuple[LatchVoter, ...], tools: Tools, how: str) -> str:
    body = latch(tools.owner, cluster_id, voters, adopted=how == "adopted")
    try:
        await tools.kube.create(body)
    except ConflictError:
        return "another operator was first; its latch counts"
    return f"cluster {cluster_id}, voters {', '.join(str(v.replica) for v in voters)}"


async def create_latch(action: CreateLatch, tools: Tools) -> str:
    """Create the latch once. Whoever loses the race uses the winner's, read back."""
    return await _create(random_cluster_id(), action.voters, tools, "formed")


async def adopt_quorum(action: AdoptQuorum, tools: Tools) -> str:
    """Create the latch for a quorum that is there, so that no other is formed."""
    return await _create(action.cluster_id, action.voters, tools, "adopted")


async def send_latch(action: SendLatch, tools: Tools) -> str:
    """Send the latch; the node takes it only blank and only if it is listed itself."""
    voters = tuple(
        VoterSpec(
            node_id=voter.replica.node_id,
            directory_id=voter.replica.directory_id,
            endpoint=voter.endpoint,
        )
        for voter in action.latch.voters
    )
    request = FormRequest(cluster_id=action.latch.cluster_id, voters=voters)
    await tools.nodes.form(tools.address(action.replica.node_id), request)
    return str(action.replica)


async def join_node(action: JoinNode, tools: Tools) -> str:
    """Send the cluster id, after asking once more who is at that address.

    Raises:
        NodeUnreachableError: another replica answers there now.
    """
    address = tools.address(action.replica.node_id)
    now = await tools.nodes.node(address)
    if (now.node_id, now.directory_id) != (action.replica.node_id, action.replica.directory_id):
        msg = f"{now.node_id}-{now.directory_id} answers at {address}, not {action.replica}"
        raise NodeUnreachableError(msg)
    if now.cluster_id is None:
        await tools.nodes.join(address, JoinRequest(cluster_id=action.cluster_id))
    return str(action.replica)
