"""Small decisions of a leader that bigger tests pass over."""

from __future__ import annotations

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import AppendAccepted, Confirmed, SendRequest
from raftnode.core.events import ResponseReceived
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    ErrorCode,
)
from raftnode.core.replication import leadership
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Follower, Leader, Unattached
from raftnode.core.types import Epoch, Offset, ReplicaKey


def leader(book: Playbook) -> Leader:
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    return role


@pytest.mark.rule("P43")
def test_append_says_where_its_records_are_and_in_which_epoch():
    book = Playbook.formed("1", "2", "3")
    end = book["1"].replica.log.end
    request = book.append("1", b"data")
    assert book.answer(request) == AppendAccepted(request, end, end, Epoch(1))


@pytest.mark.rule("S11")
def test_each_confirmation_has_a_token_of_its_own():
    """An echo of an earlier round must not answer a later one."""
    book = Playbook.formed("1", "2", "3")
    before = leader(book).round_token
    book.isolate("1")
    first, second = book.confirm("1"), book.confirm("1")
    assert [one.token for one in leader(book).confirmations] == [before + 1, before + 2]
    assert leader(book).round_token == before + 2
    book.abandon("1", first)
    assert [one.request_id for one in leader(book).confirmations] == [second]
    book.heal()
    book.run(1000)
    assert book.answer(first) is None
    assert isinstance(book.answer(second), Confirmed)


def successors(book: Playbook, preferred: ReplicaKey | None = None) -> list[str]:
    """In which order the leader names them to each voter."""
    replica = book["1"].replica
    replica.effects.clear()
    leadership.resign(replica, leader(book), preferred)
    orders = {
        one.request.preferred_successors
        for one in replica.effects
        if isinstance(one, SendRequest) and isinstance(one.request, EndQuorumEpochRequest)
    }
    [order] = orders
    return [str(key.node_id) for key in order]


@pytest.mark.rule("P16")
@pytest.mark.parametrize(
    ("acknowledged", "fenced", "preferred", "order"),
    [
        ({"2": 5, "3": 6, "4": 7}, "", None, "432"),
        ({"2": 5, "3": 6, "4": 7}, "4", None, "324"),
        ({"2": 5, "3": 6, "4": 7}, "", "2", "243"),
        ({"2": 0, "3": 0, "4": 0}, "2", None, "342"),
        ({"2": 5, "4": 5}, "", None, "243"),
    ],
)
def test_successors_are_named_by_what_they_have_and_fenced_ones_last(
    acknowledged: dict[str, int], fenced: str, preferred: str | None, order: str
):
    book = Playbook.formed("1", "2", "3", "4")
    role = leader(book)
    role.progress = {
        key_of(name): Progress(acknowledged=Offset(offset), fenced=name in fenced)
        for name, offset in acknowledged.items()
    }
    assert successors(book, key_of(preferred) if preferred else None) == list(order)


@pytest.mark.rule("P24")
def test_of_too_many_observers_the_longest_silent_is_forgotten_with_its_fetch():
    """Never a voter, and never one that is fenced: that must be remembered."""
    book = Playbook.formed("1", "2", "3")
    role = leader(book)
    names = [str(number) for number in range(100, 100 + book.config.observers_max)]
    for at, name in enumerate(names):
        role.progress[key_of(name)] = Progress(last_fetch_ms=5000 + at)
    silent, fenced = names[7], names[0]
    role.progress[key_of(silent)].last_fetch_ms = 100
    role.progress[key_of(fenced)].fenced = True
    role.progress[key_of(fenced)].last_fetch_ms = 1
    extra = key_of("99")
    role.progress[extra] = Progress(last_fetch_ms=6000)
    parked = next(iter(role.parked.values()))
    role.parked[key_of(silent)] = parked
    voters = set(book["1"].replica.log.voters)
    leadership._forget_silent_observers(book["1"].replica, role)
    assert key_of(silent) not in role.progress
    assert key_of(silent) not in role.parked
    assert key_of(fenced) in role.progress
    assert voters - {key_of("1")} <= set(role.progress)
    assert len(role.progress) == len(voters) - 1 + len(names)
    # Who was not heard from at all goes before all others, whether a Fetch of its waits or not.
    role.progress[extra].last_fetch_ms = 1
    unheard = key_of("98")
    role.progress[unheard] = Progress()
    leadership._forget_silent_observers(book["1"].replica, role)
    assert unheard not in role.progress
    assert extra in role.progress


