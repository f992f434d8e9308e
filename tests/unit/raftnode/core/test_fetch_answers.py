"""What a follower makes of each answer to a Fetch, and when it asks again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import AppendBatches, Effect, Fact, Halt, SendRequest
from raftnode.core.events import RequestFailed, ResponseReceived
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.reasons.halts import StorageFenced
from raftnode.core.records import Batch
from raftnode.core.replica import Replica
from raftnode.core.roles import Fetching, Follower, Prospective, Unattached
from raftnode.core.types import Endpoint, Epoch, LogPosition, Offset

pytestmark = pytest.mark.rule("P22", "P23")

HERE, THERE = Endpoint("one.example", 9093), Endpoint("two.example", 9093)


@dataclass
class Fetcher:
    """Voter 2 of three, whose Fetch waits at leader 1."""

    book: Playbook

    @property
    def replica(self) -> Replica:
        return self.book["2"].replica

    @property
    def role(self) -> Follower:
        assert isinstance(self.replica.role, Follower)
        return self.replica.role

    @property
    def fetching(self) -> Fetching:
        fetching = getattr(self.replica.role, "fetching", None)
        assert isinstance(fetching, Fetching)
        return fetching

    @property
    def asked(self) -> FetchRequest:
        assert isinstance(self.fetching.in_flight, FetchRequest)
        return self.fetching.in_flight

    def hear(self, source: str = "1", **other: Any) -> list[Effect]:
        """The leader's answer that there is nothing new, but for what is said to be other."""
        log = self.replica.log
        good = FetchResponse(
            ErrorCode.NONE, self.replica.epoch, key_of("1"), high_watermark=log.end
        )
        event = ResponseReceived(key_of(source), self.asked, replace(good, **other))
        return self.book.give("2", event)

    def waits(self) -> int:
        """How long until it asks again; nothing is on its way."""
        assert self.fetching.in_flight is None
        return self.fetching.next_at_ms - self.book.now_ms


@pytest.fixture
def fetcher() -> Fetcher:
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.now_ms += 10
    return Fetcher(book)


def sent(effects: list[Effect]) -> list[FetchRequest]:
    return [
        one.request
        for one in effects
        if isinstance(one, SendRequest) and isinstance(one.request, FetchRequest)
    ]


def batch(fetcher: Fetcher, at: int = 0, epoch: int = 1, count: int = 1) -> Batch:
    """Records that begin `at` behind the log's end."""
    base = fetcher.replica.log.end + at
    return Batch(Offset(base), Offset(base + count - 1), Epoch(epoch), b"x")


@pytest.mark.rule("S9", "S11")
def test_a_good_answer_shows_that_the_leader_leads(fetcher: Fetcher):
    role, now = fetcher.role, fetcher.book.now_ms
    role.round_token, role.fetching.failures, role.leader_endpoint = 5, 3, HERE
    asked = fetcher.asked
    [again] = sent(fetcher.hear(round_token=4))
    assert fetcher.replica.role is role
    assert (role.heard_at_ms, role.caught_up_at_ms) == (now, now)
    timeout = fetcher.book.config.fetch_timeout_ms
    assert now + timeout <= role.election_at_ms <= now + timeout + timeout // 2
    assert (role.round_token, role.fetching.failures, role.leader_endpoint) == (5, 0, HERE)
    assert again == replace(asked, sequence=asked.sequence + 1, round_token=5)
    fetcher.hear(round_token=6, leader_endpoint=THERE)
    assert (role.round_token, role.leader_endpoint) == (6, THERE)


@pytest.mark.rule("S11")
@pytest.mark.parametrize(
    ("source", "error", "own", "answered", "kept"),
    [
        ("1", ErrorCode.INVALID_REQUEST, 9, 5, 5),
        ("1", ErrorCode.INVALID_REQUEST, 5, 9, 5),
        ("1", ErrorCode.NOT_LEADER_OR_FOLLOWER, 9, 5, 9),
        ("2", ErrorCode.INVALID_REQUEST, 9, 5, 9),
    ],
)
def test_only_a_refusal_of_its_leader_lowers_a_token(
    fetcher: Fetcher, source: str, error: ErrorCode, own: int, answered: int, kept: int
):
    role = fetcher.role
    role.round_token = own
    fetcher.hear(source, error=error, round_token=answered)
    assert fetcher.replica.role is role
    assert role.round_token == kept


@pytest.mark.rule("S1")
def test_a_fetch_says_where_its_sender_is(fetcher: Fetcher):
    fetcher.replica.endpoint = HERE
    [again] = sent(fetcher.hear())
    assert (again.replica, again.endpoint) == (key_of("2"), HERE)
    assert again.max_bytes == fetcher.book.config.fetch_max_bytes
    assert again.max_wait_ms == fetcher.book.config.fetch_max_wait_ms


