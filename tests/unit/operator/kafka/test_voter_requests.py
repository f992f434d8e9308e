"""AddRaftVoter and RemoveRaftVoter: what is sent, and what each answer means."""

from __future__ import annotations

import uuid
from typing import Any, cast

import pytest

from kraftquorum_operator.errors import NodeRefusedError, NodeUnreachableError
from kraftquorum_operator.kafka.codec import voter_changes, writer
from kraftquorum_operator.kafka.codec.describe_quorum import Listener
from kraftquorum_operator.kafka.codec.error_codes import ErrorCode
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader
from kraftquorum_operator.kafka.codec.voter_changes import VoterChange
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.errors import KafkaUnreachableError
from kraftquorum_operator.kafka.voter_requests import add_voter, remove_voter
from kraftquorum_operator.model.observation import DescribedVoters, ReplicaId
from kraftquorum_operator.plan.actions import AddVoter, RemoveVoter
from raftnode.core.types import format_directory_id

DIRECTORY = uuid.UUID(int=1 << 90 | 3)
REPLICA = ReplicaId(3, format_directory_id(DIRECTORY))
BASIS = DescribedVoters(ReplicaId(1, "x"), 7, ())
ADD = AddVoter(REPLICA, "kafka-3:9093", BASIS)
REMOVE = RemoveVoter(REPLICA, BASIS)
CHANGE = VoterChange("k", 3, DIRECTORY)


class Leader:
    """A connection whose other end answers with one error code; None: not at all."""

    address = Address("kafka-1", 9093)
    timeout_s = 2.0

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.asked: list[tuple[str, int, bytes]] = []

    async def ask(self, api: Api, version: int, body: bytes) -> Reader:
        self.asked.append((api.name, version, body))
        if self.code is None:
            raise KafkaUnreachableError("kafka-1:9093 did not answer")
        answer = writer.i32(0) + writer.i16(self.code) + writer.text("why") + writer.NO_TAGS
        return Reader(api.name, memoryview(answer), flexible=True)


async def request(leader: Leader, action: AddVoter | RemoveVoter) -> None:
    if isinstance(action, AddVoter):
        await add_voter(cast("Any", leader), "k", action, "CONTROLLER")
    else:
        await remove_voter(cast("Any", leader), "k", action)


async def test_the_replica_is_named_by_its_id_and_its_directory() -> None:
    leader = Leader(ErrorCode.NONE)
    await request(leader, ADD)
    await request(leader, REMOVE)
    listener = Listener("CONTROLLER", "kafka-3", 9093)
    added = voter_changes.encode_add_request(CHANGE, [listener], 2000, 0)
    removed = voter_changes.encode_remove_request(CHANGE)
    assert leader.asked == [("AddRaftVoter", 0, added), ("RemoveRaftVoter", 0, removed)]


@pytest.mark.parametrize("action", [ADD, REMOVE])
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.DUPLICATE_VOTER, "not_done"),
        (ErrorCode.VOTER_NOT_FOUND, "not_done"),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "not_done"),
        (ErrorCode.REQUEST_TIMED_OUT, "unknown"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "unknown"),
    ],
)
async def test_a_refusal_has_kafkas_name_and_says_whether_it_may_be_done(
    action: AddVoter | RemoveVoter, code: ErrorCode, outcome: str
) -> None:
    """A change that timed out may be in the log, and be committed later."""
    with pytest.raises(NodeRefusedError, match=r"kafka-1:9093 refused .*: why") as refused:
        await request(Leader(code), action)
    assert (refused.value.error, refused.value.outcome) == (code.name, outcome)


@pytest.mark.parametrize("action", [ADD, REMOVE])
async def test_without_an_answer_the_outcome_is_unknown(action: AddVoter | RemoveVoter) -> None:
    with pytest.raises(NodeUnreachableError) as lost:
        await request(Leader(None), action)
    assert lost.value.outcome == "unknown"
