"""What a leader answers to a replica that fetches a snapshot, and what it notes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Effect, SendResponse, ServeSnapshot
from raftnode.core.events import RequestReceived
from raftnode.core.messages import ErrorCode, FetchSnapshotRequest, FetchSnapshotResponse
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Leader
from raftnode.core.types import Endpoint, Epoch, LogPosition, Offset

pytestmark = pytest.mark.rule("P24", "P25")

SNAPSHOT = LogPosition(Epoch(1), Offset(3))
REQUEST = FetchSnapshotRequest(
    Epoch(1), key_of("2"), SNAPSHOT, 30, max_bytes=100, endpoint=Endpoint("two.example", 9093)
)
HERE = Endpoint("one.example", 9093)


@pytest.fixture
def book() -> Playbook:
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book["1"].replica.endpoint = HERE
    return book


def ask(book: Playbook, request: FetchSnapshotRequest, source: str = "2") -> list[Effect]:
    return book.give("1", RequestReceived(77, key_of(source), request))


def leader(book: Playbook) -> Leader:
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    return role


def known_of(book: Playbook, name: str) -> Progress:
    return leader(book).progress[key_of(name)]


def answer(error: ErrorCode, request: FetchSnapshotRequest, token: int = 0) -> SendResponse:
    response = FetchSnapshotResponse(
        error,
        Epoch(1),
        key_of("1"),
        request.snapshot,
        request.position,
        leader_endpoint=HERE,
        round_token=token,
    )
    return SendResponse(77, response)


def test_a_piece_is_served_and_shows_that_the_fetcher_is_there(book: Playbook):
    leader(book).round_token = 5
    known = known_of(book, "2")
    known.begin_done, acknowledged = False, known.acknowledged
    book.now_ms += 100
    effects = ask(book, replace(REQUEST, round_token=4))
    [serve] = [one for one in effects if isinstance(one, ServeSnapshot)]
    wanted = answer(ErrorCode.NONE, REQUEST, token=5).response
    assert serve == ServeSnapshot(77, wanted, 100)
    assert known.begin_done is True
    assert known.last_fetch_ms == book.now_ms
    assert known.endpoint == Endpoint("two.example", 9093)
    assert known.round_token == 4
    assert known.acknowledged == acknowledged
    # What it does not say this time, it said before.
    ask(book, replace(REQUEST, endpoint=None, round_token=1))
    assert known.endpoint == Endpoint("two.example", 9093)
    assert known.round_token == 4


def test_no_piece_is_larger_than_this_leader_gives(book: Playbook):
    most = book.config.fetch_max_bytes
    [serve] = ask(book, replace(REQUEST, max_bytes=most + 1))
    assert isinstance(serve, ServeSnapshot)
    assert serve.max_bytes == most


@pytest.mark.parametrize(
    ("request_", "source"),
    [(REQUEST, "3"), (replace(REQUEST, replica=key_of("1")), "1")],
    ids=["in another's name", "from itself"],
)
def test_who_is_not_who_it_says_gets_nothing(
    book: Playbook, request_: FetchSnapshotRequest, source: str
):
    before = replace(known_of(book, "2"))
    book.now_ms += 100
    assert ask(book, request_, source) == [answer(ErrorCode.INVALID_REQUEST, request_)]
    assert known_of(book, "2") == before
    assert key_of("1") not in leader(book).progress


def test_who_is_fenced_is_told_so_and_does_not_count_as_there(book: Playbook):
    known = known_of(book, "2")
    known.fenced, known.last_fetch_ms = True, 1
    assert ask(book, REQUEST) == [answer(ErrorCode.FENCED_REPLICA, REQUEST)]
    assert known.last_fetch_ms == 1


@pytest.mark.rule("S9")
def test_a_higher_epoch_of_a_voter_ends_this_one(book: Playbook):
    higher = replace(REQUEST, epoch=Epoch(2))
    observer = replace(higher, replica=key_of("4"))
    assert ask(book, observer, "4") == [answer(ErrorCode.UNKNOWN_LEADER_EPOCH, observer)]
    assert book["1"].role == "leader"
    effects = ask(book, higher)
    assert answer(ErrorCode.UNKNOWN_LEADER_EPOCH, higher) in effects
    assert (book["1"].role, book["1"].replica.epoch) == ("unattached", 2)


@pytest.mark.parametrize(
    ("position", "error"),
    [
        (-1, ErrorCode.POSITION_OUT_OF_RANGE),
        (0, ErrorCode.NONE),
        (99, ErrorCode.NONE),
        (100, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_bytes_of_a_file_are_those_that_it_has(position: int, error: ErrorCode):
    response = FetchSnapshotResponse(ErrorCode.NONE, Epoch(1), key_of("1"), SNAPSHOT, position)
    found = ServeSnapshot(1, response, 10).with_piece(100, b"x")
    assert (found.error, found.size) == (error, 100)
    assert found.data == (b"x" if error is ErrorCode.NONE else b"")