def test_records_that_follow_the_log_are_appended_and_no_others(fetcher: Fetcher):
    first, second = batch(fetcher), batch(fetcher, at=1, count=3)
    gap, higher = batch(fetcher, at=5), batch(fetcher, at=1, epoch=2)
    lower = batch(fetcher, epoch=0)
    for answer, fitting in [
        ((first, second), (first, second)),
        ((first, gap), (first,)),
        ((first, higher), (first,)),
    ]:
        book = Playbook.formed("1", "2", "3")
        book.run(1000)
        effects = Fetcher(book).hear(batches=answer)
        assert AppendBatches(fitting) in effects
        told = [one for one in effects if isinstance(one, Fact)]
        assert [one.name for one in told] == ["batch_rejected"] * (fitting != answer)
    for answer in [(gap,), (batch(fetcher, at=-1),), (batch(fetcher, epoch=2),), (lower,)]:
        before = fetcher.replica.log.end
        effects = fetcher.hear(batches=answer)
        assert not [one for one in effects if isinstance(one, AppendBatches)]
        assert fetcher.replica.log.end == before
        # Damaged: asking again at once would spin.
        assert fetcher.fetching.failures == 1
        assert fetcher.waits() == fetcher.book.config.retry_backoff_ms
        fetcher.book.wait(fetcher.waits(), "2")


@pytest.mark.rule("P42", "S10")
@pytest.mark.without(
    "core.replication.fetcher:_take",
    "min(response.high_watermark, replica.log.end)",
    "response.high_watermark",
)
def test_what_is_committed_is_known_as_far_as_the_log_reaches(fetcher: Fetcher):
    role, end = fetcher.role, fetcher.replica.log.end
    role.caught_up_at_ms = None
    fetcher.hear(batches=(batch(fetcher, count=2),), high_watermark=Offset(end + 3))
    assert fetcher.replica.high_watermark == end + 2
    assert role.caught_up_at_ms is None
    fetcher.book["2"].flush(fetcher.book.now_ms)
    fetcher.hear(batches=(batch(fetcher, count=2),), high_watermark=Offset(end + 3))
    assert fetcher.replica.high_watermark == end + 3
    assert role.caught_up_at_ms == fetcher.book.now_ms


@pytest.mark.rule("S30")
def test_a_full_disk_takes_no_records_and_asks_without_haste(fetcher: Fetcher):
    fetcher.replica.disk_full = True
    effects = fetcher.hear(batches=(batch(fetcher),))
    assert not [one for one in effects if isinstance(one, AppendBatches)]
    assert fetcher.waits() == fetcher.book.config.retry_backoff_max_ms


def test_an_answer_about_the_log_as_it_was_brings_nothing(fetcher: Fetcher):
    old = replace(fetcher.asked, fetch_offset=Offset(fetcher.asked.fetch_offset - 1))
    fetcher.fetching.in_flight = old
    answer = FetchResponse(ErrorCode.NONE, Epoch(1), key_of("1"), batches=(batch(fetcher, at=-1),))
    effects = fetcher.book.give("2", ResponseReceived(key_of("1"), old, answer))
    assert not [one for one in effects if isinstance(one, AppendBatches)]
    assert fetcher.role.heard_at_ms == fetcher.book.now_ms
    assert len(sent(effects)) == 1


def test_an_answer_to_another_fetch_is_not_heard(fetcher: Fetcher):
    waiting = fetcher.asked
    other = replace(waiting, sequence=waiting.sequence - 1)
    answer = FetchResponse(ErrorCode.NONE, Epoch(9), key_of("3"))
    assert fetcher.book.give("2", ResponseReceived(key_of("1"), other, answer)) == []
    assert fetcher.asked is waiting
    assert fetcher.book.give("2", RequestFailed(key_of("1"), other)) == []
    assert fetcher.asked is waiting


@pytest.mark.rule("S3")
def test_a_leader_that_fences_ends_the_replica(fetcher: Fetcher):
    [halt] = [one for one in fetcher.hear(error=ErrorCode.FENCED_REPLICA) if isinstance(one, Halt)]
    assert halt.reason == StorageFenced(key_of("1"))


