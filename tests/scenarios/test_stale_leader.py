"""S3: an observer alone has seen what the leader of today has forgotten, and nobody believes it."""

import pytest

from raftnode.core.peer_memory import DISBELIEF_TIMEOUTS
from raftnode.core.roles import Follower, Leader
from raftnode.testing.playbook import Playbook, key_of


def led_by_a_copy() -> Playbook:
    """4 leads on a volume that was put back; 3, an observer, saw a later start of it."""
    book = Playbook.formed("1", "2")
    book.observer("3")
    book.observer("4")
    book.run(500)
    book.close_gates()
    book.settle()
    copy = book["4"].saved()
    book.crash("4")
    book.isolate("3", "4")
    book.restart("4")
    assert book.passes(book["4"], book["3"], dialled=False)
    book.crash("4")
    book.heal()
    book.put_back("4", copy)
    book.restart("4")
    book.run(500)
    book.add("1", "4")
    book.settle()
    book.transfer("1", "4")
    book.settle()
    assert isinstance(book["4"].replica.role, Leader)
    return book


def follows(book: Playbook, name: str, leader: str) -> bool:
    role = book[name].replica.role
    return isinstance(role, Follower) and role.leader == key_of(leader)


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.peer_memory:may_answer",
    "return since_ms is not None and replica.now_ms - since_ms >= patience_ms",
    "return False",
)
def test_an_observer_that_is_not_believed_gets_the_log_all_the_same():
    """It asked in vain for as long as that one led, and knew of nobody else."""
    book = led_by_a_copy()
    assert not follows(book, "3", "4")
    book.run(8_000)
    assert book["4"].disk.stale is False
    book.append("4", b"for all")
    book.run(1_000)
    assert follows(book, "3", "4")
    assert book["3"].replica.log.end == book["4"].replica.log.end


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.peer_memory:may_answer",
    "since_ms is not None and replica.now_ms - since_ms >= patience_ms",
    "True",
)
def test_a_leader_that_would_believe_it_is_told_first():
    """The only voter believes anybody: it is not followed before it was told, again and again."""
    book = led_by_a_copy()
    refusals: list[str] = []
    book.on_refusal = refusals.append
    patience_ms = DISBELIEF_TIMEOUTS * book["3"].replica.config.election_timeout_ms
    end = book["3"].replica.log.end
    book.run(patience_ms - 100)
    assert book["3"].replica.log.end == end
    book.run(8_000)
    assert book["3"].replica.log.end > end
    assert len([text for text in refusals if text.startswith("3 refuses 4")]) > 2


def borne() -> Playbook:
    """3 follows the copy that it knows to be one."""
    book = led_by_a_copy()
    book.run(8_000)
    assert follows(book, "3", "4")
    assert book.passes(book["4"], book["3"], dialled=True)
    return book


@pytest.mark.rule("S3")
@pytest.mark.without(
    "testing.simulator.gate:SimGate.admit",
    "dialled and may_answer",
    "may_answer",
)
def test_nothing_but_answers_is_taken_of_it():
    """A vote that it asks for could make it lead without what it has forgotten."""
    book = borne()
    assert not book.passes(book["4"], book["3"], dialled=False)


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.peer_memory:may_answer",
    "role.leader != key",
    "False",
)
def test_it_is_borne_as_the_leader_only():
    book = borne()
    book.transfer("4", "1")
    book.run(2_000)
    assert follows(book, "3", "1")
    assert not book.passes(book["4"], book["3"], dialled=True)


@pytest.mark.rule("S3")
def test_what_it_saw_is_not_forgotten():
    """Once it votes it is believed, and the copy ends. Admitting whom it bears fails this."""
    book = borne()
    book.add("4", "3")
    book.settle()
    book.run(3_000)
    assert book["4"].disk.stale
    assert book["4"].core is None
    [leader] = book.leaders
    assert book.voters(leader) == "{1,2,3,4}"
    written = book.append(leader, b"without the copy")
    book.run(1_000)
    assert book.answer(written) is not None