@pytest.mark.rule("P42", "S3", "S10")
def test_voters_that_are_fenced_or_unheard_hold_nothing():
    """Not even the first record."""
    book = Playbook.formed("1", "2", "3")
    replica, role = book["1"].replica, leader(book)
    role.progress[key_of("2")].acknowledged = Offset(1)
    role.progress[key_of("3")].fenced = True
    assert leadership.majority_offset(replica, role) == 1
    role.progress[key_of("2")].fenced = True
    assert leadership.majority_offset(replica, role) == -1
    role.progress[key_of("2")] = Progress()
    assert leadership.majority_offset(replica, role) == -1
    del role.progress[key_of("3")]
    assert leadership.majority_offset(replica, role) == -1


@pytest.mark.rule("S11")
@pytest.mark.parametrize(("voters", "silent"), [(2, 1), (3, 2), (4, 2), (5, 3), (6, 3)])
def test_a_round_counts_once_a_majority_has_echoed_it(voters: int, silent: int):
    """Half of an even number is none."""
    names = [str(number) for number in range(1, voters + 1)]
    for away in (silent, silent - 1):
        book = Playbook.formed(*names)
        book.run(1000)
        book.isolate(*names[voters - away :])
        request = book.confirm("1")
        book.settle()
        assert isinstance(book.answer(request), Confirmed) is (away < silent)


def begun(book: Playbook, answer: BeginQuorumEpochResponse, source: str = "2") -> None:
    """A voter answers the leader's BeginQuorumEpoch."""
    asked = BeginQuorumEpochRequest(Epoch(1), key_of("1"), key_of(source), None)
    book.give("1", ResponseReceived(key_of(source), asked, answer))


@pytest.mark.rule("P14")
@pytest.mark.parametrize("leader", [None, key_of("1"), key_of("3")], ids=str)
def test_leader_that_is_told_of_a_higher_epoch_follows_who_is_named_but_never_itself(
    leader: ReplicaKey | None,
):
    book = Playbook.formed("1", "2", "3")
    begun(book, BeginQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(8), leader))
    replica = book["1"].replica
    assert replica.epoch == 8
    assert replica.leader == (leader if leader == key_of("3") else None)
    assert isinstance(replica.role, Follower if leader == key_of("3") else Unattached)


@pytest.mark.rule("P14", "P15")
def test_begin_is_sent_again_after_a_while_to_who_refused_and_to_no_other_voter():
    book = Playbook.formed("1", "2", "3")
    role = leader(book)
    two, three = role.progress[key_of("2")], role.progress[key_of("3")]
    for progress in (two, three):
        progress.begin_done, progress.begin_in_flight = False, True
    begun(book, BeginQuorumEpochResponse(ErrorCode.NOT_VOTER, Epoch(1), None), "2")
    begun(book, BeginQuorumEpochResponse(ErrorCode.NONE, Epoch(1), key_of("1")), "3")
    assert (two.begin_done, three.begin_done) == (False, True)
    assert (two.begin_in_flight, three.begin_in_flight) == (False, False)
    assert two.begin_at_ms == book.now_ms + book.config.retry_backoff_max_ms // 4
    assert isinstance(two.begin_at_ms, int)
    before = dict(role.progress)
    begun(book, BeginQuorumEpochResponse(ErrorCode.NONE, Epoch(1), None), "9")
    assert role.progress == before
