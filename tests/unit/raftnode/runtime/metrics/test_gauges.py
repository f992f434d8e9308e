"""The metrics show the core's state, whatever its role."""

import math
import random
import uuid

import pytest
from prometheus_client import CollectorRegistry

from raftnode.core.config import CoreConfig
from raftnode.core.describe import describe
from raftnode.core.log_index import LogIndex, VoterSetAt
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import (
    Blank,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from raftnode.core.state import QuorumState
from raftnode.core.types import (
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
from raftnode.runtime.metrics import gauges as module
from raftnode.runtime.metrics.gauges import Gauges
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process import clock

pytestmark = pytest.mark.rule("P58", "P59")

SHOW = "runtime.metrics.gauges:Gauges.show"
ELECTIONS = "runtime.metrics.gauges:Gauges.watch_elections"

OWN = ReplicaKey(NodeId(1), uuid.UUID(int=1))
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2))
THIRD = ReplicaKey(NodeId(3), uuid.UUID(int=3))
GONE = ReplicaKey(NodeId(4), uuid.UUID(int=4))


class Queue:
    """As much of the appends as the gauges look at."""

    queued_bytes = 7
    appended_records = 3
    pending = 2


def make(role, voters=(OWN, OTHER)):
    log = LogIndex(VoterSet.of([Voter(key, None) for key in voters]))
    replica = Replica(
        OWN, CoreConfig(), random.Random(0), log, QuorumState(Epoch(5), None, OTHER), "c"
    )
    replica.role = role
    return replica


@pytest.fixture
def registry():
    return CollectorRegistry()


ROLES = {
    "blank": Blank(),
    "unattached": Unattached(0),
    "prospective": Prospective(0, 0),
    "candidate": Candidate(0, 0),
    "follower": Follower(OTHER, 0),
    "leader": Leader(
        Epoch(5),
        0,
        progress={OTHER: Progress(), THIRD: Progress(last_fetch_ms=0), GONE: Progress()},
    ),
    "resigned": Resigned(0),
}


@pytest.mark.parametrize("name", list(ROLES))
def test_every_role_can_be_shown(registry, name):
    replica = make(ROLES[name])
    gauges = Gauges(NodeMetrics(registry), replica, Queue())
    gauges.show()
    gauges.show()
    value = registry.get_sample_value
    assert description.role_of(replica) == name
    assert value("raftnode_current_state", {"raftnode_current_state": name}) == 1
    assert value("raftnode_current_epoch") == 5
    assert value("raftnode_current_vote") == 2
    assert value("raftnode_current_leader") == {"follower": 2, "leader": 1}.get(name, -1)
    assert value("raftnode_observers") == (1 if name == "leader" else 0)
    assert value("raftnode_voters") == 2
    assert value("raftnode_unknown_voter_connections") == 2
    assert value("raftnode_append_queue_bytes") == 7


def test_only_what_the_quorum_is_described_with_counts_as_observer(registry):
    replica = make(ROLES["leader"])
    Gauges(NodeMetrics(registry), replica, Queue()).show()
    described = describe(replica)
    assert [observer.key for observer in described.observers] == [THIRD]
    assert registry.get_sample_value("raftnode_observers") == 1
    # It last fetched when the clock began, so AddVoter would wait for it without success.
    assert registry.get_sample_value("raftnode_possible_voters") == 0


def test_possible_voters_are_the_observers_that_could_be_added(registry):
    role = Leader(Epoch(5), 0)
    replica, now = make(role), clock.now_ms()
    for number, fenced in enumerate((False, False, True)):
        key = ReplicaKey(NodeId(7 + number), uuid.UUID(int=7 + number))
        role.progress[key] = Progress(last_fetch_ms=now, fenced=fenced)
    replica.now_ms = now
    Gauges(NodeMetrics(registry), replica, Queue()).show()
    assert registry.get_sample_value("raftnode_observers") == 3
    assert registry.get_sample_value("raftnode_possible_voters") == 2


@pytest.mark.parametrize("name", list(ROLES))
def test_only_a_leader_knows_of_a_voter_change_that_is_not_committed(registry, name):
    replica = make(ROLES[name])
    replica.log.history[0] = VoterSetAt(VoterRecordId(Offset(7), Epoch(5)), replica.log.voters)
    gauges = Gauges(NodeMetrics(registry), replica, Queue())
    gauges.show()
    assert replica.high_watermark <= 7
    assert registry.get_sample_value("raftnode_uncommitted_voter_change") == (name == "leader")


