"""Flow control by bytes: how far a leader runs ahead of its majority, and how much a Fetch brings."""

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import AppendAccepted, Refused, ServeFetch
from raftnode.core.events import RequestReceived
from raftnode.core.messages import FetchRequest
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.roles import Leader
from raftnode.core.types import Offset

LIMIT = CoreConfig(max_uncommitted_bytes=10)


def uncommitted(book: Playbook, name: str) -> int:
    role = book[name].replica.role
    assert isinstance(role, Leader)
    return role.uncommitted.size


def refused(book: Playbook, name: str, data: bytes) -> bool:
    answer = book.answer(book.append(name, data))
    assert isinstance(answer, AppendAccepted) or answer.refusal is Refusal.TOO_MUCH_UNCOMMITTED
    return isinstance(answer, Refused)


@pytest.mark.without(
    "core.replication.leadership:handle_append",
    "if not role.uncommitted.has_room(size, replica.config.max_uncommitted_bytes):",
    "if False:",
)
def test_append_beyond_the_uncommitted_limit_is_refused_and_leaves_no_trace():
    """Taking `has_room` out of `leadership.handle_append` makes this fail."""
    book = Playbook.formed("1", "2", "3", config=LIMIT)
    assert not refused(book, "1", b"x" * 8)
    end = book["1"].replica.log.end
    assert refused(book, "1", b"x" * 3)
    assert book["1"].replica.log.end == end
    assert not refused(book, "1", b"x" * 2)  # exactly as much as may wait
    assert refused(book, "1", b"x")
    assert uncommitted(book, "1") == 10
    book.settle()
    assert book["1"].replica.high_watermark == book["1"].replica.log.end
    assert uncommitted(book, "1") == 0
    assert not refused(book, "1", b"x" * 3)


def test_what_one_voter_of_three_has_not_got_does_not_count():
    """Waiting for every voter instead of the high watermark makes this fail."""
    book = Playbook.formed("1", "2", "3", config=LIMIT)
    book.isolate("3")
    for _ in range(5):
        assert not refused(book, "1", b"x" * 10)
        book.settle()


@pytest.mark.without(
    "core.replication.uncommitted_batches:Uncommitted.committed",
    "if end > high_watermark:",
    "if False:",
)
def test_only_what_the_high_watermark_has_passed_is_forgotten():
    """Forgetting all batches once any is committed makes this fail."""
    book = Playbook.formed("1", "2", "3", config=LIMIT)
    assert not refused(book, "1", b"x" * 4)
    book.deliver()  # the answers to the Fetches that waited
    assert not refused(book, "1", b"x" * 5)
    book["2"].flush(book.now_ms)
    book["1"].flush(book.now_ms)
    book.deliver("fetch", "2", "1")
    assert uncommitted(book, "1") == 5
    assert not refused(book, "1", b"x" * 5)
    assert refused(book, "1", b"x")


def test_batch_above_the_limit_is_taken_when_nothing_waits():
    """A write that could never be done would be refused for ever."""
    book = Playbook.formed("1", "2", "3", config=LIMIT)
    assert not refused(book, "1", b"x" * 99)
    assert refused(book, "1", b"x")
    book.settle()
    assert not refused(book, "1", b"x" * 99)


def test_voter_changes_are_appended_though_the_limit_is_reached():
    """Counting control records, or refusing them, makes this fail."""
    book = Playbook.formed("1", "2", "3", config=LIMIT)
    book.observer("4")
    book.run(2000)
    book["2"].flushes = book["3"].flushes = False
    assert not refused(book, "1", b"x" * 10)
    book.settle()
    assert refused(book, "1", b"x")
    book.add("1", "4")
    book.settle()
    assert book.voters("1") == "{1,2,3,4}"
    assert uncommitted(book, "1") == 10


def test_new_leader_counts_its_own_batches():
    """What was left by others is of a size that it does not know, and cannot grow."""
    book = Playbook.formed("1", "2", "3", config=LIMIT)
    book["2"].flushes = False
    book.isolate("3")
    assert not refused(book, "1", b"x" * 10)
    book.settle()
    book["2"].flush(book.now_ms)
    book.crash("1")
    book.heal()
    book["2"].flushes = True
    book.elect("2")
    assert uncommitted(book, "2") == 0
    assert not refused(book, "2", b"x" * 10)
    assert refused(book, "2", b"x")


@pytest.mark.rule("P20")
@pytest.mark.parametrize(("asked", "served"), [(100, 100), (2**31 - 1, 1000), (0, 0)])
def test_fetch_brings_no_more_than_the_leader_allows(asked: int, served: int):
    """Taking the bound out of `leadership.answer_parked` makes this fail."""
    book = Playbook.formed("1", "2", "3", config=CoreConfig(fetch_max_bytes=1000))
    book.append("1", b"x" * 5000)
    replica = book["1"].replica
    request = FetchRequest(
        epoch=replica.epoch,
        replica=key_of("2"),
        fetch_offset=Offset(replica.log.end - 1),
        last_fetched_epoch=replica.epoch,
        acknowledged_offset=Offset(replica.log.end - 1),
        high_watermark=Offset(0),
        round_token=0,
        incarnation=1,
        max_bytes=asked,
        max_wait_ms=0,
        sequence=10**9,
    )
    for sequence in (request, replace(request, sequence=10**9 + 1)):
        effects = book.give("1", RequestReceived(book.number(), key_of("2"), sequence))
        [answer] = [effect for effect in effects if isinstance(effect, ServeFetch)]
        assert answer.max_bytes == served
