"""S31: a replica outside its own voter set stands only when a voter cannot win without it."""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import SendRequest, SendResponse
from raftnode.core.events import RequestReceived, ShutdownRequested, TimePassed
from raftnode.core.messages import VoteRequest, VoteResponse
from raftnode.core.types import Epoch, LogPosition, Offset

SHORT = LogPosition(Epoch(1), Offset(1))


def alone() -> Playbook:
    """Observer 4 holds the log of 1, 2 and 3 and hears no replica."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("4")
    book.run(6000)
    book.drop()
    return book


def call(book: Playbook, source: str = "9", last: LogPosition = SHORT) -> bool:
    """Ask 4 for a pre-vote, as a candidate does that counts 4 among its voters; the answer."""
    epoch = book["4"].replica.epoch
    request = VoteRequest(epoch, key_of(source), key_of("4"), last, pre_vote=True)
    effects = book.give("4", RequestReceived(book.number(), key_of(source), request))
    [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    assert isinstance(answer, VoteResponse)
    return answer.granted


def votes_asked(book: Playbook) -> int:
    """How many rounds of votes and pre-votes 4 has begun."""
    asked = [e.request for e in book["4"].effects if isinstance(e, SendRequest)]
    return sum(isinstance(request, VoteRequest) for request in asked) // 3


def look(book: Playbook, duration_ms: int, *, step_ms: int = 10) -> None:
    """4 looks at the clock for a while; whatever it sends is lost."""
    for _ in range(0, duration_ms, step_ms):
        book.wait(step_ms, "4")
        book.drop()


@pytest.mark.rule("S31")
@pytest.mark.without(
    "core.elections.election:_judge_pre_vote",
    "_be_called(replica, request.candidate)",
    "pass",
)
@pytest.mark.without(
    "core.membership.voter_changes:_finish_committed",
    " and leadership.epoch_committed(replica, role)",
    "",
)
def test_uncommitted_addition_then_leader_lost():
    """The wedge: 4 has the longest log, and 3, whose set counts 4, cannot win without it.

    Leaving `_be_called` out of `election._judge_pre_vote` makes this fail, and so does
    leaving `epoch_committed` out of `voter_changes._finish_committed`: 4 would go before
    any replica has its log.
    """
    book = Playbook.formed("3", "1", "2", leader="3")
    book.observer("4")
    book.run(1000)
    book.isolate("1", "2", "4")
    book.add("3", "4")
    book["3"].flush(book.now_ms)
    book.crash("3")
    book.drop()
    book.heal()
    book.wait(2600, "4")
    book.impatient("1")
    for kind in ("pre-vote", "pre-vote-answer", "vote", "vote-answer"):
        book.deliver(kind)
    book.isolate("2")
    book.run(1000)
    assert book["4"].disk.log == book["1"].disk.log
    book.wipe("1")
    book.heal()
    book.restart("3")
    book.run(10_000)
    assert len(book.leaders) == 1
    assert book.leaders[0] in {"2", "3"}
    assert book.voters("2") == book.voters("3") == book.voters("4") == "{1,2,3}"
    assert book["4"].replica.epoch <= 5


@pytest.mark.without(
    "core.replica:Replica.is_called",
    "self.now_ms < self.called_until_ms and ",
    "",
)
def test_observer_that_hears_no_leader_does_not_stand():
    """A plain observer has no business in elections; it would ask for ever.

    Taking the time out of `Replica.is_called` makes this fail.
    """
    book = alone()
    look(book, 20_000)
    assert votes_asked(book) == 0
    assert book["4"].replica.epoch == 1


@pytest.mark.rule("S9")
@pytest.mark.without(
    "core.elections.election:_judge_pre_vote",
    "if _withholds_votes(replica):\n        return False\n    if request.last",
    "if request.last",
)
def test_observer_with_a_fresh_leader_is_not_called():
    """S9 goes before. Calling before `_withholds_votes` is asked makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    assert not call(book)
    assert not book["4"].replica.is_called


