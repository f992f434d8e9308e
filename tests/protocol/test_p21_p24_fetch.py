"""P20-P24: Fetch, DivergingEpoch, observers.

KIP-595, Fetch: "check that the [LastFetchedEpoch and FetchOffset] are consistent with the
leader's log; otherwise respond with the largest epoch smaller than or equal and its end".
"""

from dataclasses import replace

import pytest

from proofkit.playbook import Message, Playbook, key_of
from raftnode.core.effects import Halt
from raftnode.core.messages import FetchResponse
from raftnode.core.reasons.halts import TruncationBelowHighWatermark
from raftnode.core.types import Offset


@pytest.mark.rule("P21")
@pytest.mark.without(
    "core.replication.leadership:handle_fetch",
    "if diverging is not None:",
    "if False:",
)
def test_p21_diverged_fetcher_gets_no_records_but_where_to_cut():
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.append("1", b"alone")
    book["1"].flush(book.now_ms)
    book.drop()
    book.elect("2")
    book.crash("1")
    book.heal()
    answers: list[FetchResponse] = []

    def watch(message: object) -> None:
        response = getattr(message, "response", None)
        if isinstance(response, FetchResponse) and getattr(message, "target", "") == "1":
            answers.append(response)

    book.on_delivery = watch
    book.restart("1")
    book.run(2000)
    found = [answer for answer in answers if answer.diverging is not None]
    assert len(found) == 1
    [diverging] = found
    assert diverging.batches == ()
    assert (diverging.diverging.epoch, diverging.diverging.end_offset) == (1, 6)
    assert book["1"].disk.log == book["2"].disk.log


@pytest.mark.rule("P22")
@pytest.mark.without(
    "core.replica:Replica.truncate",
    "if end < self.high_watermark:",
    "if False:",
)
def test_p22_truncation_below_the_high_watermark_is_fatal():
    """Kafka's rule: committed records are never dropped, whichever replica asks."""
    book = Playbook.formed("1", "2", "3")
    book["2"].replica.truncate(Offset(3))
    effects = book["2"].replica.effects
    assert isinstance(effects[-1], Halt)
    assert isinstance(effects[-1].reason, TruncationBelowHighWatermark)
    assert book["2"].replica.log.end == 6


@pytest.mark.rule("P23")
def test_p23_observer_finds_the_leader_through_any_voter_and_goes_on_asking():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    assert book["4"].replica.leader == key_of("1")
    for name in ("1", "2", "3"):
        book.crash(name)
    book.run(10_000)
    for name in ("1", "2", "3"):
        book.restart(name)
    book.run(6000)
    [leader] = book.leaders
    assert book["4"].replica.leader == key_of(leader)
    assert book["4"].disk.log == book[leader].disk.log


@pytest.mark.rule("P24")
@pytest.mark.without(
    "core.replication.leadership:_acknowledged",
    "for voter in replica.log.voters:",
    "for voter in {*replica.log.voters, *role.progress}:",
)
def test_p24_observers_are_served_and_do_not_count():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.observer("5")
    book.run(1000)
    book.isolate("2", "3")
    before = book["1"].high_watermark
    book.append("1", b"x")
    book.run(300)
    assert book["4"].records == [b"x"]
    assert book["1"].high_watermark == before
    described = book["1"].core.describe()
    assert [seen.key for seen in described.observers] == [key_of("4"), key_of("5")]


@pytest.mark.rule("P24")
@pytest.mark.without(
    "core.replication.leadership:_longest_silent",
    "if not observers or len(observers) < replica.config.observers_max:",
    "if True:",
)
def test_p24_observers_beyond_the_limit_are_forgotten_longest_silent_first():
    book = Playbook.formed("1")
    limit = book.config.observers_max
    for number in range(2, limit + 4):
        book.observer(str(number))
        book.run(20)
    role = book["1"].replica.role
    assert len(role.progress) <= limit
    assert key_of("1") not in role.progress


@pytest.mark.rule("P42")
@pytest.mark.without(
    "core.replication.fetcher:_take",
    "min(response.high_watermark, replica.log.end)",
    "response.high_watermark",
)
def test_p42_follower_commits_no_further_than_its_own_log():
    book = Playbook.formed("1", "2", "3")
    end = book["3"].replica.log.end
    told: list[int] = []

    def lose_records(message: Message) -> None:
        if message.target == "3" and isinstance(message.response, FetchResponse):
            message.response = replace(message.response, batches=())
            told.append(message.response.high_watermark)

    book.on_delivery = lose_records
    book.append("1", b"for 1 and 2")
    for _ in range(6):
        book.deliver()
        for name in ("1", "2", "3"):
            book[name].flush(book.now_ms)
    assert max(told) > end
    assert book["3"].high_watermark == book["3"].replica.log.end == end
