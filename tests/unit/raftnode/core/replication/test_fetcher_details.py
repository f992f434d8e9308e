"""Small answers of a follower, and how long it waits before it asks again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Refused, SendResponse
from raftnode.core.events import RequestFailed, RequestReceived
from raftnode.core.membership.pending_change import PendingChange
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
)
from raftnode.core.reasons.refusals import NotCommittedInTime, NotStartedInTime, Refusal
from raftnode.core.reasons.waits import CatchUpOfAll
from raftnode.core.roles import Follower, Leader, Unattached
from raftnode.core.types import Endpoint, Epoch, LogPosition, Offset, Voter, VoterRecordId, VoterSet


@pytest.mark.rule("P23")
def test_follower_tells_a_fetcher_where_its_leader_is():
    book = Playbook.formed("1", "2", "3")
    replica = book["2"].replica
    assert isinstance(replica.role, Follower)
    replica.role.leader_endpoint = Endpoint("leader.example", 9093)
    leads = book["1"].replica.role
    assert isinstance(leads, Leader)
    asked = replace(next(iter(leads.parked.values())).request, replica=key_of("3"))
    effects = book.give("2", RequestReceived(book.number(), key_of("3"), asked))
    [answer] = [one.response for one in effects if isinstance(one, SendResponse)]
    assert isinstance(answer, FetchResponse)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.leader, answer.leader_endpoint) == (
        key_of("1"),
        Endpoint("leader.example", 9093),
    )


@pytest.mark.rule("P23", "P25")
@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_follower_tells_who_fetches_a_snapshot_where_its_leader_is(epoch: int, error: ErrorCode):
    book = Playbook.formed("1", "2", "3")
    replica = book["2"].replica
    place, snapshot = Endpoint("leader.example", 9093), LogPosition(Epoch(1), Offset(3))
    assert isinstance(replica.role, Follower)
    replica.role.leader_endpoint = place
    asked = FetchSnapshotRequest(Epoch(epoch), key_of("3"), snapshot, 30, max_bytes=100)
    effects = book.give("2", RequestReceived(77, key_of("3"), asked))
    answer = FetchSnapshotResponse(error, Epoch(1), key_of("1"), snapshot, 30, place)
    assert effects == [SendResponse(77, answer)]
    plain = replace(plain_fetch(book), epoch=Epoch(epoch))
    effects = book.give("2", RequestReceived(78, key_of("3"), plain))
    assert effects == [SendResponse(78, FetchResponse(error, Epoch(1), key_of("1"), place))]


def plain_fetch(book: Playbook) -> FetchRequest:
    leads = book["1"].replica.role
    assert isinstance(leads, Leader)
    return leads.parked[key_of("3")].request


@pytest.mark.rule("P13", "S9")
def test_a_leader_that_announces_itself_is_followed_where_it_says_and_was_heard():
    book, place = Playbook.formed("1", "2", "3"), Endpoint("leader.example", 9093)
    asked = BeginQuorumEpochRequest(Epoch(2), key_of("3"), key_of("2"), place)
    answer = SendResponse(77, BeginQuorumEpochResponse(ErrorCode.NONE, Epoch(2), key_of("3")))
    assert answer in book.give("2", RequestReceived(77, key_of("3"), asked))
    role = book["2"].replica.role
    assert isinstance(role, Follower)
    assert (role.leader, role.leader_endpoint) == (key_of("3"), place)
    assert role.heard_at_ms == book.now_ms
    book.now_ms += 100
    deadline = role.election_at_ms
    assert book.give("2", RequestReceived(77, key_of("3"), asked)) == [answer]
    assert book["2"].replica.role is role
    assert (role.heard_at_ms, role.election_at_ms) == (book.now_ms, deadline)


@pytest.mark.rule("P12", "P18")
def test_refused_end_is_told_who_leads():
    book = Playbook.formed("1", "2", "3")
    asked = EndQuorumEpochRequest(Epoch(0), key_of("3"), key_of("2"), (key_of("2"),))
    effects = book.give("2", RequestReceived(book.number(), key_of("3"), asked))
    [answer] = [one.response for one in effects if isinstance(one, SendResponse)]
    assert answer == EndQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(1), key_of("1"))


@pytest.mark.rule("P18", "S17")
def test_who_led_an_earlier_epoch_takes_its_turn_when_a_later_one_ends():
    book = Playbook.formed("1", "2", "3")
    asked = EndQuorumEpochRequest(Epoch(2), key_of("2"), key_of("1"), (key_of("3"), key_of("1")))
    assert book["1"].replica.state.leader == key_of("1")
    effects = book.give("1", RequestReceived(77, key_of("2"), asked))
    assert SendResponse(77, EndQuorumEpochResponse(ErrorCode.NONE, Epoch(2), None)) in effects
    role = book["1"].replica.role
    assert isinstance(role, Unattached)
    assert role.election_at_ms == book.now_ms + book.config.retry_backoff_ms


@pytest.mark.rule("P18", "S30")
def test_a_successor_without_space_lets_the_next_one_stand_first():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.disk_space("2", low=True)
    asked = EndQuorumEpochRequest(Epoch(1), key_of("1"), key_of("2"), (key_of("2"), key_of("3")))
    book.give("2", RequestReceived(77, key_of("1"), asked))
    replica = book["2"].replica
    assert isinstance(replica.role, Unattached)
    assert replica.role.election_at_ms == replica.first_election_deadline()
    assert replica.role.transfer is False


@pytest.mark.rule("P23")
@pytest.mark.parametrize(("early_ms", "stays"), [(1, True), (0, False)])
def test_observer_leaves_a_leader_that_does_not_answer_when_its_time_is_up(
    early_ms: int, stays: bool
):
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    role = book["4"].replica.role
    assert isinstance(role, Follower)
    assert role.fetching.in_flight is not None
    role.election_at_ms = book.now_ms + early_ms
    book.give("4", RequestFailed(key_of("1"), role.fetching.in_flight))
    assert (book["4"].replica.role is role) is stays
    assert book["4"].replica.epoch == 1


@pytest.mark.rule("P23")
def test_observer_whose_fetch_fails_asks_another_replica_soon():
    """It waits longer each time, but never more than a tenth of a fetch timeout."""
    book = Playbook.formed("1", "2", "3")
    node = book.observer("4")
    waits: list[int] = []
    for _ in range(12):
        fetching = node.replica.role.fetching
        assert fetching.in_flight is not None
        book.give("4", RequestFailed(None, fetching.in_flight))
        waits.append(fetching.next_at_ms - book.now_ms)
        book.wait(waits[-1], "4")
    longest = book.config.fetch_timeout_ms // 10
    assert waits == sorted(waits)
    assert waits[0] < longest
    assert waits[-4:] == [longest] * 4
    assert all(type(wait) is int for wait in waits)


def test_change_of_voters_applied_to_a_set():
    one, two = (Voter(key_of(name)) for name in "12")
    record = VoterRecordId(Offset(0), Epoch(1))
    added = PendingChange("add", two, record, deadline_ms=0)
    removed = PendingChange("remove", two, record, deadline_ms=0)
    assert added.applied_to(VoterSet.of([one])) == VoterSet.of([one, two])
    assert removed.applied_to(VoterSet.of([one, two])) == VoterSet.of([one])
    assert added.applied_to(VoterSet.of([one, two])) == VoterSet.of([one, two])
    assert removed.applied_to(VoterSet.of([one])) == VoterSet.of([one])


@pytest.mark.rule("P56")
def test_upgrade_that_is_appended_and_not_committed_in_time_has_an_unknown_outcome():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.run(1000)
    end = book["1"].replica.log.end
    book.isolate("2", "3")
    request = book.upgrade("1", 1, within_ms=500)
    assert book["1"].replica.log.end > end
    book.run(600)
    assert book.answer(request) == Refused(request, NotCommittedInTime(end), "unknown")


@pytest.mark.rule("P56")
def test_upgrade_that_never_began_says_what_it_waited_for():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.isolate("3")
    book.run(book.config.leader_timeout_ms - 100)
    request = book.upgrade("1", 1, within_ms=500)
    book.run(600)
    answer = book.answer(request)
    assert isinstance(answer, Refused)
    assert (answer.refusal, answer.outcome) == (Refusal.WAITING, "not_done")
    assert answer.reason == NotStartedInTime(CatchUpOfAll((key_of("3"),)))


@pytest.mark.rule("S23")
def test_identical_addition_that_names_what_it_replaces_is_not_forgotten():
    """The second of two requests that share a wait says what the first did not."""
    book = Playbook.formed("1", "2", "3")
    new = book.wipe("3")
    book.run(200)
    book.isolate(new)
    book.run(book.config.fetch_timeout_ms)
    book.add("1", new)
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    [change] = role.changes
    assert change.replaces is None
    book.add("1", new, replaces="3")
    assert role.changes == [change]
    assert change.replaces == key_of("3")
    book.add("1", new)
    assert change.replaces == key_of("3")
