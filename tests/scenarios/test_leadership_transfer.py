"""A leadership transfer on request: the log first, then the leadership (P17, P18, P34).

EndQuorumEpoch alone turns a leadership transfer under load into an election that the successor may
lose, and leaves the writes on their way with unknown outcomes.
"""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import AppendAccepted, Done, Refused
from raftnode.core.elections import leadership_transfer
from raftnode.core.events import RequestAbandoned, TimePassed
from raftnode.core.reasons.refusals import Refusal, TransferUnderWay
from raftnode.core.roles import Leader
from raftnode.core.types import Epoch

pytestmark = pytest.mark.rule("P17", "P18")


def loaded(*names: str) -> Playbook:
    """A quiet quorum with one record that the leader alone has."""
    book = Playbook.formed(*names)
    book.run(1000)
    book.append("1", b"on its way")
    book["1"].flush(book.now_ms)
    return book


def role_of(book: Playbook, name: str) -> Leader:
    role = book[name].replica.role
    assert isinstance(role, Leader)
    return role


@pytest.mark.without(
    "core.elections.leadership_transfer:advance",
    "replica.now_ms >= under_way.until_ms or",
    "True or",
)
@pytest.mark.parametrize("names", [("1", "2"), ("1", "2", "3")], ids=["two", "three"])
def test_the_successor_has_the_whole_log_first_and_then_leads(names: tuple[str, ...]):
    book = loaded(*names)
    asked = book.transfer("1", "2")
    assert (book.leaders, book.answer(asked)) == (["1"], None)
    book.settle()
    assert book["1"].high_watermark == book["1"].replica.log.end
    assert (book.leaders, book["2"].replica.epoch) == (["2"], 2)
    assert book.answer(asked) == Done(asked)
    assert b"on its way" in book["2"].records


@pytest.mark.rule("P34")
@pytest.mark.without(
    "core.elections.leadership_transfer:advance",
    "replica.now_ms >= under_way.until_ms or",
    "True or",
)
@pytest.mark.without(
    "core.elections.leadership_transfer:_has_all",
    "return progress.acknowledged >= end and replica.high_watermark >= end",
    "return True",
)
def test_a_reassignment_away_from_the_leader_needs_one_election():
    book = Playbook.formed("1", "2")
    book.run(1000)
    book.reassign("1", "2")
    while role_of(book, "1").transfer is None:
        # A client that never stops: the leader's log is always longer than what it knows of 2's.
        if isinstance(book.answer(book.append("1", b"more")), AppendAccepted):
            book["1"].flush(book.now_ms)
        book.deliver(limit=1)
        book["2"].flush(book.now_ms)
        book["1"].flush(book.now_ms)
    book.run(1000)
    assert (book.leaders, book.voters("2")) == (["2"], "{2}")
    assert book["2"].replica.epoch == 2


@pytest.mark.without(
    "core.replication.leadership:handle_append", "if role.transfer is not None:", "if False:"
)
def test_writes_that_come_meanwhile_are_refused_as_not_done():
    """Else the successor's goal would move on and on."""
    book = loaded("1", "2", "3")
    book.transfer("1", "2")
    answer = book.answer(book.append("1", b"too late"))
    assert isinstance(answer, Refused)
    assert (answer.refusal, answer.outcome) == (Refusal.LEADERSHIP_TRANSFER_PENDING, "not_done")
    assert answer.reason == TransferUnderWay(key_of("2"))
    book.settle()
    assert book.leaders == ["2"]


@pytest.mark.without(
    "core.elections.leadership_transfer:_has_all", "and replica.high_watermark >= end", ""
)
def test_who_wrote_before_learns_that_it_is_committed():
    """Of five, leader and successor are no majority yet."""
    book = loaded("1", "2", "3", "4", "5")
    asked = book.transfer("1", "2")
    for _ in range(3):
        book.deliver(source="1", target="2")
        book["2"].flush(book.now_ms)
        book.deliver(source="2", target="1")
    assert role_of(book, "1").progress[key_of("2")].acknowledged == book["1"].replica.log.end
    assert (book.leaders, book.answer(asked)) == (["1"], None)
    book.settle()
    assert book["1"].high_watermark == book["1"].replica.log.end
    assert book.leaders == ["2"]


