"""A new high watermark goes with the next records, or a little later (decision 35)."""

from __future__ import annotations

import pytest

from proofkit.playbook import Playbook
from raftnode.core.config import CoreConfig
from raftnode.core.effects import AppendAccepted, HighWatermarkAdvanced
from raftnode.core.events import CommitAwaited
from raftnode.core.messages import FetchRequest
from raftnode.core.types import Offset

CONFIG = CoreConfig()
WAIT_MS = CONFIG.high_watermark_wait_ms


def quiet() -> Playbook:
    """A quorum of three in which every replica knows what is committed."""
    book = Playbook.formed("1", "2", "3", config=CONFIG)
    book.run(1000)
    assert {book[name].high_watermark for name in "123"} == {book["1"].replica.log.end}
    return book


def flush_all(book: Playbook) -> None:
    for name in "123":
        book[name].flush(book.now_ms)


def commit(book: Playbook, data: bytes) -> int:
    """Append a record and let a majority acknowledge it; its client's request id."""
    request = book.append("1", data)
    book.deliver("fetch-answer")
    flush_all(book)
    book.deliver("fetch")
    assert book["1"].high_watermark == book["1"].replica.log.end
    return request


def answers_under_way(book: Playbook) -> list[str]:
    return sorted(message.target for message in book.pending if message.kind == "fetch-answer")


@pytest.mark.rule("P42")
@pytest.mark.without(
    "core.replication.leadership:_hears_now",
    "patient = wait_ms and not request.wants_high_watermark",
    "patient = 0",
)
def test_a_commit_is_acknowledged_at_once_and_the_followers_hear_of_it_with_the_next_records():
    """Answering the Fetches for the high watermark alone makes this fail."""
    book = quiet()
    before = book["2"].high_watermark
    request = commit(book, b"first")
    assert isinstance(book.answer(request), AppendAccepted)
    assert answers_under_way(book) == [], "no frame for the high watermark alone"
    first_end = book["1"].high_watermark
    book.append("1", b"second")
    assert answers_under_way(book) == ["2", "3"]
    assert book["2"].high_watermark == before
    book.deliver("fetch-answer")
    assert {book[name].high_watermark for name in "23"} == {first_end}


@pytest.mark.rule("P42")
@pytest.mark.without(
    "core.conclusions:deadlines", "fetch.until_ms for fetch in role.parked.values()", ""
)
@pytest.mark.without(
    "core.replication.leadership:_hears_now",
    "min(fetch.until_ms, replica.now_ms + wait_ms) if patient",
    "fetch.until_ms if patient",
)
def test_without_further_records_the_followers_hear_of_a_commit_in_time():
    """Leaving the wait without an end makes this fail: a Fetch waits for half a second."""
    book = quiet()
    commit(book, b"last")
    committed_at_ms, seen_at_ms = book.now_ms, {}

    def watch(node: object, effect: object) -> None:
        if isinstance(effect, HighWatermarkAdvanced):
            seen_at_ms.setdefault(node.name, book.now_ms)  # type: ignore[attr-defined]

    book.watch = watch
    book.run(400)
    assert seen_at_ms == dict.fromkeys("23", committed_at_ms + WAIT_MS)
    assert {book[name].high_watermark for name in "23"} == {book["1"].replica.log.end}


def test_the_wait_begins_with_the_first_commit_and_not_again_with_each():
    book = quiet()
    commit(book, b"first")
    began_ms = book.now_ms
    book.isolate("3")
    [parked] = [fetch for key, fetch in leader_of(book).parked.items() if key == book["2"].key]
    assert parked.until_ms == began_ms + WAIT_MS
    book.wait(WAIT_MS - 1, "1")
    assert answers_under_way(book) == []
    book.wait(1, "1")
    assert "2" in answers_under_way(book)


def leader_of(book: Playbook):
    return book["1"].replica.role


@pytest.mark.rule("P43")
@pytest.mark.without("core.replication.fetcher:_is_awaited", "role.awaited >=", "False and 0 >=")
@pytest.mark.without(
    "core.replication.leadership:_hears_now", " and not request.wants_high_watermark", ""
)
def test_a_follower_whose_client_waits_hears_of_the_commit_at_once():
    """Not carrying the wish in the Fetch makes this fail."""
    book = quiet()
    book.give("2", CommitAwaited(book["2"].replica.log.end))
    commit(book, b"awaited")
    assert answers_under_way(book) == ["2"]
    book.deliver("fetch-answer")
    assert book["2"].high_watermark == book["1"].high_watermark
    assert book["3"].high_watermark < book["1"].high_watermark
    [fetch] = [message for message in book.pending if message.kind == "fetch"]
    assert isinstance(fetch.request, FetchRequest)
    assert not fetch.request.wants_high_watermark, "what was awaited is committed"


@pytest.mark.without(
    "core.replication.fetcher:handle_commit_awaited",
    "min(event.offset, replica.log.end)",
    "event.offset",
)
def test_a_client_that_waits_for_a_far_offset_makes_no_frames_for_ever():
    book = quiet()
    book.give("2", CommitAwaited(Offset(1 << 60)))
    commit(book, b"first")
    assert answers_under_way(book) == ["2"]
    book.deliver("fetch-answer")
    book.deliver("fetch")
    commit(book, b"second")
    assert answers_under_way(book) == []


@pytest.mark.rule("P30", "S17")
@pytest.mark.without(
    "core.replication.leadership:resign",
    "if replica.high_watermark > fetch.request.high_watermark:",
    "if False:",
)
def test_a_leader_that_resigns_says_first_what_is_committed():
    """Resigning with the high watermark held back makes this fail."""
    book = quiet()
    commit(book, b"last of its leader")
    book.transfer("1", "2")
    kinds = [message.kind for message in book.pending if message.target == "3"]
    assert kinds[:2] == ["fetch-answer", "end"]
    book.deliver("fetch-answer")
    assert {book[name].high_watermark for name in "123"} == {book["1"].replica.log.end}


@pytest.mark.rule("P42", "S10")
@pytest.mark.parametrize("keep_unflushed", [True, False])
def test_an_acknowledged_record_outlives_its_leader_though_no_follower_knew_of_its_commit(
    keep_unflushed: bool,
):
    book = quiet()
    request = commit(book, b"acknowledged")
    accepted = book.answer(request)
    assert isinstance(accepted, AppendAccepted)
    assert {book[name].high_watermark <= accepted.base_offset for name in "23"} == {True}
    book.crash("1", keep_unflushed=keep_unflushed)
    book.run(10_000)
    [leader] = book.leaders
    assert book[leader].high_watermark > accepted.base_offset
    assert any(batch.data == b"acknowledged" for batch in book[leader].disk.log)
