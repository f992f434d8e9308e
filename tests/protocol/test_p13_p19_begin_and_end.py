"""P12-P19: BeginQuorumEpoch and EndQuorumEpoch.

KIP-595, EndQuorumEpoch: "the first [preferred successor] ... immediately"; the others wait
`min(retryBackoffMaxMs, retryBackoffMs * 2^(N - 1))`.
"""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import SendResponse
from raftnode.core.events import (
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
)
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    Request,
)
from raftnode.core.roles import Resigned, Unattached
from raftnode.core.types import Epoch


def ask(book: Playbook, target: str, source: str, request: Request):
    effects = book.give(target, RequestReceived(book.number(), key_of(source), request))
    [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    return answer


def begin(epoch: int, leader: str, voter: str) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(Epoch(epoch), key_of(leader), key_of(voter), None)


def end(epoch: int, leader: str, voter: str, *successors: str) -> EndQuorumEpochRequest:
    order = tuple(key_of(name) for name in successors)
    return EndQuorumEpochRequest(Epoch(epoch), key_of(leader), key_of(voter), order)


@pytest.mark.rule("P13")
def test_p13_begin_of_a_higher_epoch_makes_a_follower():
    book = Playbook.formed("1", "2", "3")
    answer = ask(book, "2", "3", begin(4, "3", "2"))
    assert answer.error is ErrorCode.NONE
    assert (book["2"].disk.state.epoch, book["2"].disk.state.leader) == (4, key_of("3"))


@pytest.mark.rule("P13")
@pytest.mark.without(
    "core.replication.fetcher:_judge_begin",
    "if request.epoch < replica.epoch:",
    "if False:",
    "core.replica:Replica.persist",
    "assert state.epoch >= self.epoch",
    "",
)
def test_p13_begin_of_a_lower_epoch_is_fenced():
    book = Playbook.formed("1", "2", "3")
    ask(book, "2", "3", begin(4, "3", "2"))
    answer = ask(book, "2", "1", begin(1, "1", "2"))
    assert answer.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.epoch, answer.leader) == (4, key_of("3"))


