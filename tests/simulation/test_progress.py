"""What the simulator demands once faults end, and when it demands nothing."""

import pytest

from proofkit.simulator import progress
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.network import NetworkSettings
from proofkit.simulator.node import SimNode
from proofkit.simulator.run import build, run_seed
from proofkit.simulator.world import World
from raftnode.core.elections import election
from raftnode.core.events import AddVoterRequested
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import ConfirmationRound, Leader
from raftnode.core.types import Voter


def formed(*, spares: int = 0) -> World:
    """Three voters with a leader and a write."""
    world = World(1, voters=3, spares=spares)
    world.start_all()
    world.every(20, 100, 10**9, world.tell_blank)
    progress.demand(world)
    assert len(world.believed_leaders()) == 1
    return world


def never(_: Replica) -> bool:
    return False


def nothing(*_: object) -> None:
    """What a rule does that was taken out."""


def test_progress_is_found_soon_after_all_kinds_of_faults():
    world = formed()
    world.network.settings = weather = NetworkSettings(loss=0.2)
    world.nodes[0].crash()
    world.nodes[1].paused_until_ms = world.now_ms + 6000
    first, second, third = (node.key.node_id for node in world.nodes)
    world.network.cut.update({(first, second), (second, third), (third, first)})
    world.run_until(world.now_ms + 500)
    acknowledged = world.writer.count("acknowledged")
    progress.demand(world)
    assert world.writer.count("acknowledged") > acknowledged
    assert 0 < world.progress.took_ms[-1] < 4000
    assert not world.network.cut
    assert world.network.settings is weather
    assert not world.calm


def test_healing_wakes_the_replicas_that_slept_through_an_alarm():
    world = formed()
    sleeper = world.nodes[0]
    sleeper.paused_until_ms = world.now_ms + 60_000
    world.run_until(world.now_ms + 6000)
    assert sleeper.alarm_at_ms is None
    progress.heal(world)
    assert sleeper.alarm_at_ms is not None


def test_quorum_that_elects_no_leader_breaks_progress(monkeypatch: pytest.MonkeyPatch):
    world = formed()
    monkeypatch.setattr(Replica, "may_stand", property(never))
    for node in world.nodes:
        node.crash()
    with pytest.raises(InvariantError, match="0 leaders for 20000 ms") as found:
        progress.demand(world)
    assert found.value.name == "Progress"
    assert all(str(node.key) in str(found.value) for node in world.nodes)


def test_leader_that_commits_nothing_breaks_progress(monkeypatch: pytest.MonkeyPatch):
    world = formed()
    monkeypatch.setattr(Replica, "raise_high_watermark", nothing)
    with pytest.raises(InvariantError, match="no new write is acknowledged") as found:
        progress.demand(world)
    assert found.value.name == "Progress"


def test_voter_that_does_not_come_back_breaks_progress(monkeypatch: pytest.MonkeyPatch):
    world = formed()
    away = next(node for node in world.nodes if node not in world.believed_leaders())
    monkeypatch.setattr(type(world.network), "heal", nothing)
    world.network.settings = NetworkSettings(0, 0, 5, 0, 0)
    away_id = away.key.node_id
    for node in world.nodes:
        world.network.cut |= {(away_id, node.key.node_id), (node.key.node_id, away_id)}
    with pytest.raises(InvariantError, match=f"{away.key} not caught up"):
        progress.demand(world)
    world.lost.add(away.key)  # an older volume was put back: the budget promises nothing for it
    progress.demand(world)


def test_lost_voter_is_not_waited_for():
    """One of three is within the budget; its disk stays lost, for it is not replaced."""
    world = formed()
    world.wipe(world.nodes[0])
    progress.demand(world)
    assert len(world.progress.took_ms) == 2
    assert world.progress.over_budget == 0


def test_nothing_is_demanded_of_a_quorum_that_lost_its_majority():
    world = formed()
    world.wipe(world.nodes[0])
    world.wipe(world.nodes[1])
    progress.demand(world)
    assert len(world.progress.took_ms) == 1
    assert world.progress.over_budget == 1
    assert not world.calm


def test_nothing_strikes_a_calm_world():
    world = formed(spares=1)
    world.calm = True
    for _ in range(200):
        world.faults.act()
        world.administrator.act()
    assert not world.faults.counts
    assert not any(world.administrator.changes.values())
    world.calm = False
    for _ in range(200):
        world.faults.act()
    assert world.faults.counts


def test_some_seeds_are_asked_in_the_middle_too():
    assert len(run_seed(4).progress_ms) == 2
    assert len(run_seed(3).progress_ms) == 1
    assert build(4).seed == 4


def wedged() -> World:
    """One lost disk of three, and the longest log is an observer's (S31).

    The old leader has the addition of the observer alone; its successor told only the
    observer of its epoch before its disk was lost.
    """
    world = formed(spares=1)
    world.run_until(world.now_ms + 3000)
    [old] = world.believed_leaders()
    *_, observer = world.nodes
    assert old.core is not None
    cut_off(world, old)
    voters, record = old.core.replica.log.voters, old.core.replica.log.voter_record
    role = old.core.replica.role
    assert isinstance(role, Leader)
    asked = role.confirmation_rounds["add", observer.key] = ConfirmationRound(
        0, old.core.replica.now_ms
    )
    assert asked.token == 0  # all have answered it (S34)
    old.ask(
        lambda request_id: AddVoterRequested(
            request_id, Voter(observer.key), record, world.now_ms + 5000
        ),
        nothing,
    )
    assert observer.key in old.core.replica.log.voters
    newer: list[SimNode] = []
    while not newer:
        assert world.now_ms < 60_000
        world.run_until(world.now_ms + 1)
        newer = [leader for leader in world.believed_leaders() if leader is not old]
    [new] = newer
    for node in world.nodes:
        if node is not new and node is not observer:
            cut_off(world, node)
    while observer.disk.durable[-1:] != new.disk.log[-1:]:
        assert world.now_ms < 60_000
        world.run_until(world.now_ms + 1)
    assert new.key in voters
    world.wipe(new)
    return world


def cut_off(world: World, node: SimNode) -> None:
    for other in world.nodes:
        world.network.cut.add((node.key.node_id, other.key.node_id))
        world.network.cut.add((other.key.node_id, node.key.node_id))


@pytest.mark.rule("S31")
def test_observer_with_the_longest_log_makes_progress():
    """S31, with all that is random about the simulated world."""
    world = wedged()
    progress.demand(world)
    assert world.faults.counts["called"] == 1
    assert len(world.progress.took_ms) == 2


@pytest.mark.rule("S31")
def test_quorum_that_calls_no_observer_makes_no_progress(monkeypatch: pytest.MonkeyPatch):
    """The same without S31: no replica can ever lead."""
    monkeypatch.setattr(election, "_be_called", nothing)
    world = wedged()
    with pytest.raises(InvariantError, match="0 leaders") as found:
        progress.demand(world)
    assert found.value.name == "Progress"


def test_called_leader_that_goes_at_once_makes_no_progress(monkeypatch: pytest.MonkeyPatch):
    """It has to stay until an entry of its epoch is committed."""
    epoch_committed = leadership.epoch_committed

    def at_once(replica: Replica, role: Leader) -> bool:
        return not replica.is_voter or epoch_committed(replica, role)

    monkeypatch.setattr(leadership, "epoch_committed", at_once)
    world = wedged()
    with pytest.raises(InvariantError) as found:
        progress.demand(world)
    assert found.value.name == "Progress"
