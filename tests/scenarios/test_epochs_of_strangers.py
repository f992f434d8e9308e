"""Whose word moves an epoch: a majority's, a voter's, or a wanted voter's; no stranger's."""

import random

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Refused, VoterChangeCompleted
from raftnode.core.elections import election
from raftnode.core.events import RequestReceived, ResponseReceived
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Response,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.roles import Prospective, Unattached
from raftnode.core.types import Epoch, LogPosition, Offset, ReplicaKey

FENCED = ErrorCode.FENCED_LEADER_EPOCH
SHORT = LogPosition(Epoch(1), Offset(1))


class Bootstrap(random.Random):
    """Lets a replica that looks for the leader ask the bootstrap servers each time."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


def raise_epoch(book: Playbook, name: str, times: int = 1) -> None:
    """Let a replica lose elections that reach no replica."""
    for _ in range(times):
        election.campaign(book[name].replica)
        book[name].disk.state = book[name].replica.state
        book[name].replica.effects.clear()


def with_a_removed_replica() -> Playbook:
    """1 leads 2 and 3; 4 was removed, does not know it, and lost elections up to epoch 3."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.isolate("4")
    book.remove("1", "4")
    book.settle()
    assert book.voters("1") == book.voters("2") == "{1,2,3}"
    raise_epoch(book, "4", 2)
    assert book["4"].replica.epoch == 3
    book.run(500)
    return book


@pytest.mark.rule("S9")
@pytest.mark.scenario("removed-voter-disrupts")
@pytest.mark.without(
    "core.replication.fetcher:_learn_leader",
    "epoch_rules.believed(replica, source, response.epoch, leader)",
    "response.epoch > replica.epoch",
)
def test_voter_that_was_cut_off_brings_no_epoch_of_a_removed_replica_home(
    monkeypatch: pytest.MonkeyPatch,
):
    """It asks whom it reaches for the leader; that one knows only a lost election's epoch."""
    book = with_a_removed_replica()
    book.heal()
    book["2"].replica.rng = Bootstrap()
    asked: list[str] = []
    book.on_delivery = lambda m: asked.append(m.source) if m.target == "2" and m.response else None
    sides = ({"1", "3"}, {"2", "4"})
    with monkeypatch.context() as cut:
        cut.setattr(Playbook, "is_cut", lambda _, *two: not any(set(two) <= side for side in sides))
        book.run(6000)
    assert "4" in asked, "2 must have heard 4"
    assert book["2"].replica.epoch == 1
    book.isolate("4")
    book.run(6000)
    assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)
    assert book["2"].replica.leader == key_of("1")


def answered(book: Playbook, name: str, source: str, kind: str, leader: str | None) -> None:
    """Let a replica hear epoch 5 in an answer, with a leader of it or without."""
    replica, key, epoch = book[name].replica, key_of(source), Epoch(5)
    named: ReplicaKey | None = key_of(leader) if leader else None
    position = replica.log.position
    request: (
        VoteRequest
        | BeginQuorumEpochRequest
        | EndQuorumEpochRequest
        | FetchRequest
        | FetchSnapshotRequest
    )
    answer: Response
    match kind:
        case "vote":
            request = VoteRequest(replica.epoch, replica.key, key, position, pre_vote=True)
            answer = VoteResponse(FENCED, epoch, named, granted=False)
        case "begin":
            request = BeginQuorumEpochRequest(replica.epoch, replica.key, key, None)
            answer = BeginQuorumEpochResponse(FENCED, epoch, named)
        case "end":
            request = EndQuorumEpochRequest(replica.epoch, replica.key, key, (key,))
            answer = EndQuorumEpochResponse(FENCED, epoch, named)
        case "fetch":
            in_flight = replica.role.fetching.in_flight
            assert isinstance(in_flight, FetchRequest)
            request, answer = in_flight, FetchResponse(FENCED, epoch, named)
        case _:
            snapshot = LogPosition(Epoch(1), Offset(90))
            request = FetchSnapshotRequest(replica.epoch, replica.key, snapshot, 0, 100)
            replica.role.fetching.in_flight = request
            answer = FetchSnapshotResponse(FENCED, epoch, named, snapshot, 0)
    book.give(name, ResponseReceived(key, request, answer))


def without_leader(book: Playbook, name: str) -> None:
    """Let a voter lose its leader and ask around; no replica answers."""
    book.isolate(name)
    book.stand(name)
    book.drop("pre-vote", name)
    assert isinstance(book[name].replica.role, Prospective)


