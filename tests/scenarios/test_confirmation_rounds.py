"""S34: before the voters change, a majority of the set after the change says that it is there.

A voter counts as caught up for a fetch timeout after its last Fetch. The leader would count a voter
that died within that time, and a smaller set with a dead voter in it can have no majority for ever.
"""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import Refused, VoterChangeCompleted
from raftnode.core.membership import voter_changes
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.reasons.waits import AnsweringMajority, CaughtUpMajority
from raftnode.core.roles import ConfirmationRound, Leader

pytestmark = pytest.mark.rule("S34")


def quiet(*names: str, config: CoreConfig | None = None) -> Playbook:
    """A quorum in which no replica was asked lately who is there."""
    book = Playbook.formed(*names, config=config)
    book.run(1000)
    book.rounds_answered = False
    return book


def role_of(book: Playbook, name: str) -> Leader:
    role = book[name].replica.role
    assert isinstance(role, Leader)
    return role


@pytest.mark.parametrize("ago_ms", [500, 1000, 1900])
@pytest.mark.rule("S13")
@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority", "if there < after.majority:", "if False:"
)
def test_no_voter_is_removed_while_the_majority_that_stays_has_a_voter_that_just_died(ago_ms: int):
    """Of {1,2,3} 2 dies and 3 is to go: {1,2} could never commit that, nor anything else."""
    book = quiet("1", "2", "3")
    book.crash("2")
    book.run(ago_ms)
    asked = book.remove("1", "3")
    book.run(6000)
    answer = book.answer(asked)
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.WAITING
    assert (book.leaders, book.voters("1")) == (["1"], "{1,2,3}")
    book.append("1", b"goes on")
    book.settle()
    assert b"goes on" in book["3"].records


@pytest.mark.rule("S13")
@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority", "if there < after.majority:", "if False:"
)
@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority", "if there < after.majority:", "if False:"
)
def test_no_voter_is_added_to_a_lone_voter_that_just_died():
    """{1} becomes {1,2}, which needs both."""
    book = Playbook.formed("1")
    book.observer("2")
    book.run(1500)
    book.rounds_answered = False
    book.crash("2")
    book.run(1000)
    asked = book.add("1", "2")
    book.run(500)
    assert (book.answer(asked), book.voters("1")) == (None, "{1}")
    book.append("1", b"goes on")
    book.settle()
    assert b"goes on" in book["1"].records
    book.restart("2")
    book.run(3000)
    assert isinstance(book.answer(asked), VoterChangeCompleted)


@pytest.mark.rule("P34")
@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority", "if there < after.majority:", "if False:"
)
def test_a_reassignment_removes_who_just_died_before_who_is_well():
    """To {1} from {1,2,3}, of which 3 died: without 2 first, {1,3} would be the end of it."""
    book = quiet("1", "2", "3")
    book.crash("3")
    book.run(1000)
    book.reassign("1", "1")
    book.run(6000)
    assert (book.leaders, book.voters("1")) == (["1"], "{1}")
    book.append("1", b"goes on")
    book.settle()
    assert b"goes on" in book["1"].records


def test_it_costs_one_round_and_waits_for_nothing_else():
    book = quiet("1", "2", "3")
    asked = book.remove("1", "3")
    waits_for = AnsweringMajority(1, of=2, needed=2)
    assert role_of(book, "1").changes[0].waiting_for == waits_for
    before_ms = book.now_ms
    book.settle()
    assert book.now_ms == before_ms
    assert isinstance(book.answer(asked), VoterChangeCompleted)
    assert not role_of(book, "1").confirmation_rounds


def test_fetches_that_wait_for_news_are_answered_at_once():
    """Else a quiet quorum would take as long as it lets its Fetches wait."""
    book = quiet("1", "2", "3")
    assert not book.pending
    book.remove("1", "3")
    assert [message.kind for message in book.pending] == ["fetch-answer"] * 2


@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority",
    "confirmation is None or replica.now_ms - confirmation.began_ms >= lasts_ms",
    "confirmation is None",
)
def test_answers_count_for_twice_an_election_time_out():
    """2 answers at once and dies; 3, whom the set after the change needs too, much later."""
    book = quiet("1", "2", "3", "4", "5", config=CoreConfig(fetch_timeout_ms=9000))
    book.crash("4")
    book.crash("5")
    asked = book.remove("1", "5")
    book.deliver(source="1", target="2")
    book.deliver(source="2", target="1")
    assert role_of(book, "1").changes[0].waiting_for == AnsweringMajority(2, of=4, needed=3)
    book.crash("2")
    began_ms = book.now_ms
    for wait_ms in (2 * book.config.election_timeout_ms - 1, 1):
        assert role_of(book, "1").confirmation_rounds["remove", key_of("5")].began_ms == began_ms
        book.wait(wait_ms, "1")
    assert role_of(book, "1").confirmation_rounds["remove", key_of("5")].began_ms == book.now_ms
    book.deliver(source="1", target="3")
    book.deliver(source="3", target="1")
    assert (book.answer(asked), book.voters("1")) == (None, "{1,2,3,4,5}")
    book.run(1200)
    assert book.voters("1") == "{1,2,3,4,5}"
    assert role_of(book, "1").changes[0].waiting_for == AnsweringMajority(2, of=4, needed=3)