@pytest.mark.without(
    "core.conclusions:deadlines", "if role.transfer else None", "if False else None"
)
@pytest.mark.without(
    "core.elections.leadership_transfer:advance", "replica.now_ms >= under_way.until_ms or", ""
)
def test_a_successor_that_is_gone_is_waited_for_no_longer_than_an_election_takes():
    book = loaded("1", "2", "3")
    book.crash("2")
    book.transfer("1", "2")
    at_ms = book.now_ms
    assert book["1"].core.next_deadline_ms() <= at_ms + book.config.election_timeout_ms
    book.wait(book.config.election_timeout_ms - 1, "1")
    assert book.leaders == ["1"]
    book.wait(1, "1")
    assert book.leaders == []
    book.run(3000)
    assert len(book.leaders) == 1
    assert b"on its way" in book["3"].records


def test_who_is_named_last_takes_over_in_the_time_that_the_first_had():
    book = loaded("1", "2", "3")
    first = book.transfer("1", "2")
    until_ms = role_of(book, "1").transfer.until_ms
    book.wait(10, "1")
    second = book.transfer("1", "3")
    assert role_of(book, "1").transfer.until_ms == until_ms
    book.settle()
    assert book.leaders == ["3"]
    assert (book.answer(first), book.answer(second)) == (Done(first), Done(second))


@pytest.mark.without(
    "core.elections.leadership_transfer:best",
    "max(able, key=lambda key: (role.progress[key].acknowledged, key))",
    "max(able)",
)
def test_without_a_name_it_is_the_one_that_holds_the_most():
    book = loaded("1", "2", "3")
    book.isolate("3")
    book.settle()
    role = role_of(book, "1")
    assert leadership_transfer.best(role, [key_of("2"), key_of("3")]) == key_of("2")
    book.heal()
    book.transfer("1")
    assert role.transfer is not None
    assert role.transfer.successor == key_of("2")
    assert book["1"].role == "resigned"


@pytest.mark.without("core.elections.leadership_transfer:_has_all", "or progress.fenced", "")
def test_no_leader_transfers_leadership_to_a_replica_that_lost_what_it_had():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    role = role_of(book, "1")
    assert leadership_transfer._has_all(book["1"].replica, role, key_of("2"))
    role.progress[key_of("2")].fenced = True
    assert not leadership_transfer._has_all(book["1"].replica, role, key_of("2"))
    assert not leadership_transfer._has_all(book["1"].replica, role, key_of("9"))


@pytest.mark.without(
    "core.replica:Replica._answer_all_waiting", "if role.transfer is not None:", "if False:"
)
def test_leadership_lost_otherwise_is_what_was_asked_for():
    book = loaded("1", "2", "3")
    book.isolate("1")
    asked = book.transfer("1", "2")
    assert book.answer(asked) is None
    book["1"].replica.become_unattached(Epoch(5))
    book.give("1", TimePassed())
    assert book.leaders == []
    assert book.answer(asked) == Done(asked)


def test_a_request_without_a_name_leaves_the_one_that_was_named():
    book = loaded("1", "2", "3")
    book.transfer("1", "2")
    book.transfer("1")
    book.settle()
    assert book.leaders == ["2"]


def test_writes_are_not_refused_for_longer_than_a_second():
    book = Playbook.formed(
        "1", "2", config=CoreConfig(election_timeout_ms=5000, fetch_timeout_ms=9000)
    )
    book.run(1000)
    book.append("1", b"x")
    book.crash("2")
    book.transfer("1", "2")
    assert role_of(book, "1").transfer.until_ms == book.now_ms + 1000


@pytest.mark.without(
    "core.elections.leadership_transfer:abandon",
    "role.transfer.request_ids.discard(request_id)",
    "pass",
)
def test_a_client_that_asked_and_left_is_not_answered_and_leadership_is_transferred_all_the_same():
    book = loaded("1", "2", "3")
    asked = book.transfer("1", "2")
    book.give("1", RequestAbandoned(asked))
    book.settle()
    assert book.leaders == ["2"]
    assert book.answer(asked) is None
