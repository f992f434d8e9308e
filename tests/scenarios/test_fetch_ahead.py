"""More than one Fetch under way, where that is asked for (S10, decision 16)."""

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import AppendBatches, SendRequest, TruncateLog
from raftnode.core.events import RequestFailed, ResponseReceived
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse, FetchSnapshotRequest
from raftnode.core.records import Batch
from raftnode.core.roles import Fetching, Follower
from raftnode.core.types import Epoch, LogPosition, Offset

pytestmark = pytest.mark.rule("S10", "P20", "P22")

TWO = CoreConfig(fetches_in_flight_max=2)


def quiet(config: CoreConfig = TWO) -> Playbook:
    """A quorum of two whose Fetches wait at leader 1; the disk of 2 is not flushed by itself."""
    book = Playbook.formed("1", "2")
    book.run(1000)
    book["2"].replica.config, book["2"].flushes = config, False
    return book


def fetching(book: Playbook) -> Fetching:
    role = book["2"].replica.role
    assert isinstance(role, Follower)
    return role.fetching


def under_way(book: Playbook) -> list[FetchRequest]:
    """What 2 has asked for and not been answered, oldest first."""
    newest = fetching(book).in_flight
    assert newest is None or isinstance(newest, FetchRequest)
    return [*fetching(book).before, *([newest] if newest else [])]


def two_under_way() -> tuple[Playbook, FetchRequest, FetchRequest]:
    """One that went ahead and one that acknowledges; both are lost, so a test answers them."""
    book = quiet()
    book.append("1", b"x")
    book.deliver("fetch-answer")
    book["2"].flush(book.now_ms)
    book.drop()
    older, newer = under_way(book)
    return book, older, newer


def answer(book: Playbook, request: FetchRequest, **other: object) -> list[object]:
    """Give 2 the answer of leader 1 to one of its Fetches; returns what it then does."""
    replica = book["2"].replica
    good = FetchResponse(ErrorCode.NONE, replica.epoch, key_of("1"), **other)  # type: ignore[arg-type]
    return list(book.give("2", ResponseReceived(key_of("1"), request, good)))


def batch(book: Playbook, at: int = 0) -> Batch:
    end = Offset(book["2"].replica.log.end + at)
    return Batch(end, end, Epoch(1), b"x%d" % end)


@pytest.mark.without(
    "core.replication.fetcher:fetch_if_due",
    "(_is_idle(replica, fetching) or _may_send_ahead(replica, fetching))",
    "_is_idle(replica, fetching)",
)
def test_the_next_is_asked_for_before_the_last_is_durable():
    book = quiet()
    end = book["2"].replica.log.end
    book.append("1", b"x")
    book.deliver("fetch-answer")
    assert under_way(book)
    ahead = under_way(book)[0]
    assert (ahead.fetch_offset, ahead.acknowledged_offset) == (end + 1, end)
    book["2"].flush(book.now_ms)
    assert [(one.fetch_offset, one.acknowledged_offset) for one in under_way(book)] == [
        (end + 1, end),
        (end + 1, end + 1),
    ]


@pytest.mark.without(
    "core.replication.fetcher:_next_fetch",
    "acknowledged_offset=replica.log.durable_end",
    "acknowledged_offset=replica.log.end",
)
def test_a_fetch_that_goes_ahead_acknowledges_nothing_that_is_not_durable():
    """A write is committed by the Fetch after the flush, and by no other."""
    book = quiet()
    book.append("1", b"x")
    book["1"].flush(book.now_ms)
    book.deliver("fetch-answer")
    book.deliver("fetch")
    assert book["1"].high_watermark == book["1"].replica.log.end - 1
    book["2"].flush(book.now_ms)
    book.deliver("fetch")
    assert book["1"].high_watermark == book["1"].replica.log.end


def test_the_records_of_a_write_need_not_wait_for_an_acknowledgement():
    """A second write reaches 2 while the first one's acknowledgement is on its way."""
    book = quiet()
    book.append("1", b"x")
    book.deliver("fetch-answer")
    book.deliver("fetch")
    book["2"].flush(book.now_ms)
    book.append("1", b"y")
    book.deliver("fetch-answer")
    assert book["2"].records == [b"x", b"y"]


