"""What a leader answers to a Fetch, what it notes of it, and what it leaves as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Confirmed, Effect, Fact, SendResponse, ServeFetch
from raftnode.core.events import RequestReceived, ShutdownRequested, TimePassed
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Leader
from raftnode.core.types import Endpoint, Epoch, LogPosition, Offset

pytestmark = pytest.mark.rule("P20", "P24")

HERE, THERE = Endpoint("one.example", 9093), Endpoint("two.example", 9093)


@pytest.fixture
def book() -> Playbook:
    """1 leads 1, 2 and 3 with three records of clients, all committed; nobody's Fetch waits."""
    book = Playbook.formed("1", "2", "3")
    for number in range(3):
        book.append("1", b"record %d" % number)
        book.settle()
    book.run(1000)
    book.isolate("2", "3")
    book.settle()
    book.now_ms += 100
    leader(book).parked.clear()
    replica_of(book).endpoint = HERE
    return book


def replica_of(book: Playbook) -> Replica:
    return book["1"].replica


def leader(book: Playbook) -> Leader:
    role = replica_of(book).role
    assert isinstance(role, Leader)
    return role


def known_of(book: Playbook, name: str = "2") -> Progress:
    return leader(book).progress[key_of(name)]


def fetch(book: Playbook, name: str = "2") -> FetchRequest:
    """The next Fetch of a replica that has all there is, and knows it."""
    end = replica_of(book).log.end
    known = leader(book).progress.get(key_of(name), Progress())
    return FetchRequest(
        Epoch(1),
        key_of(name),
        fetch_offset=end,
        last_fetched_epoch=Epoch(1),
        acknowledged_offset=end,
        high_watermark=replica_of(book).high_watermark,
        round_token=leader(book).round_token,
        incarnation=known.incarnation,
        max_bytes=100,
        max_wait_ms=500,
        sequence=known.sequence + 1,
        endpoint=THERE,
        raft_version_max=2,
    )


def ask(book: Playbook, request: FetchRequest, source: str = "2", number: int = 77) -> list[Effect]:
    return book.give("1", RequestReceived(number, key_of(source), request))


def answer(book: Playbook, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    """What the leader says without records."""
    replica = replica_of(book)
    return FetchResponse(
        error,
        Epoch(1),
        key_of("1"),
        HERE,
        replica.high_watermark,
        replica.log.start,
        round_token=leader(book).round_token,
    )


def refusals(effects: list[Effect]) -> list[ErrorCode]:
    return [
        one.response.error
        for one in effects
        if isinstance(one, SendResponse) and isinstance(one.response, FetchResponse)
    ]


@pytest.mark.rule("S10", "S11", "P56")
def test_a_fetch_with_no_news_for_it_waits_and_everything_it_says_is_noted(book: Playbook):
    known, now = known_of(book), book.now_ms
    leader(book).round_token = 7
    known.begin_done, known.endpoint, known.round_token = False, None, 3
    request = replace(fetch(book), round_token=7, incarnation=known.incarnation + 1, sequence=5)
    assert ask(book, request) == []
    assert (known.last_fetch_ms, known.last_caught_up_ms) == (now, now)
    assert known.begin_done is True
    assert (known.incarnation, known.sequence) == (request.incarnation, 5)
    assert (known.endpoint, known.round_token, known.raft_version_max) == (THERE, 7, 2)
    assert known.acknowledged == request.acknowledged_offset
    parked = leader(book).parked[key_of("2")]
    assert (parked.request_id, parked.request, parked.until_ms) == (77, request, now + 500)
    # What it does not say any more, it said before; a version it says again each time.
    later = replace(request, sequence=6, endpoint=None, round_token=2, raft_version_max=1)
    leader(book).round_token = 2
    ask(book, later, number=78)
    assert (known.endpoint, known.round_token, known.raft_version_max) == (THERE, 7, 1)


def test_of_two_fetches_of_a_replica_the_older_is_answered_at_once(book: Playbook):
    request = fetch(book)
    ask(book, request)
    effects = ask(book, replace(request, sequence=request.sequence + 1), number=78)
    assert effects == [SendResponse(77, answer(book))]
    assert leader(book).parked[key_of("2")].request_id == 78


def test_a_fetch_waits_as_long_as_it_says(book: Playbook):
    request = fetch(book)
    ask(book, request)
    book.now_ms += 499
    assert not [one for one in book.give("1", TimePassed()) if isinstance(one, ServeFetch)]
    book.now_ms += 1
    [served] = [one for one in book.give("1", TimePassed()) if isinstance(one, ServeFetch)]
    assert served == ServeFetch(77, answer(book), request.fetch_offset, 100, request.replica)
    assert leader(book).parked == {}


@pytest.mark.rule("P16", "P23")
def test_who_waits_for_records_is_told_when_no_replica_leads_any_more(book: Playbook):
    ask(book, fetch(book))
    effects = book.give("1", ShutdownRequested())
    gone = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, Epoch(1), None)
    assert SendResponse(77, gone) in effects


