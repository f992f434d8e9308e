"""Elections in their details: what a candidate believes, tells, and when it tries again."""

from __future__ import annotations

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Effect, SendRequest, SendResponse
from raftnode.core.elections import election
from raftnode.core.events import (
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    TimePassed,
)
from raftnode.core.messages import (
    EndQuorumEpochRequest,
    ErrorCode,
    Request,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.roles import Candidate, Follower, Prospective, Unattached
from raftnode.core.types import Epoch, LogPosition, Offset, ReplicaKey


def candidate(*names: str) -> Playbook:
    """`2` asks for real votes in epoch 2, and nothing of it has arrived; 1 led and is away."""
    book = Playbook.formed(*names)
    book.isolate("1")
    for node in names[1:]:
        role = book[node].replica.role
        assert isinstance(role, Follower)
        assert role.heard_at_ms is not None
        book.now_ms = max(book.now_ms, role.heard_at_ms + book.config.fetch_timeout_ms)
    book.impatient("2")
    book.deliver("pre-vote")
    book.deliver("pre-vote-answer")
    assert isinstance(book["2"].replica.role, Candidate)
    return book


def told(book: Playbook, answer: VoteResponse) -> None:
    """3 answers the candidate's request."""
    asked = VoteRequest(
        Epoch(2), key_of("2"), key_of("3"), book["2"].replica.log.position, pre_vote=False
    )
    book.give("2", ResponseReceived(key_of("3"), asked, answer))


def ends(effects: list[Effect]) -> list[tuple[ReplicaKey | None, Request]]:
    """Who is told that the epoch is given up; Fetches do not matter here."""
    return [
        (one.target, one.request)
        for one in effects
        if isinstance(one, SendRequest) and isinstance(one.request, EndQuorumEpochRequest)
    ]


@pytest.mark.rule("P11")
@pytest.mark.parametrize("leader", [None, key_of("2"), key_of("3")], ids=str)
def test_answer_of_a_higher_epoch_ends_the_election(leader: ReplicaKey | None):
    """It follows a leader that is named, but never itself."""
    book = candidate("1", "2", "3")
    told(book, VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(9), leader, granted=False))
    replica = book["2"].replica
    assert replica.epoch == 9
    assert replica.leader == (leader if leader == key_of("3") else None)
    role = replica.role
    assert isinstance(role, Follower if leader == key_of("3") else Unattached)
    if isinstance(role, Unattached):
        assert role.election_at_ms == replica.first_election_deadline()


@pytest.mark.rule("P17", "S17")
@pytest.mark.without(
    "core.elections.election:withdraw",
    "others = tuple(key for key in replica.log.voters if key != replica.key)",
    "others = ()",
)
def test_stopping_candidate_tells_each_other_voter_once_and_names_all_as_successors():
    book = candidate("1", "2", "3", "4")
    effects = book.give("2", ShutdownRequested())
    sent = ends(effects)
    others = tuple(key_of(name) for name in ("1", "3", "4"))
    assert sent == [
        (voter, EndQuorumEpochRequest(Epoch(2), None, voter, others)) for voter in others
    ]
    assert isinstance(book["2"].replica.role, Unattached)


@pytest.mark.rule("P17")
def test_stopping_prospective_says_nothing():
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.stand("2")
    assert isinstance(book["2"].replica.role, Prospective)
    effects = book.give("2", ShutdownRequested())
    assert ends(effects) == []


@pytest.mark.rule("P11", "P40")
def test_candidate_that_cannot_win_waits_and_then_asks_for_pre_votes_again():
    book = candidate("1", "2", "3")
    before = book.now_ms
    replica = book["2"].replica
    for voter in ("1", "3"):
        asked = VoteRequest(
            Epoch(2), key_of("2"), key_of(voter), replica.log.position, pre_vote=False
        )
        denied = VoteResponse(ErrorCode.NONE, Epoch(2), None, granted=False)
        book.give("2", ResponseReceived(key_of(voter), asked, denied))
    role = replica.role
    assert isinstance(role, Prospective)
    assert role.retries == 1
    assert role.retry_at_ms == role.gives_up_at_ms
    assert before < role.retry_at_ms <= before + book.config.election_backoff_max_ms
    assert replica.epoch == 2
    deadline = book["2"].core.next_deadline_ms()
    assert deadline is not None
    assert deadline <= role.retry_at_ms


