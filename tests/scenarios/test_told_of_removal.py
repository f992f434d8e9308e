"""P36, S17: a removed voter is told by NOT_FOLLOWER, until the removal is in its own log."""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import ServeFetch
from raftnode.core.events import ResponseReceived
from raftnode.core.messages import ErrorCode, FetchResponse
from raftnode.core.types import NO_OFFSET

pytestmark = pytest.mark.rule("P36", "S17")


def removed_unheard(*, batches: int = 30) -> Playbook:
    """4 is removed and that is committed while it hears nothing; its log ends before it."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.isolate("4")
    for count in range(batches):
        book.append("1", b"%d" % count)
    book.settle()
    book.remove("1", "4")
    book.settle()
    assert book.voters("1") == "{1,2,3}"
    return book


def answers_to(book: Playbook, name: str) -> list[ErrorCode]:
    """Every answer of 1 to a Fetch of a replica from now on is added to this list."""
    found: list[ErrorCode] = []

    def look(message) -> None:
        if message.target == name and isinstance(message.response, FetchResponse):
            found.append(message.response.error)

    book.on_delivery = look
    return found


@pytest.mark.without(
    "core.replication.leadership:_membership",
    "ErrorCode.NOT_FOLLOWER if must_learn_removal else ErrorCode.NONE",
    "ErrorCode.NONE",
)
@pytest.mark.rule("P36")
@pytest.mark.without(
    "core.replication.fetcher:handle_fetch_response",
    "not in {ErrorCode.NONE, ErrorCode.NOT_FOLLOWER}",
    "not in {ErrorCode.NONE}",
)
def test_removed_voter_is_told_and_becomes_an_observer():
    """Answering NONE in `leadership._membership` makes this fail."""
    book = removed_unheard()
    told = answers_to(book, "4")
    book.heal()
    book.run(3000)
    assert ErrorCode.NOT_FOLLOWER in told
    # Told until the removal is in its log; from then on it is an observer like any other.
    assert told[-1] == ErrorCode.NONE
    assert (
        told.count(ErrorCode.NOT_FOLLOWER)
        == told.index(ErrorCode.NONE)
        - next(at for at, error in enumerate(told) if error == ErrorCode.NOT_FOLLOWER)
        or told[0] == ErrorCode.NOT_FOLLOWER
    )
    assert book.voters("4") == "{1,2,3}"
    assert book["4"].replica.log.end == book["1"].replica.log.end
    assert not book["4"].replica.may_stand


@pytest.mark.without(
    "core.replica:Replica.may_stand",
    " or self.log.end < self.removed_below",
    "",
)
def test_who_was_told_does_not_stand_before_its_log_tells_it_too():
    """Taking `removed_below` out of `Replica.may_stand` makes this fail."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    replica = book["4"].replica
    request = replica.role.fetching.in_flight
    below = replica.log.end + 5
    # As if its Fetch had room for no record at all.
    told = FetchResponse(ErrorCode.NOT_FOLLOWER, replica.epoch, key_of("1"), high_watermark=below)
    book.give("4", ResponseReceived(key_of("1"), request, told))
    assert replica.is_voter
    assert not replica.may_stand
    book.isolate("1", "2", "3")
    book.run(20_000)
    assert book["4"].role in {"follower", "unattached"}
    book.heal()
    for count in range(6):
        book.run(3000)
        book.append(book.leaders[0], b"%d" % count)
    book.run(1000)
    assert replica.log.end >= below
    assert replica.may_stand  # it was told wrong: its log says that it is a voter


@pytest.mark.without(
    "core.replication.leadership:_membership",
    "< replica.high_watermark",
    "< replica.log.end",
)
def test_uncommitted_removal_is_not_told():
    """S7: such a replica may have to stand. ReportedWorld it at once makes this fail."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    for name in ("2", "3"):
        book[name].flushes = False
    told = answers_to(book, "4")
    book.remove("1", "4")
    book.run(300)
    assert book.voters("4") == "{1,2,3}"
    assert ErrorCode.NOT_FOLLOWER not in told
    assert book["4"].replica.may_stand


def test_observer_that_never_voted_is_not_told():
    book = Playbook.formed("1", "2", "3", "4")
    book.remove("1", "4")
    book.run(1000)
    told = answers_to(book, "5")
    book.observer("5")
    book.run(2000)
    assert set(told) == {ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH} or set(told) == {
        ErrorCode.NONE
    }


def test_replica_that_was_added_again_is_not_told():
    """S14: the removal that counts is the one after which it was never added again."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.remove("1", "4")
    book.run(1500)
    removal = book["1"].replica.log.removal_of(key_of("4"))
    assert removal == book["1"].replica.log.voter_record.offset
    book.add("1", "4")
    book.run(1500)
    log = book["1"].replica.log
    assert log.removal_of(key_of("4")) == NO_OFFSET
    assert log.removal_of(key_of("1")) == NO_OFFSET
    assert log.removal_of(key_of("9")) == NO_OFFSET


def test_answer_brings_the_records_along():
    """Without them the removal would never be in its log, and it would be told for ever."""
    book = removed_unheard()
    book.heal()
    served: list[ServeFetch] = []
    book.watch = lambda node, effect: (
        served.append(effect) if isinstance(effect, ServeFetch) else None
    )
    book.run(3000)
    told = [one for one in served if one.response.error == ErrorCode.NOT_FOLLOWER]
    assert told
    assert all(one.start_offset < book["1"].replica.log.end for one in told)