@pytest.mark.parametrize(
    "other",
    [{"epoch": Epoch(0)}, {"leader": key_of("3")}, {"leader": None}],
    ids=["an epoch that is over", "another leads", "no replica leads"],
)
def test_an_answer_of_one_that_does_not_lead_counts_for_nothing(
    fetcher: Fetcher, other: dict[str, Any]
):
    role, heard = fetcher.role, fetcher.role.heard_at_ms
    assert fetcher.hear(batches=(batch(fetcher),), **other) == []
    assert fetcher.replica.role is role
    assert role.heard_at_ms == heard
    assert fetcher.fetching.failures == 1
    assert fetcher.waits() == fetcher.book.config.retry_backoff_ms


def test_after_each_answer_of_no_use_it_waits_longer_up_to_five_times(fetcher: Fetcher):
    step, waits = fetcher.book.config.retry_backoff_ms, []
    for _ in range(7):
        fetcher.hear(epoch=Epoch(0))
        waits.append(fetcher.waits())
        fetcher.book.wait(waits[-1], "2")
    assert waits == [step, 2 * step, 3 * step, 4 * step, 5 * step, 5 * step, 5 * step]


def test_after_each_failure_it_waits_twice_as_long_up_to_the_bound(fetcher: Fetcher):
    config, waits = fetcher.book.config, []
    fetcher.role.election_at_ms += 60_000
    for _ in range(14):
        fetcher.book.give("2", RequestFailed(key_of("1"), fetcher.asked))
        waits.append(fetcher.waits())
        fetcher.book.wait(waits[-1], "2")
    longest = config.retry_backoff_max_ms
    assert waits == [min(config.retry_backoff_ms << at, longest) for at in range(14)]


def test_a_fetch_without_an_answer_is_given_up_in_time(fetcher: Fetcher):
    config, asked = fetcher.book.config, fetcher.asked
    fetcher.role.election_at_ms += 60_000
    due = fetcher.fetching.sent_at_ms + config.request_timeout_ms + config.fetch_max_wait_ms
    fetcher.book.wait(due - 1 - fetcher.book.now_ms, "2")
    assert fetcher.asked is asked
    fetcher.book.wait(1, "2")
    assert fetcher.fetching.in_flight is None
    assert (fetcher.fetching.failures, fetcher.waits()) == (1, config.retry_backoff_ms)


@pytest.mark.rule("P36", "S17")
def test_who_is_told_of_its_removal_remembers_where_it_stands_and_takes_the_records(
    fetcher: Fetcher,
):
    end = fetcher.replica.log.end
    effects = fetcher.hear(
        error=ErrorCode.NOT_FOLLOWER,
        batches=(batch(fetcher),),
        high_watermark=Offset(end + 1),
    )
    assert fetcher.replica.removed_below == end + 1
    [told] = [one for one in effects if isinstance(one, Fact) and one.name == "removal_learned"]
    assert ("below", end + 1) in told.fields
    assert fetcher.replica.log.end == end + 1
    fetcher.book["2"].flush(fetcher.book.now_ms)
    fetcher.hear(error=ErrorCode.NOT_FOLLOWER, high_watermark=Offset(end))
    assert fetcher.replica.removed_below == end + 1


@pytest.mark.rule("P21")
@pytest.mark.without(
    "core.log_index:LogIndex.truncation_point",
    "return min(own.end_offset, diverging.end_offset)",
    "return own.end_offset",
)
def test_a_log_that_diverges_is_cut_where_the_leader_says(fetcher: Fetcher):
    end = fetcher.replica.log.end
    fetcher.hear(batches=(batch(fetcher, count=3),), high_watermark=Offset(end))
    fetcher.book["2"].flush(fetcher.book.now_ms)
    effects = fetcher.hear(
        diverging=LogPosition(Epoch(1), Offset(end + 1)), high_watermark=Offset(end + 2)
    )
    assert fetcher.replica.log.end == end + 1
    assert fetcher.replica.high_watermark == end, "the logs were not alike up to there"
    assert not [one for one in effects if isinstance(one, Halt)]


# -- who leads instead -------------------------------------------------------------------


def test_another_leader_is_followed_as_a_stranger_reports_it_and_asked_at_once(fetcher: Fetcher):
    effects = fetcher.hear(
        error=ErrorCode.FENCED_LEADER_EPOCH,
        epoch=Epoch(4),
        leader=key_of("3"),
        leader_endpoint=THERE,
    )
    role = fetcher.role
    assert (fetcher.replica.epoch, role.leader, role.leader_endpoint) == (4, key_of("3"), THERE)
    assert role.heard_at_ms is None
    assert [one.target for one in effects if isinstance(one, SendRequest)] == [key_of("3")]
    assert fetcher.fetching.failures == 1
    # Epochs that strangers report may go round in circles.
    fetcher.hear("3", error=ErrorCode.FENCED_LEADER_EPOCH, epoch=Epoch(5), leader=key_of("1"))
    assert (fetcher.role.leader, fetcher.fetching.failures) == (key_of("1"), 2)
    assert fetcher.waits() == 2 * fetcher.book.config.retry_backoff_ms