@pytest.mark.parametrize("news", ["records", "high watermark", "round"])
def test_a_fetch_that_has_missed_something_is_answered_at_once(book: Playbook, news: str):
    request = fetch(book)
    if news == "records":
        request = replace(request, fetch_offset=Offset(request.fetch_offset - 1))
    elif news == "high watermark":
        request = replace(request, high_watermark=Offset(request.high_watermark - 1))
    else:
        leader(book).round_token += 1
    known_of(book).acknowledged = Offset(0)
    [served] = [one for one in ask(book, request) if isinstance(one, ServeFetch)]
    assert served == ServeFetch(77, answer(book), request.fetch_offset, 100, request.replica)
    most = book.config.fetch_max_bytes
    again = replace(request, sequence=request.sequence + 1, max_bytes=most + 1)
    [served] = [one for one in ask(book, again) if isinstance(one, ServeFetch)]
    assert served.max_bytes == most


@pytest.mark.rule("S10")
def test_only_what_is_durable_there_and_alike_is_acknowledged(book: Playbook):
    known, end = known_of(book), replica_of(book).log.end
    for fetched, durable, acknowledged in [
        (end - 1, end, end - 1),
        (end, end - 2, end - 2),
    ]:
        known.acknowledged = Offset(0)
        ask(
            book,
            replace(fetch(book), fetch_offset=Offset(fetched), acknowledged_offset=Offset(durable)),
        )
        assert known.acknowledged == acknowledged


@pytest.mark.rule("P2", "S9")
def test_another_epoch_is_refused_and_a_voters_higher_one_ends_this(book: Playbook):
    before = replace(known_of(book))
    old = replace(fetch(book), epoch=Epoch(0))
    assert ask(book, old) == [SendResponse(77, answer(book, ErrorCode.FENCED_LEADER_EPOCH))]
    higher = answer(book, ErrorCode.UNKNOWN_LEADER_EPOCH)
    stranger = replace(fetch(book, "4"), epoch=Epoch(2))
    assert ask(book, stranger, "4") == [SendResponse(77, higher)]
    assert known_of(book) == before
    # It is noted for the case that it is to be added (S9), and nothing else of it is.
    assert leader(book).progress[key_of("4")] == Progress(higher_epoch=Epoch(2))
    replica = replica_of(book)
    effects = ask(book, replace(fetch(book), epoch=Epoch(2)))
    assert SendResponse(77, higher) in effects
    assert (book["1"].role, replica.epoch) == ("unattached", 2)
    assert replica.role.election_at_ms == replica.first_election_deadline()


def test_who_is_not_who_it_says_gets_nothing(book: Playbook):
    before = replace(known_of(book))
    refused = [SendResponse(77, answer(book, ErrorCode.INVALID_REQUEST))]
    assert ask(book, fetch(book), "3") == refused
    assert ask(book, fetch(book, "1"), "1") == refused
    assert known_of(book) == before
    assert key_of("1") not in leader(book).progress


@pytest.mark.rule("S3")
def test_a_fetch_that_was_overtaken_says_nothing_of_what_is_there_now(book: Playbook):
    known = known_of(book)
    ask(book, fetch(book))
    before = replace(known)
    late = replace(fetch(book), fetch_offset=Offset(2), acknowledged_offset=Offset(2))
    for stale in (
        replace(late, sequence=known.sequence),
        replace(late, sequence=known.sequence - 1),
        replace(late, sequence=known.sequence, incarnation=known.incarnation - 1),
    ):
        assert refusals(ask(book, stale)) == [ErrorCode.INVALID_REQUEST]
        assert known == before
    # A later start counts its Fetches from 1 again, and is no duplicate.
    later = replace(fetch(book), sequence=0, incarnation=known.incarnation + 1)
    assert refusals(ask(book, later, number=78)) == [ErrorCode.NONE], "the one that waited"
    assert known.sequence == 0


