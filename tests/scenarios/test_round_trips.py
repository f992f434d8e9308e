"""What replication costs in round trips, with one Fetch under way (decision 16)."""

import pytest

from proofkit.playbook import Playbook


def flush_all(book: Playbook) -> None:
    for name in ("1", "2", "3"):
        book[name].flush(book.now_ms)


def committed(book: Playbook) -> bool:
    replica = book["1"].replica
    return replica.high_watermark == replica.log.end


@pytest.mark.rule("P42")
def test_write_in_a_quiet_quorum_takes_one_way_a_flush_and_one_way():
    """Letting a Fetch wait for anything but news makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.append("1", b"x")
    assert book.deliver("fetch-answer") == 2, "the Fetches waited at the leader"
    assert not committed(book)
    flush_all(book)
    assert book.deliver("fetch") == 2
    assert committed(book)


def test_all_that_gathered_goes_in_one_round_trip():
    """Bringing one batch at a time makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.append("1", b"first")
    for number in range(20):  # while the first is on its way
        book.append("1", b"%d" % number)
    book.deliver("fetch-answer")
    flush_all(book)
    book.deliver("fetch")  # acknowledges the first, and asks for the rest
    assert not committed(book)
    book.deliver("fetch-answer")
    assert book["2"].replica.log.end == book["1"].replica.log.end
    flush_all(book)
    book.deliver("fetch")
    assert committed(book)


@pytest.mark.rule("S10")
@pytest.mark.without(
    "core.replication.fetcher:_is_idle",
    "replica.log.durable_end >= replica.log.end",
    "(replica.log.durable_end >= replica.log.end or replica.log.formation_completed)",
)
def test_no_second_fetch_is_under_way():
    """Sending the next before the flush makes this fail: decision 4 would not hold any more."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.append("1", b"x")
    book.deliver("fetch-answer")
    assert not [message for message in book.pending if message.kind == "fetch"]
    book["2"].flush(book.now_ms)
    [fetch] = [message for message in book.pending if message.kind == "fetch"]
    assert fetch.source == "2"
    assert book.deliver("fetch") == 1