@pytest.mark.rule("P8")
def test_refused_candidate_of_a_higher_epoch_does_not_delay_the_refuser():
    """A longer log stands when it would have stood; who has no such time waits again."""
    book = candidate("1", "2", "3")
    short = LogPosition(Epoch(1), Offset(1))

    def ask(name: str, epoch: int) -> None:
        request = VoteRequest(Epoch(epoch), key_of("1"), key_of(name), short, pre_vote=False)
        book.give(name, RequestReceived(book.number(), key_of("1"), request))

    before = book["3"].replica.role
    assert isinstance(before, Unattached | Follower)
    later = book.now_ms + 345
    before.election_at_ms = later
    ask("3", 7)
    after = book["3"].replica.role
    assert isinstance(after, Unattached)
    assert (book["3"].replica.epoch, after.election_at_ms) == (7, later)
    ask("2", 7)
    replica = book["2"].replica
    assert isinstance(replica.role, Unattached)
    assert replica.role.election_at_ms == replica.first_election_deadline()


@pytest.mark.rule("P8", "P10")
def test_refused_request_is_never_granted():
    """An error and a grant in one answer would count as a vote."""
    book = candidate("1", "2", "3")
    last = LogPosition(Epoch(9), Offset(99))
    for pre_vote in (True, False):
        for source, asked_of, epoch in (
            ("1", key_of("2"), 7),
            ("1", key_of("3'"), 7),
            ("2", key_of("3"), 7),
            ("1", key_of("3"), 0),
        ):
            request = VoteRequest(Epoch(epoch), key_of("1"), asked_of, last, pre_vote=pre_vote)
            effects = book.give("3", RequestReceived(book.number(), key_of(source), request))
            [answer] = [one.response for one in effects if isinstance(one, SendResponse)]
            assert isinstance(answer, VoteResponse)
            assert answer.error is not ErrorCode.NONE
            assert answer.granted is False


def answered(
    book: Playbook, source: str, voter: str, *, leader: ReplicaKey | None = None, granted: bool
) -> None:
    """`source` answers what 2 asked of `voter`, about the election that goes on."""
    replica = book["2"].replica
    pre_vote = isinstance(replica.role, Prospective)
    asked = VoteRequest(
        replica.epoch, key_of("2"), key_of(voter), replica.log.position, pre_vote=pre_vote
    )
    answer = VoteResponse(ErrorCode.NONE, replica.epoch, leader, granted=granted)
    book.give("2", ResponseReceived(key_of(source), asked, answer))


@pytest.mark.rule("P11")
def test_vote_counts_only_from_the_voter_that_was_asked():
    book = candidate("1", "2", "3", "4", "5")
    role = book["2"].replica.role
    assert isinstance(role, Candidate)
    answered(book, "3", "4", granted=True)
    answered(book, "9", "9", granted=True)
    assert role.granted == {key_of("2")}
    answered(book, "3", "3", granted=True)
    assert role.granted == {key_of("2"), key_of("3")}


@pytest.mark.rule("S1", "P23")
def test_prospective_replica_remembers_who_leads_unless_that_is_its_own_address():
    book = Playbook.formed("1", "2", "3", "4", "5")
    book.isolate("1")
    book.stand("2")
    role = book["2"].replica.role
    assert isinstance(role, Prospective)
    answered(book, "3", "3", leader=key_of("4"), granted=False)
    assert role.leader_hint == key_of("4")
    answered(book, "4", "4", leader=key_of("2'"), granted=False)
    assert role.leader_hint is None


@pytest.mark.rule("P8")
def test_refused_candidate_of_the_same_epoch_changes_nothing():
    """Neither the role nor the Fetch that is on its way."""
    book = candidate("1", "2", "3")
    book["3"].replica.become_unattached(Epoch(7))
    before = book["3"].replica.role
    short = LogPosition(Epoch(1), Offset(1))
    request = VoteRequest(Epoch(7), key_of("1"), key_of("3"), short, pre_vote=False)
    book.give("3", RequestReceived(book.number(), key_of("1"), request))
    assert book["3"].replica.role is before
    assert book["3"].replica.state.voted is None


