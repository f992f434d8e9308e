"""`recovering-follower-prevote-storm` (Redpanda #30817): a follower that is slow, and asks on."""

from dataclasses import replace

import pytest

from proofkit.playbook import Message, Playbook, ScriptedNode
from raftnode.core.effects import Effect, SendRequest
from raftnode.core.events import LogFlushed
from raftnode.core.messages import FetchResponse, VoteRequest
from raftnode.core.types import Epoch, Offset

pytestmark = [
    pytest.mark.rule("P40", "S9"),
    pytest.mark.scenario("recovering-follower-prevote-storm"),
]

ROUND = 2
"""A round of pre-votes asks both of the others."""


class Asked:
    """Counts what a replica asks for, and stops a storm early."""

    def __init__(self, book: Playbook, name: str, at_most: int) -> None:
        self.count, self.at_most, self.name = 0, at_most, name
        book.watch = self.watch

    def watch(self, node: ScriptedNode, effect: Effect) -> None:
        if node.name != self.name:
            return
        match effect:
            case SendRequest(_, VoteRequest(pre_vote=pre_vote)):
                assert pre_vote, "it raised its epoch though its leader is well"
                self.count += 1
                assert self.count <= self.at_most, "a storm"
            case _:
                pass


IS_GRANTED_A_VOTE = pytest.mark.without(
    "core.elections.election:_judge_pre_vote", "if _withholds_votes(replica):", "if False:"
)
ASKS_AT_ONCE = pytest.mark.without(
    "core.elections.election:_back_off",
    "replica.now_ms + replica.backoff(role.retries)",
    "replica.now_ms + 1",
)
WAITS_NO_LONGER_EACH_TIME = pytest.mark.without(
    "core.replica:Replica.backoff", "<< min(retries + 1, 16)", "<< 1"
)


@IS_GRANTED_A_VOTE
@ASKS_AT_ONCE
@pytest.mark.without("core.elections.election:_back_off", "replica.backoff(role.retries)", "1")
def test_follower_whose_disk_stands_still_asks_seldom_and_disturbs_no_other_replica():
    """It cannot fetch before it has flushed (S10), so it misses a leader that is well.

    Once its disk counts as stalled it asks for no vote any more (S35).
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book["3"].flushes = False
    book.append("1", b"takes twenty seconds")
    asked = Asked(book, "3", at_most=ROUND * 60)
    book.run(20_000)
    assert asked.count >= ROUND
    assert book["3"].role == "unattached"
    assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)
    book["3"].flushes = True
    book.run(1500)
    assert book["3"].role == "follower"
    assert book["3"].high_watermark == book["1"].replica.log.end


@IS_GRANTED_A_VOTE
@ASKS_AT_ONCE
@WAITS_NO_LONGER_EACH_TIME
def test_follower_whose_disk_is_never_done_asks_seldom_and_disturbs_no_other_replica():
    """It makes some records durable each time and so never stalls, but does not fetch meanwhile."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book["3"].flushes = False
    first = book["3"].disk.end
    for number in range(10):
        book.append("1", b"part %d" % number)
    book.settle()
    asked = Asked(book, "3", at_most=ROUND * 60)
    for number in range(1, 10):
        book.run(2500)
        end = Offset(first + number)
        book["3"].disk.flush(end)
        book.give("3", LogFlushed(end, book["3"].replica.log.truncations))
    assert asked.count >= ROUND
    assert book["3"].role == "prospective"
    assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)
    book["3"].flushes = True
    book.run(1500)
    assert book["3"].role == "follower"
    assert book["3"].high_watermark == book["1"].replica.log.end


@IS_GRANTED_A_VOTE
@ASKS_AT_ONCE
def test_follower_that_catches_up_slowly_arrives_and_its_leader_stays():
    """Each answer takes its disk longer than it is content without its leader."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book["3"].flushes = False
    asked = Asked(book, "3", at_most=ROUND * 10 * 10)
    for number in range(10):
        book.append("1", b"part %d" % number)
        book.run(3000)
        book["3"].flush(book.now_ms)
        book.run(100)
        assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)
    assert asked.count >= ROUND
    book["3"].flushes = True
    book.run(1500)
    assert book["3"].records == book["1"].records
    assert book["3"].role == "follower"


@pytest.mark.without(
    "core.replication.fetcher:_take",
    "role = _hear(replica, response)",
    "role = replica.role if response.batches else _hear(replica, response)",
)
def test_follower_that_gets_nothing_it_can_use_hears_its_leader_all_the_same():
    """Whatever an answer brings, it comes from a leader that is well."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    asked = Asked(book, "3", at_most=0)
    useless = 0

    def spoil(message: Message) -> None:
        nonlocal useless
        answer = message.response
        if message.target == "3" and isinstance(answer, FetchResponse) and answer.batches:
            useless += 1
            first = replace(answer.batches[0], epoch=Epoch(0))
            message.response = replace(answer, batches=(first, *answer.batches[1:]))

    book.on_delivery = spoil
    for number in range(20):
        book.append("1", b"record %d" % number)
        book.run(500)
    assert useless > 20
    assert book["3"].role == "follower"
    assert asked.count == 0
    assert book["3"].records == []
    book.on_delivery = None
    book.run(1500)
    assert book["3"].records == book["1"].records