def test_a_new_leader_that_names_itself_was_heard(fetcher: Fetcher):
    fetcher.hear("3", error=ErrorCode.UNKNOWN_LEADER_EPOCH, epoch=Epoch(4), leader=key_of("3"))
    assert (fetcher.role.leader, fetcher.role.heard_at_ms) == (key_of("3"), fetcher.book.now_ms)


@pytest.mark.parametrize("source", ["1", "3"])
def test_a_leader_is_left_when_it_says_itself_that_it_leads_no_more(fetcher: Fetcher, source: str):
    before = fetcher.role.election_at_ms = fetcher.book.now_ms + 5
    fetcher.hear(source, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=None)
    role = fetcher.replica.role
    if source == "3":
        assert isinstance(role, Follower)
        return
    assert isinstance(role, Unattached)
    assert role.election_at_ms == before, "its own time is not put off"
    assert fetcher.replica.epoch == 1


def test_a_higher_epoch_without_a_leader_is_taken_by_who_may_stand(fetcher: Fetcher):
    fetcher.hear("3", error=ErrorCode.FENCED_LEADER_EPOCH, epoch=Epoch(4), leader=None)
    assert isinstance(fetcher.replica.role, Unattached)
    assert fetcher.replica.epoch == 4
    book = Playbook.formed("1", "2", "3")
    observer = book.observer("4")
    book.run(1000)
    role = observer.replica.role
    assert isinstance(role, Follower)
    asked = role.fetching.in_flight
    assert asked is not None
    answer = FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(4), None)
    book.give("4", ResponseReceived(key_of("1"), asked, answer))
    assert isinstance(observer.replica.role, Unattached)
    assert observer.replica.epoch == 1, "no replica would ever lead it"


@pytest.mark.rule("S1", "P20")
def test_who_asks_for_pre_votes_remembers_whom_it_is_told_and_follows_in_a_later_epoch_only(
    fetcher: Fetcher,
):
    fetcher.book.isolate("1")
    fetcher.book.stand("2")
    role = fetcher.replica.role
    assert isinstance(role, Prospective)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for leader, hint in ((key_of("3"), key_of("3")), (key_of("2'"), None)):
        if fetcher.fetching.in_flight is None:
            fetcher.book.wait(fetcher.waits(), "2")
        fetcher.hear("3", error=error, leader=leader)
        assert fetcher.replica.role is role
        assert role.leader_hint == hint
    if fetcher.fetching.in_flight is None:
        fetcher.book.wait(fetcher.waits(), "2")
    fetcher.hear("3", error=ErrorCode.FENCED_LEADER_EPOCH, epoch=Epoch(2), leader=key_of("3"))
    assert (fetcher.role.leader, fetcher.replica.epoch) == (key_of("3"), 2)


@pytest.mark.rule("S1", "P20")
def test_who_knew_no_leader_takes_the_first_good_answer_and_what_it_brings(fetcher: Fetcher):
    fetcher.replica.become_unattached(Epoch(1))
    fetcher.book.wait(0, "2")
    role = fetcher.replica.role
    fetcher.hear("2'", leader=key_of("2'"), batches=(batch(fetcher),))
    assert isinstance(fetcher.replica.role, Unattached), "its own address"
    assert fetcher.replica.role is role
    fetcher.book.wait(0, "2")
    new = batch(fetcher)
    effects = fetcher.hear(batches=(new,), leader_endpoint=HERE, round_token=4)
    assert AppendBatches((new,)) in effects
    role = fetcher.role
    assert (role.leader, role.heard_at_ms) == (key_of("1"), fetcher.book.now_ms)
    assert (role.leader_endpoint, role.round_token) == (HERE, 4)


def test_an_error_of_the_leader_that_is_known_is_no_news_of_it(fetcher: Fetcher):
    role, heard = fetcher.role, fetcher.role.heard_at_ms
    assert len(sent(fetcher.hear(error=ErrorCode.INVALID_REQUEST))) == 1, "once at once"
    assert fetcher.replica.role is role
    assert role.heard_at_ms == heard
    assert fetcher.fetching.failures == 1


def test_a_leader_of_a_later_epoch_is_followed_there(fetcher: Fetcher):
    fetcher.hear(epoch=Epoch(3))
    assert (fetcher.replica.epoch, fetcher.role.leader) == (3, key_of("1"))
    assert fetcher.replica.state.leader == key_of("1")