@pytest.mark.rule("P14")
@pytest.mark.without(
    "core.replication.leadership:handle_begin_response",
    "response is not None and epoch_rules.believed(",
    "False and (",
)
def test_p14_leader_that_is_fenced_follows():
    """What the replica takes over it persists, and it fetches from the leader."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    fenced = BeginQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(2), key_of("2"))
    book.give("1", ResponseReceived(key_of("2"), begin(1, "1", "2"), fenced))
    assert book["1"].role == "follower"
    assert book["1"].replica.leader == key_of("2")
    assert (book["1"].disk.state.epoch, book["1"].disk.state.leader) == (2, key_of("2"))


@pytest.mark.rule("P14")
def test_p14_begin_never_goes_to_observers():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.crash("1")
    seen: list[str | None] = []
    book.on_delivery = lambda m: seen.append(m.target) if m.kind == "begin" else None
    book.run(5000)
    assert seen
    assert "4" not in seen


@pytest.mark.rule("P15")
@pytest.mark.without(
    "core.replication.fetcher:_judge_begin",
    "if request.voter != replica.key:",
    "if False:",
)
def test_p15_begin_for_another_storage_is_refused():
    book = Playbook.formed("1", "2", "3")
    assert ask(book, "2", "3", begin(4, "3", "2'")).error is ErrorCode.INVALID_VOTER_KEY


@pytest.mark.rule("P15")
@pytest.mark.without(
    "core.replication.fetcher:_judge_begin",
    "if not replica.is_voter:",
    "if False:",
)
def test_p15_voter_that_does_not_know_that_it_is_one_says_so():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    assert ask(book, "4", "1", begin(1, "1", "4")).error is ErrorCode.NOT_VOTER


@pytest.mark.rule("P17")
@pytest.mark.without(
    "core.replication.leadership:resign",
    "replica.send(voter, EndQuorumEpochRequest(role.epoch, replica.key, voter, tuple(ranked)))",
    "pass",
)
def test_p17_leader_that_shuts_down_tells_each_voter_once():
    book = Playbook.formed("1", "2", "3")
    book.give("1", ShutdownRequested())
    assert [(m.kind, m.target) for m in book.pending if m.kind == "end"] == [
        ("end", "2"),
        ("end", "3"),
    ]
    book.settle()
    assert book.leaders == ["2"]


@pytest.mark.rule("P18")
@pytest.mark.without(
    "core.replication.fetcher:_judge_end",
    "if request.epoch < replica.epoch:",
    "if False:",
)
@pytest.mark.without(
    "core.replication.fetcher:_judge_end",
    "if known not in {None, request.leader}:",
    "if False:",
)
def test_p18_end_of_a_lower_epoch_or_of_another_leader_is_refused():
    book = Playbook.formed("1", "2", "3")
    assert ask(book, "2", "3", end(1, "3", "2", "2")).error is ErrorCode.INVALID_REQUEST
    assert ask(book, "2", "1", end(0, "1", "2", "2")).error is ErrorCode.FENCED_LEADER_EPOCH
    assert book["2"].replica.leader == key_of("1")


@pytest.mark.rule("P18")
def test_p18_voter_that_is_not_listed_says_so():
    book = Playbook.formed("1", "2", "3")
    answer = ask(book, "2", "1", end(1, "1", "2", "3"))
    assert answer.error is ErrorCode.INCONSISTENT_VOTER_SET


@pytest.mark.rule("P18")
@pytest.mark.without(
    "core.replication.fetcher:handle_end",
    "config.retry_backoff_ms << min(place - 1, 16)",
    "config.retry_backoff_ms",
)
def test_p18_successors_stand_in_their_order():
    book = Playbook.formed("1", "2", "3", "4", "5")
    order = ("2", "3", "4", "5")
    waits: list[int] = []
    for name in order:
        ask(book, name, "1", end(1, "1", name, *order))
        role = book[name].replica.role
        waits.append(getattr(role, "election_at_ms", book.now_ms) - book.now_ms)
    assert book["2"].role == "candidate"
    backoff = book.config.retry_backoff_ms
    assert waits == [0, backoff, 2 * backoff, 4 * backoff], "KIP-595: backoff * 2^(N-1), N > 0"


@pytest.mark.rule("P18")
@pytest.mark.without(
    "core.replication.fetcher:handle_end",
    "min(config.retry_backoff_max_ms, config.retry_backoff_ms << min(place - 1, 16))",
    "config.retry_backoff_ms << min(place - 1, 16)",
)
def test_p18_no_successor_waits_longer_than_the_longest_backoff():
    names = tuple(str(number) for number in range(1, 14))
    book = Playbook.formed(*names)
    ask(book, "13", "1", end(1, "1", "13", *names[1:]))
    role = book["13"].replica.role
    assert isinstance(role, Unattached)
    assert role.election_at_ms - book.now_ms == book.config.retry_backoff_max_ms


@pytest.mark.rule("P16")
@pytest.mark.without(
    "core.replication.leadership:resign",
    "-_known_offset(role, key), key",
    "key",
)
def test_p16_best_successor_comes_first():
    book = Playbook.formed("1", "2", "3")
    book["2"].flushes = False
    book.append("1", b"x")
    book.settle()
    book.give("1", ShutdownRequested())
    [first, *_] = [m.request for m in book.pending if m.kind == "end"]
    assert isinstance(first, EndQuorumEpochRequest)
    assert first.preferred_successors == (key_of("3"), key_of("2"))


@pytest.mark.rule("P19")
@pytest.mark.without(
    "core.raft:RaftCore._response", "replica.become_unattached(response.epoch)", "pass"
)
def test_p19_epoch_in_the_answer_to_end_is_followed():
    book = Playbook.formed("1", "2", "3")
    book.transfer("1", "2")
    book.give("1", answered_with_epoch_7())
    assert book["1"].replica.epoch == 7
    assert isinstance(book["1"].replica.role, Unattached)


@pytest.mark.rule("P19")
@pytest.mark.without("core.raft:RaftCore._response", "and not replica.stopping", "")
def test_p19_epoch_in_the_answer_to_end_is_not_followed_by_one_that_stops():
    book = Playbook.formed("1", "2", "3")
    book.give("1", ShutdownRequested())
    book.give("1", answered_with_epoch_7())
    assert book["1"].replica.epoch == 1
    assert isinstance(book["1"].replica.role, Resigned)


def answered_with_epoch_7() -> ResponseReceived:
    fenced = EndQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(7), key_of("3"))
    return ResponseReceived(key_of("2"), end(1, "1", "2", "2", "3"), fenced)