@pytest.mark.without(
    "core.elections.election:_judge_pre_vote",
    "return True",
    "_be_called(replica, request.candidate)\n    return True",
)
def test_observer_that_grants_is_not_called():
    """A replica with the longer log can win by itself. Calling in any case makes this fail."""
    book = alone()
    assert call(book, last=book["4"].replica.log.position)
    assert not book["4"].replica.is_called


@pytest.mark.without(
    "core.elections.election:_be_called",
    "role.election_at_ms = max(role.election_at_ms, replica.first_election_deadline())",
    "pass",
)
def test_called_observer_lets_the_voters_go_first():
    """It waits half an election timeout at least.

    Leaving its deadline as it was in `election._be_called` makes this fail.
    """
    book = alone()
    assert not call(book)
    look(book, book.config.election_timeout_ms // 2 - 10)
    assert votes_asked(book) == 0
    look(book, book.config.election_timeout_ms // 2 + 10)
    assert votes_asked(book) > 0


@pytest.mark.without(
    "core.elections.election:on_election_time",
    "case Unattached() | Follower() | Resigned():\n            stand(replica)",
    "case Unattached() | Follower() | Resigned():\n            campaign(replica)",
)
def test_called_observer_raises_no_epoch_without_a_majority_that_would_elect_it():
    """No replica answers: only pre-votes go out. Campaigning without them makes this fail."""
    book = alone()
    for _ in range(20):
        call(book)
        look(book, 1000)
    assert votes_asked(book) > 2
    assert book["4"].replica.epoch == 1


def test_called_observer_asks_no_more_often_than_a_voter():
    """Each call would begin a round at once, were the deadline not kept from call to call."""
    book = alone()
    for _ in range(200):
        call(book)
        look(book, 50)
    assert 2 <= votes_asked(book) <= 10


@pytest.mark.without(
    "core.elections.election:_be_called",
    "2 * (config.election_timeout_ms + config.election_backoff_max_ms)",
    "10**9",
)
def test_called_observer_is_released_when_no_voter_asks_any_more():
    """Making `lasts_ms` endless in `election._be_called` makes this fail."""
    book = alone()
    call(book)
    look(book, 10_000)
    before = votes_asked(book)
    assert before > 0
    look(book, 20_000)
    assert votes_asked(book) == before
    assert book["4"].role == "unattached"


@pytest.mark.rule("S9")
def test_called_observer_disturbs_no_quorum_that_has_a_leader():
    """S9: the voters that cannot hear the leader ask it; the others can."""
    book = alone()
    call(book)
    book.heal()
    for _ in range(10):
        book.run(300)
        call(book)
    assert book.leaders == ["1"]
    assert book["1"].replica.epoch == 1
    assert book["4"].role == "follower"


@pytest.mark.without(
    "core.elections.election:_be_called",
    " or not replica.log.voters",
    "",
)
def test_replica_without_voters_is_not_called():
    """It knows no replica whose votes would count. Asking no voters in `_be_called` fails this."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("4")
    book.observer("4")
    last = LogPosition(Epoch(-1), Offset(-1))
    assert not call(book, last=last)
    assert not book["4"].replica.is_called


def test_replica_that_ends_is_not_called():
    book = alone()
    call(book)
    book.give("4", ShutdownRequested())
    assert not book["4"].replica.is_called
    book.now_ms += 2000
    book.give("4", TimePassed())
    assert votes_asked(book) == 0


def test_voter_needs_no_call():
    """It stands by itself, in its own time; a call must not put that off."""
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.wait(2100)
    request = VoteRequest(Epoch(1), key_of("2"), key_of("3"), SHORT, pre_vote=True)
    book.give("3", RequestReceived(book.number(), key_of("2"), request))
    assert book["3"].replica.called_until_ms == 0
