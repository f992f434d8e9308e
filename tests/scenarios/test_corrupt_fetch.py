"""`corrupt-fetch-during-truncation` (KAFKA-18723): an answer that is not what was asked for.

A leader that falls truncates its log while an earlier answer is still being read from it. What
comes then may begin elsewhere or be of other epochs, though every checksum in it is right: those
cover a batch each, and not where it belongs. Whatever comes, a follower's log stays what its
leader's is so far, and it asks again.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from proofkit.playbook import Message, Playbook
from raftnode.core.messages import FetchResponse
from raftnode.core.records import Batch
from raftnode.core.types import Epoch, Offset

pytestmark = pytest.mark.rule("P22")

Batches = tuple[Batch, ...]

TAKES_WHATEVER_COMES = pytest.mark.without(
    "core.replication.fetcher:_fitting",
    "return batches[:fitting]",
    "return batches",
    "core.log_index:LogIndex.append",
    """\
    assert batch.base_offset == self.end, (batch.base_offset, self.end)  # noqa: S101
    assert batch.epoch >= self.last_epoch, (batch.epoch, self.last_epoch)  # noqa: S101
""",
    "",
)


def taken_from(book: Playbook, name: str) -> tuple[Message, FetchResponse]:
    """The Fetch answer with records that is on its way to a replica; it is not any more."""
    for message in book.pending:
        answer = message.response
        if message.target == name and isinstance(answer, FetchResponse) and answer.batches:
            book.pending.remove(message)
            return message, answer
    raise AssertionError(book.pending)


def deliver_late(book: Playbook, message: Message, answer: FetchResponse) -> None:
    """Deliver an answer at last, as it came to be."""
    message.response = answer
    book.pending = [message]
    assert book.deliver("fetch-answer") == 1


def is_prefix(book: Playbook, name: str, of: str) -> bool:
    """Whether a replica's log is where another's begins."""
    log = book[name].disk.log
    return log == book[of].disk.log[: len(log)]


@pytest.mark.scenario("corrupt-fetch-during-truncation")
@TAKES_WHATEVER_COMES
def test_answer_that_is_read_after_the_leader_truncated_brings_nothing():
    """3 asked leader 1 of epoch 1 for offset 8; what stands there now came from leader 2."""
    book = Playbook.formed("1", "2", "3", "4", "5")
    book.run(1000)
    book.append("1", b"of epoch 1, and never committed")
    message, answer = taken_from(book, "3")
    asked_for = answer.batches[0].base_offset
    book["1"].flush(book.now_ms)
    book.pending.clear()
    book.isolate("1", "3")
    book.elect("2")
    book.append("2", b"of epoch 2")
    book.settle()
    book.isolated = {"3"}
    for _ in range(20):
        book.wait(50, "1", "2")
        book.settle()
    now_there = tuple(b for b in book["1"].disk.log if b.base_offset >= asked_for)
    assert now_there == tuple(b for b in book["2"].disk.log if b.base_offset >= asked_for)
    assert {batch.epoch for batch in now_there} == {2}
    book.heal()
    before = list(book["3"].disk.log)
    assert book["3"].replica.epoch == 1
    deliver_late(book, message, replace(answer, batches=now_there))
    assert book["3"].disk.log == before
    book.run(6000)
    assert book["3"].disk.log == book["2"].disk.log
    assert book["3"].halted is None


def begins_later(batches: Batches) -> Batches:
    return batches[1:]


def begins_earlier(batches: Batches) -> Batches:
    base = Offset(batches[0].base_offset - 1)
    return (replace(batches[0], base_offset=base, last_offset=base), *batches[1:])


def lacks_one_in_the_middle(batches: Batches) -> Batches:
    return (batches[0], *batches[2:])


def is_of_an_older_epoch(batches: Batches) -> Batches:
    return (replace(batches[0], epoch=Epoch(0)), *batches[1:])


def is_of_an_epoch_to_come(batches: Batches) -> Batches:
    return (batches[0], replace(batches[1], epoch=Epoch(9)), *batches[2:])


@pytest.mark.scenario("corrupt-fetch-during-truncation")
@TAKES_WHATEVER_COMES
@pytest.mark.parametrize(
    "damage",
    [
        begins_later,
        begins_earlier,
        lacks_one_in_the_middle,
        is_of_an_older_epoch,
        is_of_an_epoch_to_come,
    ],
)
def test_wrong_answer_to_a_follower_that_has_truncated_brings_at_most_what_fits(
    damage: Callable[[Batches], Batches],
):
    """1 led, and has just cut its tail off; the answer to its next Fetch is wrong."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    for data in (b"lost 1", b"lost 2"):
        book.append("1", data)
    book["1"].flush(book.now_ms)
    book.drop()
    book.elect("2")
    for number in range(4):
        book.append("2", b"kept %d" % number)
    book.settle()
    book.heal()
    for _ in range(500):
        if book["1"].replica.log.truncations and any(
            message.target == "1" and isinstance(message.response, FetchResponse)
            for message in book.pending
        ):
            break
        if not book.deliver(limit=1):
            book["1"].flush(book.now_ms)
            book.wait(20, "1")
    message, answer = taken_from(book, "1")
    assert book["1"].records == []
    deliver_late(book, message, replace(answer, batches=damage(answer.batches)))
    assert is_prefix(book, "1", of="2")
    assert book["1"].high_watermark <= book["1"].replica.log.end
    book.run(3000)
    assert book["1"].disk.log == book["2"].disk.log
    assert book["1"].halted is None
