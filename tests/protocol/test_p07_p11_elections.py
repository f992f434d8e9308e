"""P7-P11: who votes for whom, and what the winner does.

KIP-595, Vote: "1. First ensure that the leader epoch is the same ... 2. Next check if the
voter has already voted; 3. ... ensure that the candidate's log is at least as long".
"""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import (
    AppendBatches,
    PersistQuorumState,
    SendRequest,
    SendResponse,
)
from raftnode.core.events import RequestReceived, ResponseReceived
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    ErrorCode,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.records import LeaderChange
from raftnode.core.roles import Prospective
from raftnode.core.types import Epoch, LogPosition, Offset


def leaderless() -> Playbook:
    """2 and 3 hold six records of epoch 1 and have not heard of a leader for a while."""
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.drop()
    book.now_ms += 2000
    return book


def ask(
    book: Playbook, target: str, candidate: str, epoch: int, *, log_epoch: int = 1, end: int = 6
) -> VoteResponse:
    last = LogPosition(Epoch(log_epoch), Offset(end))
    request = VoteRequest(Epoch(epoch), key_of(candidate), key_of(target), last, pre_vote=False)
    effects = book.give(target, RequestReceived(book.number(), key_of(candidate), request))
    [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    assert isinstance(answer, VoteResponse)
    return answer


@pytest.mark.rule("P7")
def test_p07_candidate_persists_its_vote_before_it_asks():
    book = leaderless()
    book.impatient("2")
    book.deliver("pre-vote")
    book["2"].effects.clear()
    book.deliver("pre-vote-answer")
    kinds = [type(effect) for effect in book["2"].effects]
    assert kinds.index(PersistQuorumState) < kinds.index(SendRequest)
    [persisted] = [e.state for e in book["2"].effects if isinstance(e, PersistQuorumState)]
    assert (persisted.epoch, persisted.voted) == (2, key_of("2"))


@pytest.mark.rule("P7")
@pytest.mark.without(
    "core.elections.election:_judge_vote",
    "if state.voted is not None or state.leader is not None:",
    "if False:",
)
def test_p07_vote_never_changes_within_an_epoch():
    book = leaderless()
    assert ask(book, "2", "3", 2).granted
    assert not ask(book, "2", "9", 2).granted
    assert ask(book, "2", "3", 2).granted
    assert book["2"].disk.state.voted == key_of("3")


@pytest.mark.rule("P7")
@pytest.mark.without(
    "core.elections.election:_judge_vote",
    "state.voted == request.candidate",
    "state.voted.node_id == request.candidate.node_id",
)
def test_p07_vote_is_for_id_and_uuid():
    """rv1: "already voted, only same candidate" means the same storage."""
    book = leaderless()
    assert ask(book, "2", "3", 2).granted
    assert not ask(book, "2", "3'", 2).granted


@pytest.mark.rule("P7")
@pytest.mark.without(
    "core.replica:Replica.persist",
    "self.emit(PersistQuorumState(state))",
    "pass",
)
def test_p07_vote_survives_a_restart():
    book = leaderless()
    assert ask(book, "2", "3", 2).granted
    book.crash("2")
    book.restart("2")
    assert not ask(book, "2", "9", 2).granted


@pytest.mark.rule("P8")
@pytest.mark.without(
    "core.elections.election:_judge_vote",
    "replica.persist(QuorumState(request.epoch, None, request.candidate))",
    "replica.state = QuorumState(request.epoch, None, request.candidate)",
)
def test_p08_vote_is_persisted_before_it_is_said():
    book = leaderless()
    book["2"].effects.clear()
    ask(book, "2", "3", 2)
    kinds = [type(effect) for effect in book["2"].effects]
    assert PersistQuorumState in kinds
    assert kinds.index(PersistQuorumState) < kinds.index(SendResponse)


@pytest.mark.rule("P8")
@pytest.mark.without(
    "core.elections.election:_judge_vote",
    "is not None or state.leader is not None:\n"
    "        return state.voted == request.candidate and state.leader is None",
    "is not None:\n        return state.voted == request.candidate",
)
def test_p08_no_vote_in_an_epoch_whose_leader_is_known():
    """KIP-595: "the voter ... has not voted and doesn't know of a leader" in that epoch."""
    book = leaderless()
    begin = BeginQuorumEpochRequest(Epoch(2), key_of("3"), key_of("2"), None)
    book.give("2", RequestReceived(book.number(), key_of("3"), begin))
    state = book["2"].disk.state
    assert (state.epoch, state.leader, state.voted) == (2, key_of("3"), None)
    book.wait(10 * book.config.fetch_timeout_ms, "3")
    for candidate in ("1", "3", "9"):
        assert not ask(book, "2", candidate, 2).granted
    assert book["2"].disk.state == state
    assert ask(book, "2", "1", 3).granted


@pytest.mark.rule("P8")
@pytest.mark.parametrize(
    ("log_epoch", "end", "granted"),
    [(1, 6, True), (1, 7, True), (1, 5, False), (2, 1, True), (0, 99, False)],
)
def test_p08_candidates_log_must_reach_as_far(log_epoch: int, end: int, granted: bool):
    book = leaderless()
    assert ask(book, "2", "3", 2, log_epoch=log_epoch, end=end).granted is granted
    assert book["2"].replica.epoch == 2  # a larger epoch is adopted either way


@pytest.mark.rule("P8")
@pytest.mark.without(
    "core.elections.election:_judge",
    "if request.epoch < replica.epoch:",
    "if False:",
    "core.replica:Replica.persist",
    "assert state.epoch >= self.epoch",
    "",
)
def test_p08_smaller_epoch_is_fenced():
    book = leaderless()
    ask(book, "2", "3", 5)
    answer = ask(book, "2", "9", 4)
    assert (answer.error, answer.granted) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    assert answer.epoch == 5


@pytest.mark.rule("P10")
def test_p10_candidate_asks_its_own_set_only():
    book = leaderless()
    book.observer("4")
    book.drop()
    book.impatient("2")
    assert {m.target for m in book.pending if m.kind == "pre-vote"} == {"1", "3"}


@pytest.mark.rule("P11")
@pytest.mark.without(
    "core.replication.leadership:become_leader",
    "replica.persist(QuorumState(state.epoch, replica.key, state.voted))",
    "replica.state = QuorumState(state.epoch, replica.key, state.voted)",
)
def test_p11_winner_persists_then_appends_leader_change_then_tells_the_voters():
    book = leaderless()
    book.impatient("2")
    book["2"].effects.clear()
    book.settle()
    kinds = [type(effect) for effect in book["2"].effects]
    leads = [
        at
        for at, effect in enumerate(book["2"].effects)
        if isinstance(effect, PersistQuorumState) and effect.state.leader == key_of("2")
    ]
    assert len(leads) == 1
    begin = next(
        at
        for at, effect in enumerate(book["2"].effects)
        if isinstance(effect, SendRequest) and isinstance(effect.request, BeginQuorumEpochRequest)
    )
    assert leads[0] < kinds.index(AppendBatches) < begin
    [batch] = [e.batches[0] for e in book["2"].effects if isinstance(e, AppendBatches)]
    assert batch.epoch == 2
    assert batch.control == (
        LeaderChange(key_of("2"), tuple(key_of(n) for n in "123"), (key_of("2"), key_of("3"))),
    )


@pytest.mark.rule("P11")
@pytest.mark.without(
    "core.elections.election:_count",
    "elif len(voters) - denied < voters.majority:",
    "elif False:",
)
def test_p11_candidate_backs_off_once_a_majority_is_impossible():
    book = leaderless()
    book["3"].replica.role.heard_at_ms = book.now_ms  # 3 has a fresh leader
    book.isolate("1")
    book.impatient("2")
    book.settle()
    role = book["2"].replica.role
    assert isinstance(role, Prospective)
    assert role.denied == {key_of("3")}
    assert role.retry_at_ms is None, "1 might still grant it"
    book.give("2", ResponseReceived(key_of("1"), *denied_by_1(book)))
    assert role.retry_at_ms is not None
    assert book.now_ms < role.retry_at_ms < book.now_ms + book.config.election_timeout_ms


def denied_by_1(book: Playbook) -> tuple[VoteRequest, VoteResponse]:
    """What 2 asked 1, and that 1 would not vote for it."""
    replica = book["2"].replica
    position = replica.log.position
    asked = VoteRequest(replica.epoch, key_of("2"), key_of("1"), position, pre_vote=True)
    return asked, VoteResponse(ErrorCode.NONE, replica.epoch, None, granted=False)


@pytest.mark.rule("P40")
@pytest.mark.without(
    "core.replica:Replica.backoff",
    "self.config.election_backoff_max_ms,",
    "10**9,",
)
@pytest.mark.without(
    "core.replica:Replica.backoff",
    "<< min(retries + 1, 16)",
    "<< 1",
)
def test_p40_backoff_grows_and_is_bounded():
    book = leaderless()
    replica = book["2"].replica
    waits = [replica.backoff(retries) for retries in range(30)]
    assert waits == sorted(waits)
    assert waits[0] < waits[3]
    assert max(waits) <= book.config.election_backoff_max_ms
