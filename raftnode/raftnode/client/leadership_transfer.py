"""Make one node transfer leadership before it is stopped, and wait for the new leader."""

from __future__ import annotations

import asyncio
import time

from raftnode.api.model import NodeInfo, Replica
from raftnode.client.errors import OutcomeUnknownError, RefusedError
from raftnode.client.quorum_client import QuorumClient
from raftnode.core.types import Endpoint

_PAUSE_S = 0.05
_ANSWER_MS_MIN = 200
"""A node is given so long to answer, however late it is."""


async def transfer_leadership(client: QuorumClient, node: Endpoint, *, timeout_ms: int) -> str:
    """Make the node transfer leadership, if another voter can take it; the voters do not change.

    Asks that node and no other, so that another leader keeps its leadership. May be called
    again at any time.

    Args:
        client: its endpoints do not matter.
        node: where the node's API listens.
        timeout_ms: how long to wait for a caught-up voter, and for the new leader.

    Returns:
        What was found or done, for people.

    Raises:
        UnavailableError: the node does not answer.
        RefusedError: it still leads at the deadline, and says why.
        OutcomeUnknownError: it still leads at the deadline, and did not say why.
    """
    deadline_s = time.monotonic() + timeout_ms / 1000
    asked = False
    while True:
        left_ms = max(_ANSWER_MS_MIN, int(1000 * (deadline_s - time.monotonic())))
        info = await client.describe_node(node, timeout_ms=left_ms)
        if (outcome := _done(info, asked=asked)) is not None:
            return outcome
        deadline_passed = time.monotonic() >= deadline_s
        if deadline_passed and asked:
            again = info.role == "leader"
            return f"{_name(info)} " + ("was elected again" if again else "is no longer the leader")
        if info.role == "leader":
            try:
                await client.resign_node(node, timeout_ms=left_ms)
                asked = True
            except (RefusedError, OutcomeUnknownError):
                # No voter is caught up, or the node is no longer the leader: describe it again.
                if deadline_passed:
                    raise
        await asyncio.sleep(_PAUSE_S)


def _done(info: NodeInfo, *, asked: bool) -> str | None:
    """The message if nothing is left to do; None: continue."""
    own = _name(info)
    if info.role == "leader":
        alone = all(_name(voter) == own for voter in info.voters)
        return f"{own} is the only voter: no other voter can take leadership" if alone else None
    if not asked:
        return f"{own} is not the leader ({info.role}): no leadership to transfer"
    if info.leader is not None:
        return f"{own} transferred leadership to {info.leader.key}"
    return None


def _name(info: NodeInfo | Replica) -> str:
    return f"{info.node_id}-{info.directory_id}"
