"""When a leader wakes by itself, how long it leads unheard, and how its epoch begins."""

from __future__ import annotations

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Refused, SendRequest
from raftnode.core.events import RequestFailed, ResponseReceived
from raftnode.core.log_index import VoterSetAt
from raftnode.core.membership.pending_change import PendingChange, PendingTarget
from raftnode.core.membership.pending_wait import PendingUpgrade
from raftnode.core.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse, ErrorCode
from raftnode.core.reasons.refusals import NotStartedInTime, Refusal
from raftnode.core.reasons.waits import Awaited
from raftnode.core.records import AddVoter, LeaderChange, RaftVersion
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Leader
from raftnode.core.types import Endpoint, Epoch, Offset, Voter, VoterSet


def leads(book: Playbook, name: str = "1") -> tuple[Replica, Leader]:
    replica = book[name].replica
    assert isinstance(replica.role, Leader)
    return replica, replica.role


@pytest.mark.rule("P14", "P41", "S24")
def test_a_leader_wakes_at_the_first_of_its_deadlines():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    replica, role = leads(book)
    parked = next(iter(role.parked.values()))
    role.parked.clear()
    lost = leadership.majority_lost_at(replica, role)
    assert lost is not None

    def wakes() -> int:
        at = book["1"].core.next_deadline_ms()
        assert at is not None
        return lost - at

    assert wakes() == 0
    second = role.progress[key_of("2")]
    second.begin_done, second.begin_at_ms = False, lost - 1
    assert wakes() == 1
    second.begin_in_flight = True
    assert wakes() == 0
    second.begin_in_flight, second.begin_done = False, True
    assert wakes() == 0
    role.progress[key_of("9")] = Progress(begin_at_ms=lost - 2)
    assert wakes() == 0, "an observer is sent no Begin"
    change = PendingChange(
        "remove", Voter(key_of("3")), replica.log.voter_record, deadline_ms=lost - 3
    )
    role.changes.append(change)
    assert wakes() == 3
    change.appended = Offset(4)
    assert wakes() == 0, "no Fetch waits for it"
    change.request_ids.add(1)
    assert wakes() == 3
    role.upgrade = PendingUpgrade(2, deadline_ms=lost - 4)
    assert wakes() == 4
    role.target = PendingTarget(VoterSet(), None, deadline_ms=lost - 5)
    assert wakes() == 5
    parked.until_ms = lost - 6
    role.parked[key_of("2")] = parked
    assert wakes() == 6


def test_a_leader_that_is_alone_need_never_wake():
    book = Playbook.formed("1")
    replica, role = leads(book)
    assert leadership.majority_lost_at(replica, role) is None
    assert book["1"].core.next_deadline_ms() is None


@pytest.mark.rule("P41", "S8")
@pytest.mark.parametrize(
    ("voters", "needed"), [("12", 0), ("123", 0), ("1234", 1), ("12345", 1), ("2345", 2)]
)
def test_a_majority_is_lost_when_too_few_have_fetched_for_long(voters: str, needed: int):
    """The leader counts itself only if it is a voter."""
    book = Playbook.formed(*"12345")
    replica, role = leads(book)
    in_force = VoterSet.of(Voter(key_of(name)) for name in voters)
    replica.log.history[-1] = VoterSetAt(replica.log.voter_record, in_force)
    role.since_ms = 100
    fetched = {"2": 900, "3": 700, "4": 50, "5": None}
    for name, at in fetched.items():
        role.progress[key_of(name)].last_fetch_ms = at
    timeout = book.config.fetch_timeout_ms * 3 // 2

    def expected() -> int:
        others = [name for name in voters if name != "1"]
        heard = sorted((max(fetched[name] or 0, 100) for name in others), reverse=True)
        return heard[needed] + timeout

    assert leadership.majority_lost_at(replica, role) == expected()
    del role.progress[key_of("2")]
    fetched["2"] = None
    assert leadership.majority_lost_at(replica, role) == expected()


