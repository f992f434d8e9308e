"""What is shown of the core's state, and what counts as ready."""

import random
import uuid

import pytest

from raftnode.core.config import CoreConfig
from raftnode.core.describe import describe
from raftnode.core.log_index import LogIndex
from raftnode.core.membership.pending_change import PendingChange
from raftnode.core.reasons.waits import Awaited
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Blank, Follower, Leader, Unattached
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
    format_directory_id,
)
from raftnode.runtime import description
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.process import clock

OWN = ReplicaKey(NodeId(1), uuid.UUID(int=1))
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2))
CONFIG = CoreConfig()


def make(role, *, now_ms=10_000):
    log = LogIndex(
        VoterSet.of([Voter(OWN, Endpoint("own", 1)), Voter(OTHER, Endpoint("other", 1))])
    )
    log.end = log.durable_end = Offset(9)
    replica = Replica(OWN, CONFIG, random.Random(0), log, QuorumState(Epoch(5)), "c", now_ms=now_ms)
    replica.role = role
    return replica


def caught_up(role) -> bool:
    return description.is_caught_up(make(role), CONFIG)


def test_a_follower_is_caught_up_while_it_has_lately_reached_the_high_watermark():
    just = 10_000 - CONFIG.fetch_timeout_ms
    assert caught_up(Follower(OTHER, 0, caught_up_at_ms=just))
    assert not caught_up(Follower(OTHER, 0, caught_up_at_ms=just - 1))
    assert not caught_up(Follower(OTHER, 0))


def test_time_goes_on_where_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    role = Leader(Epoch(5), 0, epoch_start=Offset(3))
    role.progress[OTHER] = Progress(last_fetch_ms=10_000)
    role.progress[OTHER].fetched(Offset(9), Offset(9), 10_000)
    replica = make(role)
    for now_ms, age_ms, well in ((9_000, 0, True), (19_000, 9_000, False)):
        monkeypatch.setattr(clock, "now_ms", lambda now_ms=now_ms: now_ms)
        found = describe(description.present(replica))
        assert found is not None
        assert (found.voters[1].last_fetch_age_ms, found.voters[1].caught_up) == (age_ms, well)
    assert replica.now_ms == 10_000, "the core's own time is its events'"


def test_a_leader_is_ready_once_its_epoch_is_committed_and_no_other_replica_ever():
    replica = make(Leader(Epoch(5), 0, epoch_start=Offset(3)))
    assert not description.is_caught_up(replica, CONFIG)
    replica.high_watermark = Offset(4)
    assert description.is_caught_up(replica, CONFIG)
    assert not caught_up(Unattached(0))
    assert not caught_up(Blank())


def test_no_node_is_ready_whose_own_disk_has_stalled():
    """Whatever its Fetches say: what it fetches does not become durable (S35)."""
    leader = Leader(Epoch(5), 0, epoch_start=Offset(3))
    for role in (Follower(OTHER, 0, caught_up_at_ms=10_000), leader):
        replica = make(role)
        replica.high_watermark = Offset(4)
        assert description.is_caught_up(replica, CONFIG)
        replica.note_durable()
        replica.log.end = Offset(10)
        replica.now_ms += CONFIG.leader_timeout_ms - 1
        if isinstance(role, Follower):
            role.caught_up_at_ms = replica.now_ms
        assert description.is_caught_up(replica, CONFIG)
        replica.now_ms += 1
        assert not description.is_caught_up(replica, CONFIG)


def test_a_node_describes_itself_without_a_leader_and_with_one():
    def describe_node(role, leader_api=None):
        return description.describe_node(
            make(role),
            peer=Endpoint("p", 1),
            api=Endpoint("a", 2),
            leader_api=leader_api,
            version="1",
            storage=DiskState(low=True, damage=("rot",)).info(),
        )

    alone = describe_node(Unattached(0))
    assert (alone.leader, alone.leader_api, alone.role, alone.caught_up) == (
        None,
        None,
        "unattached",
        False,
    )
    assert (alone.storage.low, alone.storage.damage) == (True, ("rot",))
    led = describe_node(Follower(OTHER, 0), Endpoint("l", 3))
    assert (led.leader.node_id, led.leader_api, led.log_end_offset) == (2, "l:3", 9)
    assert [voter.node_id for voter in led.voters] == [1, 2]


def test_a_quorum_is_described_with_its_lags_and_its_pending_change():
    observer = ReplicaKey(NodeId(3), uuid.UUID(int=3))
    fetched = Progress(last_fetch_ms=0)
    role = Leader(Epoch(5), 0, progress={OTHER: Progress(Offset(4)), observer: fetched})
    role.changes.append(
        PendingChange(
            "add",
            Voter(observer, None),
            VoterRecordId(Offset(1), Epoch(2)),
            deadline_ms=0,
            appended=Offset(8),
            waiting_for=Awaited.NEW_MAJORITY,
        )
    )
    replica = make(role)
    replica.log.start = Offset(3)
    found = describe(replica)
    info = description.describe_quorum(found, cluster_id="c", confirmed=True)
    assert info.confirmed
    assert (info.log_start_offset, info.log_end_offset) == (3, 9)
    lags = {voter.node_id: (voter.acknowledged_offset, voter.lag) for voter in info.voters}
    assert lags[2] == (4, 5)
    [seen] = info.observers
    assert (seen.directory_id, seen.acknowledged_offset, seen.lag) == (
        format_directory_id(observer.directory_id),
        -1,
        9,
    )
    change = info.pending_change
    assert (change.kind, change.replica.node_id, change.appended_offset) == ("add", 3, 8)
    assert change.waiting_for == "a majority of the new voters to commit it"