@pytest.mark.without(
    "core.replication.fetcher:_may_send_ahead",
    "len(fetching.unflushed) or (log.durable_end < log.end)",
    "(log.durable_end < log.end)",
)
@pytest.mark.parametrize("most", [2, 3])
def test_no_more_than_so_many_are_under_way_or_wait_for_the_disk(most: int):
    """A disk that stands still is not written to on and on."""
    book = quiet(CoreConfig(fetches_in_flight_max=most))
    for _ in range(5):
        if not under_way(book):
            break
        book.append("1", b"x")
        book.deliver("fetch-answer")
        assert len(under_way(book)) <= most
        book.deliver("fetch")
    assert len(book["2"].records) == most
    assert not under_way(book)
    deadline = book["2"].core.next_deadline_ms() if book["2"].core else None
    assert deadline == book["2"].replica.role.election_at_ms  # type: ignore[union-attr]
    book["2"].flush(book.now_ms)
    assert len(under_way(book)) == 1


@pytest.mark.without(
    "core.replication.fetcher:_may_send_ahead",
    "or (log.durable_end < log.end)",
    "or (log.durable_end < log.end and not log.formation_completed)",
)
def test_who_comes_from_another_role_with_records_to_flush_waits_with_one():
    """What a leader had not flushed when it lost its office counts as well."""
    book = quiet(CoreConfig())
    fetching(book).forget()
    book["2"].replica.append((batch(book),))
    book.wait(0, "2")
    assert not under_way(book)


@pytest.mark.without(
    "core.replication.fetcher:_may_send_ahead",
    "return newest.acknowledged_offset < log.durable_end > replica.high_watermark",
    "return True",
)
def test_nothing_is_asked_twice():
    book = quiet()
    book.wait(10, "2")
    assert len(under_way(book)) == 1


@pytest.mark.without(
    "core.replication.fetcher:_may_send_ahead",
    "log.durable_end > replica.high_watermark",
    "log.durable_end",
)
def test_what_is_known_to_be_committed_is_acknowledged_with_the_next_fetch():
    """Who catches up would be sent everything twice: once more for each acknowledgement."""
    book = quiet()
    [asked] = under_way(book)
    new = batch(book)
    answer(book, asked, batches=(new,), high_watermark=Offset(new.end_offset + 9))
    assert len(under_way(book)) == 1
    book["2"].flush(book.now_ms)
    assert len(under_way(book)) == 1


@pytest.mark.without(
    "core.replication.fetcher:fetch_deadline", "min(late_ms, next_at_ms)", "late_ms"
)
def test_an_acknowledgement_that_is_put_off_has_a_time():
    """Nothing else wakes a follower whose other Fetch waits at the leader."""
    book = quiet()
    book.append("1", b"x")
    book.deliver("fetch-answer")
    fetching(book).next_at_ms = book.now_ms + 20
    book["2"].flush(book.now_ms)
    assert len(under_way(book)) == 1
    core = book["2"].core
    assert core is not None
    assert core.next_deadline_ms() == book.now_ms + 20
    book.wait(20, "2")
    assert len(under_way(book)) == 2


@pytest.mark.without(
    "core.replication.fetcher:_take",
    "if LogPosition(request.last_fetched_epoch, request.fetch_offset) != replica.log.position:",
    "if False:",
)
def test_an_answer_that_another_has_overtaken_changes_nothing():
    """The same records twice: taken once, without a complaint and without a pause."""
    book, older, newer = two_under_way()
    new = batch(book)
    answer(book, older, batches=(new,), high_watermark=new.base_offset)
    failures = fetching(book).failures
    effects = answer(book, newer, batches=(new,), high_watermark=new.end_offset)
    assert not [one for one in effects if isinstance(one, AppendBatches)]
    assert fetching(book).failures == failures
    assert book["2"].high_watermark == new.base_offset