@pytest.mark.rule("P11", "P42", "P52")
def test_an_epoch_begins_with_who_leads_who_votes_and_who_granted():
    book = Playbook.formed("1", "2", "3")
    one, two, three = (key_of(name) for name in "123")
    first = book["1"].disk.log[0]
    change, version, *added = first.control
    assert isinstance(change, LeaderChange)
    assert (change.leader, change.voters) == (one, (one, two, three))
    assert set(change.granting_voters) in ({one, two}, {one, three})
    assert list(change.granting_voters) == sorted(change.granting_voters)
    assert version == RaftVersion(2)
    assert added == [AddVoter(Voter(key)) for key in (one, two, three)]
    end = book["2"].replica.log.end
    here, seen = Endpoint("two.example", 9093), []
    book["2"].replica.endpoint = here
    book.watch = lambda node, effect: seen.append((node.name, effect))
    book.elect("2")
    replica, role = leads(book, "2")
    for voter in (one, three):
        begin = BeginQuorumEpochRequest(replica.epoch, two, voter, here)
        assert seen.count(("2", SendRequest(voter, begin))) == 1
    assert (role.epoch, role.epoch_start) == (replica.epoch, end)
    assert set(role.progress) == {one, three}
    assert role.transfer_at_ms == 0
    [batch] = [one for one in book["2"].disk.log if one.base_offset == end]
    assert [type(record) for record in batch.control] == [LeaderChange]
    assert replica.state.leader == two
    assert replica.state.voted == two


@pytest.mark.rule("S30")
def test_a_leader_that_is_elected_without_space_keeps_leading_for_a_while():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    for name in "123":
        book.disk_space(name, low=True)
    book.isolate("1")
    book.run(3 * book.config.fetch_timeout_ms)
    [name] = [one for one in book.leaders if one != "1"]
    _, role = leads(book, name)
    assert role.transfer_at_ms == role.since_ms + book.config.transfer_again_ms


@pytest.mark.rule("S30")
def test_a_leader_without_space_transfers_leadership_as_soon_as_it_may():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    _, role = leads(book)
    role.transfer_at_ms = book.now_ms + 1
    book.disk_space("1", low=True)
    assert book["1"].role == "leader"
    book.wait(1, "1")
    assert book["1"].role == "resigned"


@pytest.mark.rule("P14")
def test_a_begin_that_fails_is_sent_again_unless_its_epoch_is_over():
    book = Playbook.formed("1", "2", "3")
    _, role = leads(book)
    known = role.progress[key_of("2")]
    for epoch, target in ((0, key_of("2")), (1, None)):
        known.begin_in_flight, known.begin_done = True, False
        asked = BeginQuorumEpochRequest(Epoch(epoch), key_of("1"), key_of("2"), None)
        book.give("1", RequestFailed(target, asked))
        assert known.begin_in_flight is True
    asked = BeginQuorumEpochRequest(Epoch(1), key_of("1"), key_of("2"), None)
    absurd = BeginQuorumEpochResponse(ErrorCode.NONE, Epoch(2**30), None)
    for failed in (
        RequestFailed(key_of("2"), asked),
        ResponseReceived(key_of("2"), asked, absurd),
    ):
        known.begin_in_flight, known.begin_done = True, False
        book.now_ms += 7
        book.give("1", failed)
        assert (known.begin_in_flight, known.begin_done) == (False, False)
        assert known.begin_at_ms == book.now_ms + book.config.retry_backoff_max_ms // 4


@pytest.mark.rule("P31", "P33", "P56", "S24")
@pytest.mark.parametrize("what", ["add", "upgrade", "reassign"])
def test_what_has_not_begun_by_its_deadline_is_given_up_then_and_not_before(what: str):
    book = Playbook.formed("1", "2", "3", raft_version=1 if what == "upgrade" else 2)
    for name in ("4", "5"):
        book.observer(name)
    book.run(1000)
    book.isolate("3", "5")
    book.run(book.config.fetch_timeout_ms + 500)
    _, role = leads(book)
    if what == "add":
        request = book.add("1", "5", within_ms=700)
    elif what == "upgrade":
        request = book.upgrade("1", 2, within_ms=700)
    else:
        book["2"].flushes = book["4"].flushes = False
        book.add("1", "4", within_ms=60_000)
        request = book.reassign("1", "1", "2", within_ms=700)
    end = book.now_ms + 700
    book.run(699)
    assert book.answer(request) is None
    book.run(1)
    answer = book.answer(request)
    assert isinstance(answer, Refused)
    assert (answer.refusal, answer.outcome, book.now_ms) == (Refusal.WAITING, "not_done", end)
    assert isinstance(answer.reason, NotStartedInTime)
    assert answer.reason.waited_for is not Awaited.LEADER
    assert (role.upgrade, role.target) == (None, None)
    assert [change for change in role.changes if change.appended is None] == []
