"""`two-adds`, `two-removes`, `add-and-remove`: what two leaders of different epochs could lose.

1 appends a change and is gone before a replica hears of it. 2 leads then, its epoch's first entry
is not committed, and it is asked for another change. Were that one appended, 2's set and 1's would
have majorities without a voter in both: 2's half acknowledges a record, and 1's half, back in its
place, elects 1 and goes on without it (Ongaro 2015).
"""

from dataclasses import dataclass

import pytest

from proofkit.playbook import Playbook
from raftnode.core.effects import AppendAccepted, HighWatermarkAdvanced


@dataclass(frozen=True)
class Story:
    """Who changes what, and who is up when."""

    first: tuple[str, str]
    second: tuple[str, str]
    half_of_1: str
    half_of_2: str
    only_votes: str
    """Of 1's half; it elects 2, and what it is sent then it never has on its disk."""
    observers: str = ""


STORIES = {
    "two-adds": Story(("add", "5"), ("add", "6"), "145", "236", "4", "56"),
    "two-removes": Story(("remove", "4"), ("remove", "3"), "13", "24", "3"),
    "add-and-remove": Story(("add", "5"), ("remove", "4"), "145", "23", "4", "5"),
}


def ask(book: Playbook, leader: str, change: tuple[str, str]) -> None:
    """Ask a leader for a change."""
    {"add": book.add, "remove": book.remove}[change[0]](leader, change[1])


def bring_back(book: Playbook, names: str) -> None:
    """Start those of them that are down, and give all that are up the time to agree."""
    for name in names:
        if book[name].core is None:
            book[name].flushes = True
            book.restart(name)
    book.heal()
    book.run(15_000)


@pytest.mark.rule("P28")
@pytest.mark.scenario("two-adds", "two-removes", "add-and-remove")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    "if not leadership.epoch_committed(replica, role):",
    "if False:",
)
@pytest.mark.parametrize("name", STORIES)
def test_nothing_that_one_half_acknowledged_is_lost_when_the_other_comes_back(name: str):
    story = STORIES[name]
    book = Playbook.formed("1", "2", "3", "4")
    for observer in story.observers:
        book.observer(observer)
    book.run(1500)
    voters_before = book.voters("2")

    book.isolate("1")
    ask(book, "1", story.first)
    assert book.voters("1") != voters_before
    book["1"].flush(book.now_ms)
    book.drop()
    book.crash("1")
    book.isolated = set(story.half_of_1) - {story.only_votes}
    book[story.only_votes].flushes = False
    book.elect("2")
    assert book.voters("2") == voters_before
    assert book["2"].replica.log.epochs[-1][0] == 2
    book.crash(story.only_votes)
    book.drop()

    book.run(900)  # a new disk finds its leader
    assert book.leaders == ["2"]
    ask(book, "2", story.second)
    book.settle()
    written = book.append("2", b"acknowledged or not")
    book.run(100)
    accepted = book.answer(written)
    assert isinstance(accepted, AppendAccepted)
    acknowledged = any(
        isinstance(effect, HighWatermarkAdvanced) and effect.high_watermark > accepted.last_offset
        for effect in book["2"].effects
    )

    for replica in story.half_of_2:
        book.crash(replica)
    bring_back(book, story.half_of_1)
    bring_back(book, "".join(book.nodes))
    [leader] = book.leaders
    assert [node.halted for node in book.nodes.values()] == [None] * len(book.nodes)
    assert not acknowledged or b"acknowledged or not" in book[leader].records
    for replica in book.nodes:
        assert book[replica].disk.log == book[leader].disk.log