@pytest.mark.rule("S3")
@pytest.mark.parametrize("lost", ["records", "starts"])
def test_who_has_less_than_it_acknowledged_is_fenced_and_never_counted_again(
    book: Playbook, lost: str
):
    known = known_of(book)
    known.incarnation = 2
    has = Offset(known.acknowledged - 1)
    request = replace(fetch(book), incarnation=2, acknowledged_offset=has, fetch_offset=has)
    if lost == "starts":
        request = replace(fetch(book), incarnation=1)
    effects = ask(book, request)
    assert refusals(effects) == [ErrorCode.FENCED_REPLICA]
    [told] = [one for one in effects if isinstance(one, Fact)]
    assert (told.name, told.fields) == (
        "replica_fenced",
        (
            ("epoch", 1),
            ("replica", str(key_of("2"))),
            ("acknowledged", known.acknowledged),
            ("has", request.acknowledged_offset),
        ),
    )
    before = replace(known)
    effects = ask(book, replace(fetch(book), incarnation=9))
    assert effects == [SendResponse(77, answer(book, ErrorCode.FENCED_REPLICA))]
    assert known == before


@pytest.mark.rule("P21")
def test_a_log_of_another_epoch_is_told_where_they_part_and_acknowledges_nothing(book: Playbook):
    known, end = known_of(book), replica_of(book).log.end
    known.acknowledged = Offset(0)
    request = replace(fetch(book), last_fetched_epoch=Epoch(0))
    [sent] = ask(book, request)
    parts = LogPosition(Epoch(-1), Offset(0))
    assert sent == SendResponse(77, replace(answer(book), diverging=parts))
    longer = replace(request, last_fetched_epoch=Epoch(1), sequence=request.sequence + 1)
    [sent] = ask(book, replace(longer, fetch_offset=Offset(end + 1)))
    parts = LogPosition(Epoch(1), end)
    assert sent == SendResponse(77, replace(answer(book), diverging=parts))
    assert known.acknowledged == 0
    assert known.last_fetch_ms == book.now_ms
    assert leader(book).parked == {}


@pytest.mark.rule("P22", "S32")
@pytest.mark.rule("S32")
@pytest.mark.without(
    "core.replication.leadership:_begins_with_snapshot",
    "if whole and replica.config.keeps_every_record:",
    "if False:",
)
def test_who_needs_a_snapshot_is_told_which_unless_every_record_is_kept(book: Playbook):
    replica = replica_of(book)
    empty = replace(
        fetch(book, "4"),
        fetch_offset=Offset(0),
        last_fetched_epoch=Epoch(-1),
        acknowledged_offset=Offset(0),
    )
    replica.log.snapshot = replica.log.head_at(replica.log.end).position
    [sent] = ask(book, empty, "4")
    assert sent == SendResponse(77, replace(answer(book), snapshot=replica.log.snapshot))
    assert known_of(book, "4").last_fetch_ms == book.now_ms
    replica.config = replace(replica.config, keeps_every_record=True)
    again = replace(empty, sequence=1)
    assert [type(one) for one in ask(book, again, "4")] == [ServeFetch]
    replica.log.trim(Offset(2))
    [sent] = ask(book, replace(again, sequence=2), "4")
    # What is trimmed is not there any more.
    assert sent == SendResponse(77, replace(answer(book), snapshot=replica.log.snapshot))
    assert answer(book).log_start_offset == 2


@pytest.mark.rule("S11", "P21", "P22")
@pytest.mark.parametrize("how", ["alike", "diverging", "snapshot"])
def test_whatever_it_is_answered_its_echo_of_a_round_counts(book: Playbook, how: str):
    number = book.confirm("1")
    assert book.answer(number) is None
    request = fetch(book)
    if how == "diverging":
        request = replace(request, last_fetched_epoch=Epoch(0))
    elif how == "snapshot":
        replica = replica_of(book)
        replica.log.snapshot = replica.log.head_at(replica.log.end).position
        request = replace(request, fetch_offset=Offset(0), last_fetched_epoch=Epoch(-1))
    assert request.round_token == leader(book).round_token == 1
    effects = ask(book, request)
    assert [one for one in effects if isinstance(one, Confirmed)] == [
        Confirmed(number, replica_of(book).high_watermark)
    ]
