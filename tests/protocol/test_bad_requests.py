"""P2, P3, P8, P10, P13, P15, P18, P21, S1, S9, S16: whatever a peer says, only rules change state.

Every field of every request takes every value that the decoders let through: of another
epoch, another replica, none, negative where that is allowed, and as large as its bytes hold.
Each role must answer once, with an error that has a number, and an error changes nothing
but where a rule says so.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofkit.playbook import Message, Playbook, key_of
from raftnode.core.effects import (
    AppendBatches,
    Effect,
    Halt,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    SendResponse,
    ServeFetch,
    ServeSnapshot,
    TruncateLog,
)
from raftnode.core.events import RequestReceived
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from raftnode.core.raft import EPOCH_JUMP_MAX
from raftnode.core.replica import Replica
from raftnode.core.roles import Leader, role_name
from raftnode.core.state import QuorumState
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey

pytestmark = pytest.mark.rule("P3", "S9", "S16")

INT32, INT64 = 2**31 - 1, 2**63 - 1
ROLES = ("blank", "observer", "unattached", "follower", "leader", "resigned", "candidate")

KEYS = (
    *(key_of(name) for name in ("1", "2", "3", "3'", "4", "9")),
    ReplicaKey(NodeId(INT32), uuid.UUID(int=2**128 - 1)),
)
keys = st.sampled_from(KEYS)
epochs = st.sampled_from([-1, 0, 1, 2, 3, EPOCH_JUMP_MAX, EPOCH_JUMP_MAX + 9, INT32]).map(Epoch)
offsets = st.sampled_from([0, 1, 5, 6, 7, 10**6, INT64]).map(Offset)
numbers = st.sampled_from([0, 1, 2, 10**12, INT64])
endpoints = st.sampled_from([None, Endpoint("elsewhere", 1)])
requests: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        VoteRequest, epochs, keys, keys, st.builds(LogPosition, epochs, offsets), st.booleans()
    ),
    st.builds(BeginQuorumEpochRequest, epochs, keys, keys, endpoints),
    st.builds(
        EndQuorumEpochRequest,
        epochs,
        st.one_of(st.none(), keys),
        keys,
        st.lists(keys, max_size=4).map(tuple),
    ),
    st.builds(
        FetchRequest,
        epoch=epochs,
        replica=keys,
        fetch_offset=offsets,
        last_fetched_epoch=epochs,
        acknowledged_offset=st.one_of(offsets, st.just(Offset(-1))),
        high_watermark=st.one_of(offsets, st.just(Offset(-1))),
        round_token=numbers,
        incarnation=numbers,
        max_bytes=st.sampled_from([0, 1, INT32]),
        max_wait_ms=st.sampled_from([0, 1, INT32]),
        sequence=numbers,
        endpoint=endpoints,
        raft_version_max=st.sampled_from([0, 1, 2, 2**15 - 1]),
        promise_ms=numbers,
        wants_high_watermark=st.booleans(),
    ),
    st.builds(
        FetchSnapshotRequest,
        epochs,
        keys,
        st.builds(LogPosition, epochs, st.one_of(offsets, st.just(Offset(-1)))),
        position=numbers,
        max_bytes=st.sampled_from([0, 1, INT32]),
        round_token=numbers,
        endpoint=endpoints,
    ),
)


def seated(role: str) -> tuple[Playbook, str]:
    """A replica in that role, and its name."""
    if role == "blank":
        book = Playbook()
        book.blank("1")
        return book, "1"
    book = Playbook.formed("1", "2", "3")
    if role == "observer":
        book.observer("4")
        book.run(1500)
        return book, "4"
    if role in {"follower", "leader"}:
        return book, {"follower": "2", "leader": "1"}[role]
    if role == "resigned":
        book.crash("1")
        book.restart("1")
        return book, "1"
    book.isolate("2")
    if role == "unattached":
        book.crash("2")
        book["2"].disk.state = QuorumState(Epoch(2))
        book.restart("2")
        return book, "2"
    book.stand("2")
    return book, "2"


@dataclass(frozen=True)
class Seen:
    """What no bad request may change."""

    role: str
    state: QuorumState
    leader: ReplicaKey | None
    end: Offset
    high_watermark: Offset
    voters: str

    @classmethod
    def of(cls, replica: Replica) -> Seen:
        return cls(
            role_name(replica.role),
            replica.state,
            replica.leader,
            replica.log.end,
            replica.high_watermark,
            str(replica.log.voters),
        )


def answers_of(effects: list[Effect], number: int) -> list[ErrorCode]:
    return [
        effect.response.error
        for effect in effects
        if isinstance(effect, SendResponse | ServeFetch | ServeSnapshot)
        and effect.request_id == number
    ]


def may_change_in_spite_of(error: ErrorCode, request: Request) -> bool:
    """The rules by which a request that is refused still moves something."""
    match request:
        case (
            FetchRequest() | FetchSnapshotRequest()
        ):  # a voter that can never follow a lower epoch again frees itself
            return error == ErrorCode.UNKNOWN_LEADER_EPOCH
        case EndQuorumEpochRequest():  # P18: not listed, but the leader is gone all the same
            return error == ErrorCode.INCONSISTENT_VOTER_SET
        case _:
            return False


@pytest.mark.parametrize("role", ROLES)
@settings(max_examples=150, deadline=None)
@given(said=st.lists(st.tuples(keys, requests), min_size=1, max_size=4))
def test_whatever_a_peer_asks(role: str, said: list[tuple[ReplicaKey, Request]]):
    book, name = seated(role)
    replica = book[name].replica
    for source, request in said:
        if source == replica.key:
            continue  # a connection to oneself is none
        before, number = Seen.of(replica), book.number()
        effects = book.give(name, RequestReceived(number, source, request))
        after, answers = Seen.of(replica), answers_of(effects, number)
        kinds = [type(effect) for effect in effects]
        assert not {Halt, TruncateLog, PersistLatch, PersistClusterId} & set(kinds)
        assert after.high_watermark >= before.high_watermark
        assert after.end >= before.end
        _check_state(before.state, after.state)
        if request.epoch > before.state.epoch + EPOCH_JUMP_MAX:
            assert (answers, after) == ([], before), "damage is not answered and changes nothing"
            continue
        parked = isinstance(request, FetchRequest) and isinstance(replica.role, Leader)
        assert len(answers) == 1 or (parked and not answers)
        if answers and answers[0] != ErrorCode.NONE:
            changed = after != before or AppendBatches in kinds
            assert not changed or may_change_in_spite_of(answers[0], request), answers
        persisted = [effect.state for effect in effects if isinstance(effect, PersistQuorumState)]
        assert (after.state != before.state) == bool(persisted)
        assert not persisted or persisted[-1] == after.state


def _check_state(before: QuorumState, after: QuorumState) -> None:
    """The epoch only rises, and within one neither vote nor leader is exchanged (P7, P13)."""
    assert after.epoch >= before.epoch
    if after.epoch == before.epoch:
        assert before.voted in {None, after.voted}
        assert before.leader in {None, after.leader}


@pytest.mark.rule("P2", "S9")
@pytest.mark.parametrize("role", ["follower", "leader", "candidate", "resigned"])
@pytest.mark.parametrize("source", ["9", "3'"], ids=["stranger", "another-disk-of-a-voter"])
def test_who_is_no_voter_moves_no_epoch(role: str, source: str):
    """Taking the check of the source out of Fetch, FetchSnapshot, Begin or End makes this fail."""
    book, name = seated(role)
    replica = book[name].replica
    before, key = Seen.of(replica), key_of(source)
    for request in (
        BeginQuorumEpochRequest(Epoch(before.state.epoch), key, replica.key, None),
        EndQuorumEpochRequest(Epoch(9), None, replica.key, (replica.key,)),
        EndQuorumEpochRequest(Epoch(9), key, replica.key, (replica.key,)),
        VoteRequest(Epoch(9), key, replica.key, LogPosition(Epoch(0), Offset(1)), pre_vote=True),
        FetchRequest(
            Epoch(9), key, Offset(0), Epoch(-1), Offset(0), Offset(0), 0, 1, 1, 0, sequence=10**12
        ),
        FetchSnapshotRequest(Epoch(9), key, LogPosition(Epoch(0), Offset(1)), 0, 1),
    ):
        book.give(name, RequestReceived(book.number(), key, request))
        if isinstance(request, BeginQuorumEpochRequest) and before.leader is None:
            continue
        assert Seen.of(replica) == before, request


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.replication.leadership:may_say", "own and request.round_token <= role.round_token", "own"
)
@pytest.mark.parametrize("asks", ["Fetch", "FetchSnapshot"])
def test_token_of_a_round_that_was_never_begun_is_refused(asks: str):
    """Else one damaged frame of a voter would confirm a deposed leader's reads for ever."""
    book, name = seated("leader")
    leader, voter = book[name].replica, key_of("2")
    assert isinstance(leader.role, Leader)
    begun = leader.role.round_token
    book.isolate(name)

    def request(token: int) -> Request:
        end, epoch = leader.log.end, leader.epoch
        if asks == "FetchSnapshot":
            snapshot = LogPosition(Epoch(1), Offset(1))
            return FetchSnapshotRequest(epoch, voter, snapshot, 0, 1, round_token=token)
        return FetchRequest(
            epoch, voter, end, epoch, end, end, token, 1, 1, 0, sequence=10**12 + token
        )

    for token in (begun + 1, INT64 - 10**12):
        number, before = book.number(), str(leader.role.progress[voter])
        effects = book.give(name, RequestReceived(number, voter, request(token)))
        assert answers_of(effects, number) == [ErrorCode.INVALID_REQUEST]
        assert str(leader.role.progress[voter]) == before
    read = book.confirm(name)
    assert book.answer(read) is None
    book.give(name, RequestReceived(book.number(), voter, request(begun + 1)))
    assert book.answer(read) is not None


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.replication.fetcher:_correct_token",
    "min(role.round_token, response.round_token)",
    "role.round_token",
)
def test_a_damaged_token_costs_a_follower_one_request():
    """Else the leader refuses all that it asks for, until it gives the leader up."""
    book = Playbook.formed("1", "2")
    book.run(1000)
    spoilt: list[Message] = []

    def spoil(message: Message) -> None:
        if not spoilt and message.target == "2" and message.kind == "fetch-answer":
            assert isinstance(message.response, FetchResponse)
            message.response = replace(message.response, round_token=1 << 40)
            spoilt.append(message)

    book.on_delivery = spoil
    book.append("1", b"sent with a damaged token")
    book.run(100)
    assert len(spoilt) == 1
    book.append("1", b"sent after it")
    book.run(100)
    assert book["1"].high_watermark == book["2"].replica.log.end == book["1"].replica.log.end