ASKED = ("fetch", "snapshot", "vote", "begin", "end")


def hears(book: Playbook, kind: str) -> str:
    """The replica that would hear such an answer: 1 as leader, or 2 without one."""
    if kind in {"begin", "end"}:
        book.isolate("1")
        return "1"
    without_leader(book, "2")
    return "2"


@pytest.mark.rule("S9")
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.without("core.elections.epoch_rules:believed", "counts(replica, source)", "True")
def test_epoch_without_a_leader_is_not_taken_from_a_replica_outside_the_set(kind: str):
    book = with_a_removed_replica()
    name = hears(book, kind)
    role = book[name].role
    answered(book, name, "4", kind, leader=None)
    assert (book[name].replica.epoch, book[name].role) == (1, role)


@pytest.mark.rule("S9")
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.without(
    "core.elections.epoch_rules:counts", "if source in replica.log.voters:", "if False:"
)
def test_epoch_without_a_leader_is_taken_from_a_voter(kind: str):
    """Its vote or its acknowledgements are needed, and it can give none below that epoch."""
    book = with_a_removed_replica()
    name = hears(book, kind)
    answered(book, name, "3", kind, leader=None)
    assert book[name].replica.epoch == 5
    assert isinstance(book[name].replica.role, Unattached)


@pytest.mark.rule("S9")
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.without("core.elections.epoch_rules:believed", "leader is not None or ", "")
def test_epoch_that_has_a_leader_is_taken_from_any_replica(kind: str):
    """A majority has elected it, so no leader of a lower epoch can commit any more."""
    book = with_a_removed_replica()
    name = hears(book, kind)
    answered(book, name, "4", kind, leader="3")
    assert book[name].replica.epoch == 5


@pytest.mark.rule("S9")
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.without(
    "core.replica:Replica.become_follower", "self.now_ms if heard else None", "self.now_ms"
)
def test_leader_that_a_stranger_reports_keeps_no_voter_from_an_election(kind: str):
    """Two voters that repeat to each other what a third said must still elect a leader."""
    book = with_a_removed_replica()
    name = hears(book, kind)
    answered(book, name, "4", kind, leader="3")
    if kind == "end":  # a leader that resigns notes the epoch alone
        fetching = book[name].replica.role.fetching
        fetching.next_at_ms = book.now_ms
        book.wait(0, name)
        answer = FetchResponse(FENCED, Epoch(5), key_of("3"))
        book.give(name, ResponseReceived(key_of("4"), fetching.in_flight, answer))
    assert book[name].replica.leader == key_of("3")
    assert not election.has_fresh_leader(book[name].replica)
    assert book.vote("2" if name == "1" else "1", name, 6).granted


@pytest.mark.rule("S9")
@pytest.mark.parametrize(("candidate", "epoch"), [("4", 1), ("3", 5)])
def test_refused_candidate_moves_the_epoch_only_if_it_is_a_voter(candidate: str, epoch: int):
    """A vote that is given moves it always: that is what P8 writes down."""
    book = with_a_removed_replica()
    book.isolate("1")
    book.now_ms += book.config.fetch_timeout_ms
    request = VoteRequest(Epoch(5), key_of(candidate), key_of("2"), SHORT, pre_vote=False)
    book.give("2", RequestReceived(book.number(), key_of(candidate), request))
    assert book["2"].replica.state.voted != key_of(candidate)
    assert book["2"].replica.epoch == epoch


@pytest.mark.without("core.elections.epoch_rules:believed", "_may_lead(replica) and ", "")
def test_observer_takes_no_epoch_of_a_candidate_that_only_asks_for_a_pre_vote():
    """It cannot stand to be freed; with its vote it takes the epoch, if there is to be one."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("4")
    book.run(5000)
    assert book.vote("2", "4", 5, pre=True).granted
    assert book["4"].replica.epoch == 1
    assert book.vote("2", "4", 5).granted
    assert book["4"].replica.epoch == 5


def replace_while_away(book: Playbook, away: str) -> str:
    """Replace 1 and 2 by 5 and 6 while a replica hears nothing; who leads then."""
    book.run(1000)
    book.isolate(away)
    for new, old in (("5", "1"), ("6", "2")):
        book.observer(new)
        book.run(1000)
        book.add(book.leaders[0], new)
        book.settle()
        if book.leaders == [old]:
            book.elect(new)
        book.run(1000)
        book.remove(book.leaders[0], old)
        book.settle()
        book.crash(old)
    book.run(1000)
    return book.leaders[0]


@pytest.mark.parametrize("leads", ["5", "6"])
def test_voter_whose_recorded_voters_are_all_gone_finds_the_leader(leads: str):
    """Who answers is a stranger to its log; and its own epoch is a lost election's."""
    book = Playbook.formed("1", "2", "3")
    if replace_while_away(book, "3") != leads:
        book.elect(leads)
    raise_epoch(book, "3", 5)
    book.heal()
    book.run(10_000)
    leader = book[book.leaders[0]].replica
    assert book.voters("3") == "{3,5,6}"
    assert (book["3"].replica.leader, book["3"].replica.epoch) == (leader.key, leader.epoch)


