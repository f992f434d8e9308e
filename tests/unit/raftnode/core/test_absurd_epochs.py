"""An epoch from nowhere must not take the quorum to the end of all epochs."""

import random
import uuid

import pytest

from raftnode.core.effects import Fact, PersistQuorumState
from raftnode.core.events import RequestReceived, ResponseReceived, TimePassed
from raftnode.core.log_index import LogIndex
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.raft import EPOCH_JUMP_MAX, RaftCore
from raftnode.core.roles import Follower
from raftnode.core.start_state import StartState
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, LogPosition, NodeId, Offset, ReplicaKey, Voter, VoterSet

OWN, PEER = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2))
LAST = LogPosition(Epoch(2**31 - 1), Offset(10**9))


def make() -> RaftCore:
    voters = VoterSet.of([Voter(OWN, None), Voter(PEER, None)])
    return RaftCore(
        StartState(OWN, log=LogIndex(voters), state=QuorumState(Epoch(5)), cluster_id="c"),
        rng=random.Random(0),
        now_ms=0,
    )


def requests(epoch: int):
    at = Epoch(epoch)
    yield VoteRequest(at, PEER, OWN, LAST, False)
    yield VoteRequest(at, PEER, OWN, LAST, True)
    yield BeginQuorumEpochRequest(at, PEER, OWN, None)
    yield EndQuorumEpochRequest(at, PEER, OWN, (OWN,))


@pytest.mark.parametrize("request_", list(requests(5 + EPOCH_JUMP_MAX + 1)), ids=repr)
def test_a_request_of_an_absurd_epoch_changes_nothing(request_):
    core = make()
    effects = core.handle(RequestReceived(1, PEER, request_), 1)
    assert core.replica.epoch == 5
    assert not any(isinstance(effect, PersistQuorumState) for effect in effects)
    fields = (("epoch", 5), ("claimed", request_.epoch), ("source", str(PEER)))
    assert Fact("epoch_rejected", fields) in effects


@pytest.mark.parametrize("request_", list(requests(5 + EPOCH_JUMP_MAX)), ids=repr)
def test_an_epoch_that_a_long_absence_can_explain_is_taken(request_):
    core = make()
    core.handle(RequestReceived(1, PEER, request_), 1)
    assert core.replica.epoch >= 5 + EPOCH_JUMP_MAX


def test_a_response_of_an_absurd_epoch_is_no_answer():
    core = make()
    absurd = Epoch(2**31 - 1)
    asked = VoteRequest(Epoch(5), OWN, PEER, LAST, True)
    answer = VoteResponse(ErrorCode.NONE, absurd, None, True)
    effects = core.handle(ResponseReceived(PEER, asked, answer), 1)
    [told] = [one for one in effects if isinstance(one, Fact) and one.name == "epoch_rejected"]
    assert told.fields == (("epoch", 5), ("claimed", absurd), ("source", str(PEER)))
    core.handle(ResponseReceived(PEER, asked, FetchResponse(ErrorCode.NONE, absurd, PEER)), 2)
    assert core.replica.epoch == 5


def test_a_fetch_that_is_answered_with_an_absurd_epoch_has_failed():
    core = make()
    core.replica.become_follower(Epoch(5), PEER)
    core.handle(TimePassed(), 1)
    role = core.replica.role
    assert isinstance(role, Follower)
    asked = role.fetching.in_flight
    assert isinstance(asked, FetchRequest)
    absurd = Epoch(5 + EPOCH_JUMP_MAX + 1)
    core.handle(ResponseReceived(PEER, asked, FetchResponse(ErrorCode.NONE, absurd, PEER)), 1)
    assert (role.fetching.in_flight, role.fetching.failures) == (None, 1)
