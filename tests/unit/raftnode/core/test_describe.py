"""A leader's view of its quorum at one moment."""

from __future__ import annotations

import random
import uuid

import pytest

from raftnode.core.config import CoreConfig
from raftnode.core.describe import ReplicaDescription, describe
from raftnode.core.log_index import LogIndex
from raftnode.core.membership.pending_change import PendingChange
from raftnode.core.reasons.waits import Awaited
from raftnode.core.records import AddVoter, Batch, RaftVersion, TargetVoters
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Follower, Leader
from raftnode.core.state import QuorumState
from raftnode.core.types import (
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
)

ONE, TWO, THREE, FOUR = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2, 3, 4))
HERE, THERE = Endpoint("here", 1), Endpoint("there", 1)


def leading(**progress: Progress) -> Replica:
    """Replica 1 leads 1 and 2 at 10 s; `_3=…` is what it knows of replica 3."""
    log = LogIndex(VoterSet.of([Voter(ONE), Voter(TWO, THERE)]))
    replica = Replica(ONE, CoreConfig(), random.Random(0), log, QuorumState(Epoch(5)), "c")
    keys = {"_2": TWO, "_3": THREE, "_4": FOUR}
    replica.role = Leader(
        Epoch(5), 0, progress={keys[name]: found for name, found in progress.items()}
    )
    replica.now_ms = 10_000
    return replica


def test_only_a_leader_describes():
    replica = leading()
    replica.role = Follower(TWO, 0)
    assert describe(replica) is None


def test_ages_are_since_the_last_fetch_and_none_before_the_first():
    described = describe(leading(_2=Progress(last_fetch_ms=9_900, last_caught_up_ms=9_000)))
    assert described is not None
    own, other = described.voters
    assert (own.key, own.last_fetch_age_ms, own.caught_up) == (ONE, 0, True)
    assert (other.last_fetch_age_ms, other.last_caught_up_age_ms) == (100, 1_000)
    described = describe(leading())
    assert described is not None
    assert described.voters[1].last_fetch_age_ms is None
    assert described.voters[1].caught_up is False


@pytest.mark.rule("P24", "P26")
@pytest.mark.without(
    "core.replication.progress:Progress.has_asked",
    "return self.last_fetch_ms is not None or self.higher_epoch is not None",
    "return True",
)
def test_observers_are_what_fetched_in_this_epoch_and_is_no_voter_in_order():
    described = describe(
        leading(
            _4=Progress(last_fetch_ms=1),
            _3=Progress(last_fetch_ms=2),
            _2=Progress(last_fetch_ms=3),
        )
    )
    assert described is not None
    assert [observer.key for observer in described.observers] == [THREE, FOUR]
    described = describe(leading(_3=Progress()))
    assert described is not None
    assert described.observers == ()


def could_be(replica: Replica) -> dict[ReplicaKey, bool]:
    described = describe(replica)
    assert described is not None
    assert not any(voter.could_be_voter for voter in described.voters)
    return {observer.key: observer.could_be_voter for observer in described.observers}


@pytest.mark.rule("P59", "P60")
def test_could_be_voters_are_the_observers_that_an_addvoter_would_find():
    """Neither a fenced one, nor one that is silent, nor one that raft.version rules out."""
    config = CoreConfig()
    replica = leading(_2=Progress(last_fetch_ms=10_000), _3=Progress(last_fetch_ms=10_000))
    assert could_be(replica) == {THREE: True}
    role = replica.role
    assert isinstance(role, Leader)
    role.progress[THREE].fenced = True
    assert could_be(replica) == {THREE: False}
    silent_ms = 10_000 - config.fetch_timeout_ms
    role.progress[THREE] = Progress(last_fetch_ms=silent_ms)
    assert could_be(replica) == {THREE: True}
    role.progress[THREE] = Progress(last_fetch_ms=silent_ms - 1)
    assert could_be(replica) == {THREE: False}
    # It fetches nothing before the leader is asked to add it, and then the leader comes to it.
    role.progress[THREE] = Progress(higher_epoch=Epoch(6))
    assert could_be(replica) == {THREE: True}


@pytest.mark.rule("P59", "P60", "P29")
def test_no_observer_could_be_a_voter_where_raft_version_rules_it_out():
    other_disk = ReplicaKey(TWO.node_id, uuid.UUID(int=22))
    for version, expected in ((0, [False, False]), (1, [True, False]), (2, [True, True])):
        replica = leading(_3=Progress(last_fetch_ms=10_000))
        role = replica.role
        assert isinstance(role, Leader)
        role.progress[other_disk] = Progress(last_fetch_ms=10_000)
        replica.log.base_raft_version = version
        if version:
            replica.log.append(Batch(Offset(0), Offset(0), Epoch(5), b"", (RaftVersion(version),)))
        assert could_be(replica) == dict(zip([other_disk, THREE], expected, strict=True))


def test_what_a_replica_says_of_its_place_wins_over_the_voter_set():
    described = describe(leading(_2=Progress(last_fetch_ms=1, endpoint=HERE)))
    assert described is not None
    assert described.voters[1].endpoint == HERE
    described = describe(leading())
    assert described is not None
    assert described.voters[1].endpoint == THERE