def test_a_scrape_does_not_shorten_the_time_in_which_the_loop_is_measured(registry, monkeypatch):
    now_s, waited = [100.0], [7.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    metrics, replica = NodeMetrics(registry), make(ROLES["follower"])
    gauges = Gauges(metrics, replica, Queue(), waited_s=lambda: waited[0])
    now_s[0], waited[0] = 102.0, 8.0
    gauges.measure_idle()
    assert registry.get_sample_value("raftnode_poll_idle_ratio") == 0.5
    now_s[0], waited[0] = 103.0, 9.0
    gauges.show()
    assert registry.get_sample_value("raftnode_poll_idle_ratio") == 0.5
    now_s[0] = 106.0
    gauges.measure_idle()
    assert registry.get_sample_value("raftnode_poll_idle_ratio") == 0.25


@pytest.mark.without(SHOW, "self._metrics.appended_records.inc(appended - self._appended)", "pass")
@pytest.mark.without(SHOW, "appended - self._appended", "appended")
@pytest.mark.without(SHOW, "self._appended = appended", "pass")
def test_appended_records_are_counted_once(registry):
    queue = Queue()
    gauges = Gauges(NodeMetrics(registry), make(Unattached(0)), queue)
    for appended in (3, 3, 10, 12):
        queue.appended_records = appended
        gauges.show()
        assert registry.get_sample_value("raftnode_appended_records_total") == appended


def test_a_replica_outside_the_voters_observes(registry):
    assert description.role_of(make(Follower(OTHER, 0), voters=(OTHER,))) == "observer"
    assert description.role_of(make(Unattached(0), voters=(OTHER,))) == "observer"
    assert description.role_of(make(Leader(Epoch(5), 0), voters=(OTHER,))) == "leader"


class Clocks:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.wall_s = 1000.0

    def monotonic(self) -> float:
        return self.wall_s

    def sleep(self, seconds: float) -> None:
        self.wall_s += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.without(ELECTIONS, "time.monotonic() - self._stood_at", "0.5")
@pytest.mark.without(ELECTIONS, "self._stood_at = None", "pass")
@pytest.mark.without(ELECTIONS, "if self._stood_at is None:", "if True:")
@pytest.mark.without(ELECTIONS, "and replica.leader is not None", "")
@pytest.mark.without(ELECTIONS, "isinstance(role, Candidate | Leader) and replica", "replica")
@pytest.mark.without(ELECTIONS, "and replica.epoch != self._stood_epoch", "")
def test_an_election_is_measured_from_standing_to_knowing_the_leader(registry, clocks):
    replica = make(Unattached(0))
    gauges = Gauges(NodeMetrics(registry), replica, Queue())
    count, took_s, elections = (
        f"raftnode_{name}"
        for name in (
            "election_latency_seconds_count",
            "election_latency_seconds_sum",
            "elections_total",
        )
    )
    gauges.watch_elections()
    roles = (Prospective(0, 0), Candidate(0, 0), Candidate(0, 0), Unattached(0))
    for role, started in zip(roles, (0, 1, 1, 1), strict=True):
        replica.role = role
        gauges.watch_elections()
        clocks.sleep(0.25)
        assert registry.get_sample_value(elections) == started
    assert registry.get_sample_value(count) == 0
    replica.role = Follower(OTHER, 0)
    gauges.watch_elections()
    gauges.watch_elections()
    assert registry.get_sample_value(count) == 1
    assert registry.get_sample_value(took_s) == 4 * 0.25
    assert registry.get_sample_value(elections) == 1


@pytest.mark.without(ELECTIONS, "Candidate | Leader", "Candidate")
@pytest.mark.without(ELECTIONS, "led_ms / 1000", "0")
@pytest.mark.without(ELECTIONS, "and self._stood_at is None", "")
def test_election_that_ends_within_one_turn_is_measured_too(registry, clocks, monkeypatch):
    """The only voter needs no other vote. The turn ends once its own vote is on disk."""
    replica = make(Unattached(0), voters=(OWN,))
    gauges = Gauges(NodeMetrics(registry), replica, Queue())
    gauges.watch_elections()

    def measured() -> tuple[object, ...]:
        names = ("elections_total", "election_latency_seconds_count")
        took_s = registry.get_sample_value("raftnode_election_latency_seconds_sum")
        return *(registry.get_sample_value(f"raftnode_{name}") for name in names), took_s

    monkeypatch.setattr(clock, "now_ms", lambda: 10_250)
    replica.role = Leader(Epoch(5), 10_000)
    for _ in range(2):
        gauges.watch_elections()
        assert measured() == (1, 1, 0.25)
    replica.state = QuorumState(Epoch(6))
    replica.role = Prospective(0, 0)
    gauges.watch_elections()
    clocks.sleep(4)
    replica.role = Leader(Epoch(6), 10_000)
    gauges.watch_elections()
    assert measured() == (2, 2, 4.25)


IDLE = "runtime.metrics.gauges:Gauges.measure_idle"
WAITED = "(idle_s - self._idle_s) / (wall_s - self._wall_s)"


@pytest.mark.without(IDLE, WAITED, "0")
@pytest.mark.without(IDLE, WAITED, "0.5")
@pytest.mark.without(IDLE, WAITED, "1")
@pytest.mark.without(IDLE, WAITED, f"1 - {WAITED}")
@pytest.mark.without(IDLE, "self._idle_s, self._wall_s = idle_s, wall_s", "pass")
def test_the_idle_ratio_is_the_share_of_the_time_since_the_last_look_without_work(registry, clocks):
    waited = [7.0]
    gauges = Gauges(NodeMetrics(registry), make(Unattached(0)), Queue(), waited_s=lambda: waited[0])
    for work_s, idle_s in ((0.25, 0.75), (1.5, 0.5), (0.0, 1.0), (1.0, 0.0), (0.125, 0.875)):
        clocks.sleep(work_s + idle_s)
        waited[0] += idle_s
        gauges.measure_idle()
        shown = registry.get_sample_value("raftnode_poll_idle_ratio")
        assert shown == pytest.approx(idle_s / (work_s + idle_s))


@pytest.mark.without("runtime.metrics.node_metrics:_replica", 'replica.cluster_id or ""', '""')
@pytest.mark.without("runtime.metrics.node_metrics:_replica", "str(replica.key.node_id)", '"0"')
@pytest.mark.without("runtime.metrics.node_metrics:_replica", "view.version", '""')
def test_the_replica_names_its_cluster_once_it_has_one(registry):
    replica = make(Blank())
    replica.cluster_id = None
    gauges = Gauges(NodeMetrics(registry), replica, Queue(), "1.2")
    names = {
        "node_id": "1",
        "directory_id": format_directory_id(OWN.directory_id),
        "version": "1.2",
    }
    assert registry.get_sample_value("raftnode_replica_info", names | {"cluster_id": ""}) == 1
    replica.cluster_id = "c"
    gauges.show()
    assert registry.get_sample_value("raftnode_replica_info", names | {"cluster_id": ""}) is None
    assert registry.get_sample_value("raftnode_replica_info", names | {"cluster_id": "c"}) == 1


@pytest.mark.without(
    "runtime.metrics.node_metrics:_node_id", "-1 if key is None else key.node_id", "2"
)
@pytest.mark.without(
    "runtime.metrics.node_metrics:_voted_directory", "format_directory_id(voted.directory_id)", '""'
)
def test_a_vote_is_shown_with_the_directory_that_it_is_for(registry):
    replica = make(Unattached(0))
    gauges = Gauges(NodeMetrics(registry), replica, Queue())
    voted = {"directory_id": format_directory_id(OTHER.directory_id)}
    name, value = "raftnode_current_vote_directory_info", registry.get_sample_value
    gauges.show()
    assert (value("raftnode_current_vote"), value(name, voted)) == (2, 1)
    replica.state = QuorumState(Epoch(6), None, None)
    gauges.show()
    assert (value("raftnode_current_vote"), value(name, voted)) == (-1, None)
    assert value(name, {"directory_id": ""}) == 1


def test_writes_without_an_outcome_and_readiness_are_shown(registry):
    replica = make(Follower(OTHER, 0, caught_up_at_ms=clock.now_ms()))
    Gauges(NodeMetrics(registry), replica, Queue()).show()
    assert registry.get_sample_value("raftnode_appends_pending") == 2
    assert registry.get_sample_value("raftnode_caught_up") == 1
    assert (
        registry.get_sample_value("raftnode_voter_record_offset") == replica.log.voter_record.offset
    )


def test_poll_idle_is_not_a_number_where_no_loop_is_measured(registry):
    gauges = Gauges(NodeMetrics(registry), make(Unattached(0)), Queue())
    gauges.measure_idle()
    assert math.isnan(registry.get_sample_value("raftnode_poll_idle_ratio"))
