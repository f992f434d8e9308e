"""What a leader shows of the others; nothing on a replica that does not lead."""

import random
import uuid

import pytest
from prometheus_client import CollectorRegistry

from raftnode.core.config import CoreConfig
from raftnode.core.log_index import LogIndex
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Follower, Leader
from raftnode.core.state import QuorumState
from raftnode.core.types import (
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterSet,
    format_directory_id,
)
from raftnode.runtime.metrics import leader_metrics
from raftnode.runtime.metrics.leader_metrics import LeaderCollector, view_of

OWN, SECOND, THIRD, OBSERVER = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2, 3, 4))


def make(role, voters=(OWN, SECOND, THIRD), now_ms=10_000):
    log = LogIndex(VoterSet.of([Voter(key, None) for key in voters]))
    replica = Replica(
        OWN, CoreConfig(), random.Random(0), log, QuorumState(Epoch(5), None, None), "c"
    )
    replica.role, replica.now_ms = role, now_ms
    return replica


def fresh(at_ms=9_990):
    progress = Progress()
    progress.fetched(Offset(0), Offset(0), at_ms)
    progress.last_fetch_ms = at_ms
    return progress


@pytest.fixture
def registry():
    return CollectorRegistry()


def labels(key, role="voter"):
    return {
        "peer_id": str(key.node_id),
        "peer_directory_id": format_directory_id(key.directory_id),
        "peer_role": role,
    }


def series(registry):
    return [sample for family in registry.collect() for sample in family.samples]


def test_a_follower_shows_none(registry):
    replica = make(Follower(SECOND, 0))
    LeaderCollector(lambda: view_of(replica), registry)
    assert series(registry) == []


def test_a_leader_that_loses_its_role_shows_none_from_then_on(registry):
    replica = make(Leader(Epoch(5), 0, progress={SECOND: fresh()}))
    LeaderCollector(lambda: view_of(replica), registry)
    assert series(registry)
    replica.role = Follower(SECOND, 0)
    assert series(registry) == []


def test_tolerance_is_the_caught_up_voters_above_the_majority(registry):
    replica = make(Leader(Epoch(5), 0, progress={SECOND: fresh(), THIRD: fresh()}))
    LeaderCollector(lambda: view_of(replica), registry)
    assert registry.get_sample_value("raftnode_fault_tolerance") == 1
    replica.role.progress[THIRD] = Progress()
    assert registry.get_sample_value("raftnode_fault_tolerance") == 0
    replica.role.progress[SECOND] = Progress()
    assert registry.get_sample_value("raftnode_fault_tolerance") == -1


def test_a_voter_is_shown_by_id_and_storage_with_ages_in_seconds(registry):
    replica = make(Leader(Epoch(5), 4_000, progress={SECOND: fresh(9_500)}))
    LeaderCollector(lambda: view_of(replica), registry)
    value = registry.get_sample_value
    assert value("raftnode_peer_fetch_age_seconds", labels(SECOND)) == 0.5
    assert value("raftnode_peer_caught_up", labels(SECOND)) == 1
    assert value("raftnode_peer_caught_up", labels(OWN)) == 1


def test_a_voter_never_heard_from_is_as_old_as_the_leader_s_epoch(registry):
    replica = make(Leader(Epoch(5), 4_000))
    LeaderCollector(lambda: view_of(replica), registry)
    value = registry.get_sample_value
    assert value("raftnode_peer_fetch_age_seconds", labels(THIRD)) == 6
    assert value("raftnode_peer_lag_seconds", labels(THIRD)) == 6
    assert value("raftnode_peer_caught_up", labels(THIRD)) == 0


def test_an_observer_that_fetches_no_more_is_not_shown(registry):
    replica = make(Leader(Epoch(5), 0, progress={OBSERVER: fresh(1_000)}), now_ms=10_000)
    LeaderCollector(lambda: view_of(replica), registry)
    age = "raftnode_peer_fetch_age_seconds"
    assert registry.get_sample_value(age, labels(OBSERVER, "observer")) == 9
    replica.now_ms = 16_000
    assert registry.get_sample_value(age, labels(OBSERVER, "observer")) is None


def test_so_many_observers_are_shown_and_no_more(registry, monkeypatch):
    monkeypatch.setattr(leader_metrics, "OBSERVERS_MAX", 1)
    late = ReplicaKey(NodeId(5), uuid.UUID(int=5))
    progress = {OBSERVER: fresh(), late: fresh(1_000)}
    replica = make(Leader(Epoch(5), 0, progress=progress))
    LeaderCollector(lambda: view_of(replica), registry)
    shown = {
        sample.labels["peer_id"]
        for sample in series(registry)
        if sample.labels.get("peer_role") == "observer"
    }
    assert shown == {"4"}