@pytest.mark.rule("P50")
@pytest.mark.without(
    "core.log_index:LogIndex._apply_control",
    "voters, record = voters.with_added(voter), offset",
    "pass",
)
@pytest.mark.without(
    "core.log_index:LogIndex.committed_voters", "self._committed_at(high_watermark)", "-1"
)
def test_a_set_that_is_in_force_may_not_be_committed_yet():
    replica = leading()
    added = Batch(Offset(0), Offset(0), Epoch(5), b"", (AddVoter(Voter(THREE)),))
    replica.log.append(added)
    described = describe(replica)
    assert described is not None
    assert [voter.key for voter in described.voters] == [ONE, TWO, THREE]
    assert set(described.committed_voters) == {ONE, TWO}
    assert described.voter_record == VoterRecordId(Offset(0), Epoch(5))
    assert described.voter_record_committed is False
    replica.high_watermark = Offset(1)
    described = describe(replica)
    assert described is not None
    assert described.voter_record_committed is True
    assert set(described.committed_voters) == {ONE, TWO, THREE}


def test_everything_that_a_leader_knows_is_told():
    replica = leading(
        _2=Progress(last_fetch_ms=9_900, acknowledged=Offset(1), incarnation=4, fenced=True),
        _3=Progress(last_fetch_ms=9_000, acknowledged=Offset(0), incarnation=2),
    )
    replica.endpoint, replica.incarnation = HERE, 7
    for offset, control in enumerate([(AddVoter(Voter(ONE)),), (), ()]):
        replica.log.append(Batch(Offset(offset), Offset(offset), Epoch(5), b"", control))
    replica.log.durable_end = Offset(2)
    replica.own = Progress(Offset(2), 9_900, 9_800, round_started_ms=9_900, round_ms=10)
    replica.log.start = Offset(1)
    replica.high_watermark = Offset(1)
    described = describe(replica)
    assert described is not None
    assert (described.leader, described.epoch) == (ONE, 5)
    assert (described.log_start, described.high_watermark, described.log_end) == (1, 1, 3)
    assert described.formation_completed is False
    assert described.epoch_committed is True
    assert described.pending_change is None
    assert described.raft_version == replica.log.raft_version
    assert described.raft_version_committed is (replica.log.raft_version_record < 1)
    own, other = described.voters
    assert own == ReplicaDescription(
        ONE, HERE, Offset(2), 0, 200, caught_up=True, fenced=False, incarnation=7
    )
    assert (other.acknowledged, other.fenced, other.incarnation) == (1, True, 4)
    [observer] = described.observers
    assert (observer.acknowledged, observer.fenced, observer.incarnation) == (0, False, 2)


def test_of_several_changes_the_one_in_the_log_is_shown():
    replica = leading()
    role = replica.role
    assert isinstance(role, Leader)
    record = VoterRecordId(Offset(0), Epoch(5))
    waiting = PendingChange("add", Voter(THREE), record, deadline_ms=0)
    begun = PendingChange("remove", Voter(TWO), record, deadline_ms=0, appended=Offset(3))
    for changes, shown in (([], None), ([waiting], waiting), ([waiting, begun], begun)):
        role.changes = changes
        described = describe(replica)
        assert described is not None
        assert described.pending_change is shown


@pytest.mark.rule("P34")
def test_target_and_version_are_committed_once_the_high_watermark_is_above_their_records():
    replica = leading(_2=Progress(last_fetch_ms=9_900, acknowledged=Offset(1)))
    role = replica.role
    assert isinstance(role, Leader)
    role.step_waits_for = Awaited.TRANSFER_PAUSE
    described = describe(replica)
    assert described is not None
    assert (described.target_voters, described.step_waits_for) == ((), None)
    target = VoterSet.of([Voter(ONE), Voter(THREE, THERE)])
    controls = (RaftVersion(2), AddVoter(Voter(ONE)), TargetVoters(target.voters))
    for offset, control in enumerate(controls):
        replica.log.append(Batch(Offset(offset), Offset(offset), Epoch(5), b"", (control,)))
    replica.endpoint, replica.log.durable_end = HERE, replica.log.end
    for high_watermark, committed in ((0, (False, False)), (2, (True, False)), (3, (True, True))):
        replica.high_watermark = Offset(high_watermark)
        described = describe(replica)
        assert described is not None
        found = (described.raft_version_committed, described.target_committed)
        assert found == committed
    assert described is not None
    assert described.target_record == VoterRecordId(Offset(2), Epoch(5))
    assert described.assignment_record == VoterRecordId(Offset(2), Epoch(5))
    assert described.voter_record == VoterRecordId(Offset(1), Epoch(5))
    assert described.step_waits_for is Awaited.TRANSFER_PAUSE
    own, other = described.target_voters
    assert (own.key, own.endpoint, own.caught_up) == (ONE, HERE, True)
    assert (other.key, other.last_fetch_age_ms, other.caught_up) == (THREE, None, False)
