"""A description of Kafka's as the planner has it."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription, ReplicaState
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.facts import NodeFacts, View
from kraftquorum_operator.kafka.quorum import Unheard, quorum_of, replica_of
from kraftquorum_operator.model.observation import DescribedVoters, Quorum

AT_MS, NOW_MS, END = 1_700_000_000_000, 50_000, 1000


def row(node_id: int, *, age_ms: int | None = 100, lag: int = 0, disk: int = 0) -> ReplicaState:
    """A row; `age_ms` None: no Fetch since the election."""
    directory_id = uuid.UUID(int=1 << 90 | node_id * 10 + disk)
    if age_ms is None:
        return ReplicaState(node_id, directory_id, -1, -1, -1)
    return ReplicaState(node_id, directory_id, END - lag, AT_MS - age_ms, AT_MS - age_ms)


LEADER = row(1, age_ms=0)


def view(*voters: ReplicaState, observers: tuple[ReplicaState, ...] = ()) -> View:
    """A confirmed answer of controller 1."""
    described = QuorumDescription(0, None, 1, 7, END, (LEADER, *voters), observers)
    node = NodeFacts(Address("c", 9093), 1, 2, changes_voters=True, cluster_id="k")
    return View((node,), {}, described, described, confirmed=True)


def made(seen: View, unheard: Unheard | None = None, now_ms: int = NOW_MS) -> Quorum:
    quorum = quorum_of(seen, unheard or Unheard(), now_ms)
    assert quorum is not None
    return quorum


def test_voters_and_observers_have_their_directories_and_their_silence() -> None:
    late, new = row(3, age_ms=9_000, lag=500), row(3, disk=1)
    quorum = made(view(late, row(2), observers=(new,)))
    assert quorum.replicas == (replica_of(LEADER), replica_of(row(2)), replica_of(late))
    assert [voter.fresh for voter in quorum.voters] == [True, True, False]
    assert [voter.lag for voter in quorum.voters] == [0, 0, 500]
    assert [voter.silent_since_ms for voter in quorum.voters] == [None, NOW_MS - 100, 41_000]
    observer = quorum.observer(replica_of(new))
    assert observer is not None
    assert observer.fresh
    assert quorum.leader == replica_of(LEADER)
    assert (quorum.cluster_id, quorum.epoch, quorum.high_watermark) == ("k", 7, END)


def test_the_basis_is_whose_answer_it_was_and_of_which_voters() -> None:
    quorum = made(view(row(3), row(2)))
    assert quorum.basis == DescribedVoters(quorum.leader, 7, quorum.replicas)
    assert quorum.basis == made(view(row(2), row(3))).basis
    assert quorum.basis != made(view(row(2), row(3, disk=1))).basis
    assert quorum.committed == quorum.replicas


@pytest.mark.parametrize("confirmed", [True, False])
def test_only_confirmed_answers_show_that_the_voters_are_committed(confirmed: bool) -> None:
    quorum = made(replace(view(row(2)), confirmed=confirmed))
    assert quorum.confirmed is confirmed
    assert quorum.record_committed is confirmed


@pytest.mark.without(
    "kraftquorum_operator.kafka.quorum:_silent_since_ms",
    "unheard.since_ms.setdefault(replica, now_ms)",
    "0",
)
def test_a_replica_without_a_fetch_since_the_election_is_silent_since_it_was_first_seen_so() -> (
    None
):
    """Kafka forgets the time at an election, and such a voter is not silent for long yet."""
    unheard, silent = Unheard(), view(row(2, age_ms=None))
    assert made(silent, unheard).voters[1].silent_since_ms == NOW_MS
    assert made(silent, unheard, NOW_MS + 700).voters[1].silent_since_ms == NOW_MS
    assert made(view(row(2)), unheard, NOW_MS + 800).voters[1].silent_since_ms == NOW_MS + 700
    assert made(silent, unheard, NOW_MS + 900).voters[1].silent_since_ms == NOW_MS + 900
    assert not made(silent).voters[1].fresh


def test_without_a_leader_or_a_cluster_id_there_is_no_quorum() -> None:
    seen = view(row(2))
    assert quorum_of(replace(seen, quorum=None, confirmed=False), Unheard(), NOW_MS) is None
    assert quorum_of(replace(seen, nodes=()), Unheard(), NOW_MS) is None
    resigning = QuorumDescription(0, None, 9, 7, END, (LEADER, row(2)))
    assert quorum_of(replace(seen, quorum=resigning), Unheard(), NOW_MS) is None


def test_a_leader_without_a_high_watermark_has_committed_nothing_of_its_epoch() -> None:
    seen = view(row(2))
    assert seen.quorum is not None
    young = replace(seen, quorum=replace(seen.quorum, high_watermark=-1))
    assert not made(young).epoch_committed
    assert not made(young).formation_completed