def test_observer_whose_recorded_voters_are_all_gone_finds_the_leader():
    """Only strangers to its log tell it of the new epoch."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    leads = replace_while_away(book, "4")
    book.heal()
    book.run(10_000)
    assert (book.voters("4"), book["4"].replica.leader) == ("{3,5,6}", key_of(leads))


# -- an observer that knows a higher epoch than the leader ---------------------------------


def observer_above_the_leader() -> Playbook:
    """4 observes; a candidate that counts it got its vote in epoch 5, and was never elected."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("4")
    book.run(3000)
    assert book.vote("9", "4", 5).granted
    book.heal()
    book.run(5000)
    assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)
    assert book["4"].replica.epoch == 5
    return book


@pytest.mark.without("core.elections.epoch_rules:counts", "return asked or", "return True or")
def test_observer_above_the_leader_disturbs_no_voter_unless_it_is_wanted():
    book = observer_above_the_leader()
    book.run(20_000)
    assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)


@pytest.mark.rule("S9", "P28")
@pytest.mark.without("core.elections.epoch_rules:counts", "asked or ", "")
def test_observer_above_the_leader_can_be_added():
    """To want it as a voter is to want its votes and acknowledgements: the epoch goes up once."""
    book = observer_above_the_leader()
    request = book.add("1", "4", within_ms=60_000)
    book.run(4000)
    answer = book.answer(request)
    assert isinstance(answer, Refused)
    assert answer.outcome == "not_done"
    [leader] = book.leaders
    epoch = book[leader].replica.epoch
    assert epoch >= 5
    assert book["4"].replica.leader == key_of(leader)
    again = book.add(leader, "4")
    book.run(2000)
    assert isinstance(book.answer(again), VoterChangeCompleted)
    assert (book.leaders, book[leader].replica.epoch) == ([leader], epoch)


def test_removed_replica_above_the_leader_can_be_added_again():
    """A disk that is kept and used again (S25) is no worse than a new one."""
    book = with_a_removed_replica()
    book.heal()
    book.run(3000)
    assert (book.leaders, book["1"].replica.epoch) == (["1"], 1)
    book.add("1", "4", within_ms=60_000)
    book.run(4000)
    [leader] = book.leaders
    book.add(leader, "4")
    book.run(2000)
    assert book.voters(leader) == "{1,2,3,4}"


@pytest.mark.without(
    "core.replication.leadership:follow_higher_epoch",
    "progress_of(replica, role, source).higher_epoch = epoch",
    "pass",
)
def test_new_leader_hears_of_the_observer_above_it():
    """It was never heard in this leader's epoch, and is not said to be unknown all the same."""
    book = observer_above_the_leader()
    book.elect("2")
    assert book["2"].replica.epoch == 2
    book.run(2000)
    book.add("2", "4", within_ms=60_000)
    book.run(4000)
    [leader] = book.leaders
    book.add(leader, "4")
    book.run(2000)
    assert book.voters(leader) == "{1,2,3,4}"


@pytest.mark.without(
    "core.elections.epoch_rules:counts", " or source in replica.log.target_voters", ""
)
@pytest.mark.parametrize("leads", ["1", "2"])
def test_target_of_a_reassignment_above_the_leader_is_reached(leads: str):
    book = observer_above_the_leader()
    if leads != "1":
        book.elect(leads)
        book.run(2000)
    book.rounds_answered = False
    book.reassign(leads, "1", "2", "4")
    book.run(30_000)
    [leader] = book.leaders
    assert book.voters(leader) == "{1,2,4}"