@pytest.mark.without(
    "core.replication.fetcher:_take",
    "LogPosition(request.last_fetched_epoch, request.fetch_offset) != replica.log.position",
    "request.fetch_offset != replica.log.end",
)
def test_a_log_is_not_cut_by_what_was_said_of_one_that_is_gone():
    """The end is where it was, by other records. Cutting those would lose acknowledged ones."""
    book, older, newer = two_under_way()
    replica = book["2"].replica
    cut = Offset(replica.log.end - 1)
    parts = LogPosition(Epoch(1), cut)
    effects = answer(book, older, diverging=parts)
    assert [one for one in effects if isinstance(one, TruncateLog)] == [TruncateLog(cut)]
    replica.config = CoreConfig(fetches_in_flight_max=5)
    book.wait(0, "2")
    replica.append((Batch(cut, cut, Epoch(2), b"of another epoch"),))
    late = FetchResponse(ErrorCode.NONE, replica.epoch, key_of("1"), diverging=parts)
    fetching(book).before.insert(0, newer)
    effects = book.give("2", ResponseReceived(key_of("1"), newer, late))
    assert not [one for one in effects if isinstance(one, TruncateLog)]


@pytest.mark.without("core.roles:Fetching.answered", "self.before.clear()", "pass")
def test_who_is_answered_the_newest_waits_for_no_older_one():
    book, older, newer = two_under_way()
    answer(book, newer, high_watermark=Offset(0))
    assert len(under_way(book)) == 1
    again = under_way(book)[0]
    assert again.sequence > newer.sequence
    assert not answer(book, older, high_watermark=Offset(0))
    assert under_way(book) == [again]


@pytest.mark.without("core.replication.fetcher:handle_fetch_failure", "fetching.forget()", "pass")
def test_after_a_failure_the_leader_is_given_time():
    book, older, newer = two_under_way()
    assert not book.give("2", RequestFailed(key_of("1"), older))
    assert not under_way(book)
    assert not answer(book, newer, high_watermark=Offset(0)), "it was given up"
    assert fetching(book).next_at_ms > book.now_ms


@pytest.mark.rule("P25")
@pytest.mark.without("core.replication.fetcher:_take", "role.fetching.forget()", "pass")
def test_nothing_else_is_under_way_while_a_snapshot_is_fetched():
    book, older, _ = two_under_way()
    snapshot = LogPosition(Epoch(1), Offset(book["2"].replica.log.end + 5))
    effects = answer(book, older, snapshot=snapshot)
    asked = [one.request for one in effects if isinstance(one, SendRequest)]
    assert [type(one) for one in asked] == [FetchSnapshotRequest]
    assert not fetching(book).before
    book.wait(0, "2")
    assert isinstance(fetching(book).in_flight, FetchSnapshotRequest)


@pytest.mark.without(
    "core.replication.fetcher:_may_send_ahead", "not isinstance(replica.role, Follower) or ", ""
)
def test_only_a_leader_is_asked_ahead():
    """Who looks for the leader asks one at a time."""
    book = quiet()
    book["2"].replica.become_unattached(Epoch(1))
    book["2"].replica.log.durable_end = Offset(book["2"].replica.log.end - 1)
    book.drop()
    book.wait(0, "2")
    assert not [one for one in book.pending if one.kind == "fetch"]


@pytest.mark.without(
    "core.replication.fetcher:_may_send_ahead", "(newest is not None) + to_disk", "0 * to_disk"
)
def test_those_under_way_count_whatever_there_is_to_say():
    book, _, _ = two_under_way()
    book["2"].replica.append((batch(book),))
    book.wait(0, "2")
    assert len(under_way(book)) == 2


@pytest.mark.rule("P23")
@pytest.mark.without("core.replication.fetcher:_next_fetch", "else 0,", "else 1,")
def test_who_looks_for_the_leader_asks_for_an_answer_at_once():
    book = quiet()
    book["2"].replica.become_unattached(Epoch(1))
    book.wait(0, "2")
    asked = [one.request for one in book.pending if isinstance(one.request, FetchRequest)]
    assert [one.max_wait_ms for one in asked] == [0]


@pytest.mark.without("core.roles:Fetching.answered", ".index(request) + 1", ".index(request)")
def test_who_is_answered_one_waits_for_those_after_it_alone():
    first = under_way(quiet())[0]
    asked = [replace(first, sequence=number) for number in range(4)]
    waiting = Fetching(in_flight=asked[3], before=asked[:3])
    assert waiting.answered(asked[1])
    assert (waiting.before, waiting.in_flight) == (asked[2:3], asked[3])