@pytest.mark.rule("S9")
def test_epoch_of_a_voter_that_asks_without_success_is_adopted_and_an_election_held_soon():
    book = candidate("1", "2", "3")
    asked = VoteRequest(
        Epoch(8), key_of("2"), key_of("3"), LogPosition(Epoch(1), Offset(1)), pre_vote=True
    )
    book.give("3", RequestReceived(book.number(), key_of("2"), asked))
    replica = book["3"].replica
    assert replica.epoch == 8
    assert isinstance(replica.role, Unattached)
    assert replica.role.election_at_ms == replica.first_election_deadline()
    assert replica.role.election_at_ms < replica.election_deadline()


def test_voter_that_knows_no_leader_when_it_starts_stands_soon():
    """No replica is to be waited for."""
    book = Playbook.formed("1", "2", "3")
    book["3"].replica.become_unattached(Epoch(7))
    book["3"].disk.state = book["3"].replica.state
    book.crash("3", keep_unflushed=True)
    book["3"].start(book.now_ms)
    replica = book["3"].replica
    assert isinstance(replica.role, Unattached)
    assert replica.role.election_at_ms == replica.first_election_deadline()


def test_blank_replica_wants_never_to_be_woken():
    book = Playbook.formed("1")
    assert book.blank("2").core.next_deadline_ms() is None


@pytest.mark.rule("P40")
def test_who_asks_without_success_waits_a_while_and_then_asks_again():
    book = Playbook.formed("1", "2", "3")
    book.isolate("2")
    book.stand("2")
    role, config = book["2"].replica.role, book.config
    assert isinstance(role, Prospective)
    assert (role.retry_at_ms, role.retries) == (None, 0)
    effects = book.give("2", RequestFailed(key_of("1"), asked_by(book, "2")))
    assert not votes_asked(effects)
    book.now_ms = role.gives_up_at_ms
    assert not votes_asked(book.give("2", TimePassed()))
    assert book["2"].replica.role is role
    assert role.retry_at_ms is not None
    assert book.now_ms < role.retry_at_ms <= book.now_ms + 2 * config.retry_backoff_ms
    book.now_ms = max(book.now_ms, role.retry_at_ms - 1)
    assert not votes_asked(book.give("2", TimePassed()))
    assert book["2"].core.next_deadline_ms() == role.retry_at_ms
    book.now_ms = role.retry_at_ms
    assert votes_asked(book.give("2", TimePassed())) == [key_of("1"), key_of("3")]
    again = book["2"].replica.role
    assert isinstance(again, Prospective)
    assert (again.retry_at_ms, again.retries) == (None, 1)
    assert again.gives_up_at_ms == book.now_ms + config.election_timeout_ms


def asked_by(book: Playbook, name: str) -> VoteRequest:
    replica = book[name].replica
    last = replica.log.position
    return VoteRequest(replica.epoch, replica.key, key_of("1"), last, pre_vote=True)


def votes_asked(effects: list[Effect]) -> list[ReplicaKey | None]:
    return [
        one.target
        for one in effects
        if isinstance(one, SendRequest) and isinstance(one.request, VoteRequest)
    ]


@pytest.mark.rule("P40")
def test_who_wins_the_pre_vote_has_lost_as_many_elections_as_before():
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.stand("2")
    role = book["2"].replica.role
    assert isinstance(role, Prospective)
    role.retries = 3
    answered(book, "3", "3", granted=True)
    after = book["2"].replica.role
    assert isinstance(after, Candidate)
    assert after.retries == 3


@pytest.mark.rule("P40")
def test_first_candidacy_counts_no_earlier_ones():
    book = candidate("1", "2", "3")
    role = book["2"].replica.role
    assert isinstance(role, Candidate)
    assert role.retries == 0
    book["3"].replica.become_unattached(Epoch(7))
    election.campaign(book["3"].replica)
    role = book["3"].replica.role
    assert isinstance(role, Candidate)
    assert role.retries == 0
