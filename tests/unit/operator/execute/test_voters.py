"""Voter changes at a leader that does not check them: decided again before the request."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, cast

import pytest

from kraftquorum_operator.errors import STALE_BASIS, NodeRefusedError
from kraftquorum_operator.execute.run import run
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.memory.request_failures import is_conflict
from kraftquorum_operator.model.engine import KAFKA, RAFTNODE, Engine
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import ReplicaId, VoterRecord
from kraftquorum_operator.plan.actions import AddVoter, Decision, Done, JoinNode, RemoveVoter, Wait
from proofkit.operatorworld.observations import CLUSTER, UID, healthy
from raftnode.core.types import format_directory_id

pytestmark = pytest.mark.rule("S11")

BASIS = VoterRecord(7, 2)


def replica(node_id: int, disk: int = 0) -> ReplicaId:
    return ReplicaId(node_id, format_directory_id(uuid.UUID(int=1 << 90 | node_id * 10 + disk)))


REMOVE = RemoveVoter(replica(2), BASIS)
ADD = AddVoter(replica(3), "demo-3:9093", BASIS)


class Leader:
    """Takes every request."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def add_voter(self, address: str, request: Any) -> None:
        self.requests.append(f"add {request.voter.node_id}")

    async def remove_voter(self, address: str, request: Any) -> None:
        self.requests.append(f"remove {request.voter.node_id}")


def tools(leader: Leader, engine: Engine, *again: Decision | None) -> Tools:
    """What the functions work with; `again`: what is decided the second time."""
    decisions = list(again)

    async def decide_again() -> Decision | None:
        return decisions.pop(0)

    observation = replace(healthy(), engine=engine)
    owner = Owner("test", "demo", UID)
    made = Tools(cast("Any", None), cast("Any", leader), owner, observation, {}, 1000, Failpoints())
    return replace(made, decide_again=decide_again)


@pytest.mark.without(
    "kraftquorum_operator.execute.voters:_decide_again", "if decision != change:", "if False:"
)
@pytest.mark.parametrize(
    ("action", "again", "reason"),
    [
        (REMOVE, None, "the resource is gone or being deleted"),
        (REMOVE, Done("3 voters, all caught up"), "nothing is to do: 3 voters, all caught up"),
        (REMOVE, Wait("majority_survives_removal", "1 of 2"), "majority_survives_removal blocks"),
        (REMOVE, replace(REMOVE, basis=VoterRecord(8, 3)), "on the voter record at offset 8"),
        (REMOVE, RemoveVoter(replica(2, 1), BASIS), f"RemoveVoter {replica(2, 1)}"),
        (ADD, JoinNode(replica(3, 1), CLUSTER), f"the decision is JoinNode {replica(3, 1)}"),
        (ADD, REMOVE, f"RemoveVoter {replica(2)}"),
    ],
)
async def test_nothing_is_requested_that_is_not_decided_again(
    action: AddVoter | RemoveVoter, again: Decision | None, reason: str
) -> None:
    leader = Leader()
    with pytest.raises(NodeRefusedError) as refused:
        await run(action, tools(leader, KAFKA, again))
    assert leader.requests == []
    assert reason in str(refused.value)
    assert f"{type(action).__name__} {action.replica} was decided on {BASIS}" in str(refused.value)
    assert refused.value.error == STALE_BASIS
    assert refused.value.outcome == "not_done"
    assert is_conflict(refused.value), "another client was faster: no failure to report at once"


async def test_the_same_decision_is_requested() -> None:
    leader = Leader()
    await run(REMOVE, tools(leader, KAFKA, REMOVE))
    await run(ADD, tools(leader, KAFKA, ADD))
    assert leader.requests == ["remove 2", "add 3"]


async def test_our_own_leader_compares_by_itself() -> None:
    leader = Leader()
    await run(REMOVE, tools(leader, RAFTNODE))
    assert leader.requests == ["remove 2"]