@pytest.mark.without(
    "core.membership.voter_changes:_forget",
    "role.confirmation_rounds.pop((change.kind, change.key), None)",
    "pass",
)
def test_an_answer_to_a_change_that_was_given_up_counts_for_no_later_one():
    """Answers age: 2 says that it is there, and dies before the same is asked for again."""
    book = quiet("1", "2", "3", "4", "5")
    book.crash("4")
    book.crash("5")
    book.isolate("3")
    first = book.remove("1", "5", within_ms=100)
    book.settle()
    book.wait(100, "1")
    assert isinstance(book.answer(first), Refused)
    assert not role_of(book, "1").confirmation_rounds
    book.crash("2")
    again = book.remove("1", "5")
    assert role_of(book, "1").changes[0].waiting_for == AnsweringMajority(1, of=4, needed=3)
    assert book.answer(again) is None


def test_an_answer_to_one_change_counts_for_no_other():
    """The addition of 4 gets its answer from 2 alone; 2 dies; the removal of 3 relies on it."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1500)
    book.rounds_answered = False
    book.isolate("3", "4")
    book.add("1", "4", within_ms=300)
    book.settle()
    assert role_of(book, "1").changes[0].waiting_for == AnsweringMajority(2, of=4, needed=3)
    book.crash("2")
    book.wait(900, "1")
    book.remove("1", "3")
    assert book.voters("1") == "{1,2,3}"
    assert role_of(book, "1").changes[0].waiting_for == AnsweringMajority(1, of=2, needed=2)


@pytest.mark.without(
    "core.membership.voter_changes:what_holds_back",
    "role.confirmation_rounds.pop((change.kind, change.key), None)",
    "pass",
)
def test_what_was_answered_before_something_came_in_the_way_does_not_count_after_it():
    book = quiet("1", "2", "3")
    role = role_of(book, "1")
    role.confirmation_rounds["remove", key_of("3")] = ConfirmationRound(0, book.now_ms)
    role.progress[key_of("2")].last_fetch_ms = -10_000
    book.remove("1", "3")
    assert role.changes[0].waiting_for == CaughtUpMajority(1, of=2, needed=2)
    assert not role.confirmation_rounds


@pytest.mark.without(
    "core.membership.reassignment:_take_in", "role.confirmation_rounds.clear()", "pass"
)
def test_another_target_asks_again():
    book = quiet("1", "2", "3")
    role_of(book, "1").confirmation_rounds["remove", key_of("2")] = ConfirmationRound(
        0, book.now_ms
    )
    book.reassign("1", "1", "3")
    assert not role_of(book, "1").confirmation_rounds


@pytest.mark.without(
    "core.membership.voter_changes:append", "role.confirmation_rounds.clear()", "pass"
)
def test_each_change_asks_again():
    book = quiet("1", "2", "3", "4", "5")
    role_of(book, "1").confirmation_rounds["remove", key_of("4")] = ConfirmationRound(
        0, book.now_ms
    )
    book.remove("1", "5")
    book.settle()
    book.crash("2")
    book.crash("3")
    book.remove("1", "4")
    assert book.voters("1") == "{1,2,3,4}"


@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority",
    "2 * replica.config.election_timeout_ms",
    "replica.config.election_timeout_ms",
)
def test_voters_that_take_as_long_as_they_may_are_waited_for():
    """A Fetch may take an election timeout (S13), and the answer may come with the one after."""
    book = quiet("1", "2", "3")
    book.append("1", b"x")
    book["1"].flush(book.now_ms)
    book.deliver(source="1", target="2")
    book["2"].flush(book.now_ms)
    asked = book.remove("1", "3")
    book.wait(900, "1")
    book.deliver(source="2", target="1")  # it was on its way: no answer yet
    book.deliver(source="1", target="2")
    book.wait(900, "1")
    assert book.voters("1") == "{1,2,3}"
    book.deliver(source="2", target="1")
    assert book.voters("1") == "{1,2}"
    book.settle()
    assert isinstance(book.answer(asked), VoterChangeCompleted)


@pytest.mark.without(
    "core.membership.voter_changes:_confirm_majority", "_able(replica, role, after)", "after"
)
def test_who_is_there_and_not_caught_up_does_not_count():
    book = quiet("1", "2", "3", "4")
    asked = book.remove("1", "4")
    progress = role_of(book, "1").progress
    for name in ("2", "3"):
        progress[key_of(name)].round_token = role_of(book, "1").round_token
    progress[key_of("2")].fenced = progress[key_of("3")].fenced = True
    assert voter_changes._confirm_majority(
        book["1"].replica, role_of(book, "1"), role_of(book, "1").changes[0]
    ) == AnsweringMajority(1, of=3, needed=2)
    assert book.answer(asked) is None
