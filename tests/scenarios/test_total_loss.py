"""`total-loss-on-failover` (RedisRaft #14): the next leader has next to nothing."""

import pytest

from proofkit.playbook import Playbook

pytestmark = [pytest.mark.rule("P8"), pytest.mark.scenario("total-loss-on-failover")]

VOTES_FOR_ANY_LOG = pytest.mark.without(
    "core.elections.election:_judge_pre_vote",
    "if request.last < replica.log.position:",
    "if False:",
    "core.elections.election:_judge_vote",
    "if request.last < replica.log.position:",
    "if False:",
)
WRITTEN = [b"written %d" % number for number in range(5)]


def written_by_two() -> Playbook:
    """3 has the voters and nothing else; 1 and 2 have all, most of it in a snapshot only."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.isolate("3")
    for data in WRITTEN:
        book.append("1", data)
        book.settle()
    book.run(1000)
    for name in ("1", "2"):
        book.snapshot(name, trim_to=book[name].replica.applicable)
    return book


def nothing_is_lost(book: Playbook) -> None:
    """The leader has all that was acknowledged and may apply it, and no replica had to stop."""
    [leader] = book.leaders
    assert book[leader].records == WRITTEN
    assert book[leader].replica.applicable == book[leader].replica.log.end
    assert [node.halted for node in book.nodes.values()] == [None] * len(book.nodes)
    for node in book.nodes.values():
        assert node.core is None or node.records == WRITTEN


@VOTES_FOR_ANY_LOG
def test_voter_that_was_away_does_not_take_over_though_it_stands_first():
    book = written_by_two()
    book.crash("1")
    book.drop()
    book.heal()
    book.now_ms += book.config.fetch_timeout_ms
    book.impatient("3")
    book.settle()
    assert "3" not in book.leaders
    book.run(8000)
    assert book.leaders == ["2"]
    nothing_is_lost(book)
    book.restart("1")
    book.run(3000)
    nothing_is_lost(book)


@VOTES_FOR_ANY_LOG
def test_voters_that_all_start_again_are_led_by_one_that_has_everything():
    """No replica remembers what is committed; what a snapshot covers is."""
    book = written_by_two()
    for name in ("1", "2", "3"):
        book.crash(name)
    book.drop()
    book.heal()
    for name in ("3", "2"):
        book.restart(name)
    book.impatient("3")
    book.settle()
    assert "3" not in book.leaders
    book.run(8000)
    assert book.leaders == ["2"]
    nothing_is_lost(book)
