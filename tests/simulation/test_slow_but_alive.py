"""Nodes that are slow but alive: what waits for them, what does not, and that clients go on."""

from collections.abc import Callable

import pytest

from proofkit.mutation import taken_out
from proofkit.simulator import progress
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.node import Answer, SimNode
from proofkit.simulator.run import run_seed
from proofkit.simulator.slowness import FLUSH, KINDS, NEVER_MS, PERSIST, READ, Slowness
from proofkit.simulator.world import World
from raftnode.core.effects import Done, PersistQuorumState, ProveDisk, ServeFetch
from raftnode.core.log_index import VoterSetAt
from raftnode.core.messages import ErrorCode, FetchResponse, Response
from raftnode.core.replication import leadership
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Epoch, ReplicaKey, Voter, VoterSet


def formed(seed: int = 1) -> World:
    """Three voters with a leader and a write; nothing is slow yet, and no watchdog looks."""
    world = World(seed, voters=3, spares=0)
    world.network.heal()
    for node in world.nodes:
        node.slow = Slowness.of_seed(node, seed)
        node.slow.watchdog_ms = None
    world.start_all()
    world.every(20, 100, 10**9, world.tell_blank)
    progress.demand(world)
    return world


def leader_of(world: World) -> SimNode:
    [leader] = world.believed_leaders()
    return leader


def slow(node: SimNode) -> Slowness:
    assert node.slow is not None
    return node.slow


def strike_leader(world: World, strike: Callable[[SimNode], None]) -> None:
    """Demand progress beside the leader that leads now, and no other replica, being slow."""
    struck: list[SimNode] = []
    while not struck:
        leader = leader_of(world)

        def only_leader(node: SimNode, leader: SimNode = leader) -> None:
            if node is leader:
                strike(node)
                struck.append(node)

        progress.demand_beside_slow(world, only_leader)


@pytest.mark.rule("S35")
@pytest.mark.parametrize(
    "takes_ms", [(100, 100), (1000, 1000), (10_000, 10_000), (0, 12_000), None]
)
@pytest.mark.parametrize("kinds", [(FLUSH,), (FLUSH, PERSIST), KINDS], ids="-".join)
def test_clients_go_on_beside_a_leader_whose_disk_is_slow_or_hangs(
    kinds: tuple[str, ...], takes_ms: tuple[int, int] | None
):
    world = formed()
    strike_leader(world, lambda node: slow(node).slow_down(kinds, takes_ms, NEVER_MS))
    assert 0 < max(world.progress.resumed_ms) < progress.RESUMES_MS_MAX
    progress.demand(world)  # and the slow one comes back


@pytest.mark.rule("S35")
def test_clients_go_on_beside_a_leader_whose_reads_hang_or_that_stands_still():
    for strike in (reads_hang, stands_still):
        world = formed()
        strike_leader(world, strike)
        assert max(world.progress.resumed_ms) < progress.RESUMES_MS_MAX
        progress.demand(world)


def reads_hang(node: SimNode) -> None:
    slow(node).slow_down((READ,), None, NEVER_MS)


def stands_still(node: SimNode) -> None:
    slow(node).stand_still(300_000)


@pytest.mark.rule("S35")
def test_a_leader_that_leads_on_with_a_flush_that_hangs_is_found():
    """One more write is acknowledged, by the others; no read is answered ever again."""
    world = formed()
    with (
        taken_out(leadership.others_can_lead_instead, "return well >=", "return False and well >="),
        pytest.raises(InvariantError, match="no read is answered for 10000 ms") as found,
    ):
        strike_leader(world, lambda node: slow(node).slow_down((FLUSH,), None, NEVER_MS))
    assert found.value.name == "ProgressBesideSlow"
    assert "flush hangs" in str(found.value)


def test_nothing_is_demanded_where_the_slow_ones_would_be_a_majority():
    world = formed()
    world.wipe(world.nodes[0])
    struck = progress.demand_beside_slow(world, nothing)
    assert world.nodes[1] not in struck
    assert world.nodes[2] not in struck
    assert not world.calm


def nothing(_: SimNode) -> None:
    """Slow no replica down."""


def test_nothing_is_demanded_while_a_reassignment_is_under_way():
    """Its next step may need the disk that is slow, before the leader can know of it."""
    world = formed()
    leader, other, target = leader_of(world), *followers(world)
    assert struck_of_many(world) == {leader.key, other.key, target.key}
    assert other.core is not None
    log = other.core.replica.log
    log.targets = [VoterSetAt(log.voter_record, VoterSet.of([Voter(target.key)]))]
    before = world.progress.over_budget
    assert struck_of_many(world) == set()
    assert world.progress.over_budget > before


def struck_of_many(world: World) -> set[ReplicaKey]:
    """Which replicas are struck at all."""
    demands = [progress.demand_beside_slow(world, nothing) for _ in range(30)]
    return {node.key for struck in demands for node in struck}


def followers(world: World) -> list[SimNode]:
    leader = leader_of(world)
    return [node for node in world.nodes if node is not leader]


@pytest.mark.parametrize("driver_waits", [False, True])
def test_a_slow_read_holds_up_what_is_behind_it_only_where_the_driver_waits(driver_waits: bool):
    world = formed()
    node, other, *_ = leader_of(world), *followers(world)
    assert node.core is not None
    slow(node).reads_block = driver_waits
    reads_hang(node)
    replies: list[Response | None] = []
    answers: list[Answer] = []
    node.replies[-1], node.answers[-2] = replies.append, answers.append
    answer = FetchResponse(ErrorCode.NONE, node.core.replica.epoch, node.key)
    node.go_on(iter((ServeFetch(-1, answer, FIRST_OFFSET, 1000, other.key), Done(-2))))
    assert (len(replies), len(answers)) == (0, 0 if driver_waits else 1)
    slow(node).recover()
    world.run_until(world.now_ms + 20)
    assert (len(replies), len(answers)) == (1, 1)


def test_a_process_that_waits_for_its_disk_is_silent_and_takes_all_up_where_it_stopped():
    world = formed()
    node = next(node for node in world.nodes if node is not leader_of(world))
    slow(node).slow_down((PERSIST,), None, NEVER_MS)
    assert slow(node).holds_back(ProveDisk(), iter(()))
    assert node.core is not None
    sent = node.core.replica.fetch_sequence
    world.run_until(world.now_ms + 5000)
    assert node.core.replica.fetch_sequence == sent
    assert slow(node).is_busy
    slow(node).recover()
    world.run_until(world.now_ms + 2000)
    assert not slow(node).is_busy
    assert node.core.replica.fetch_sequence > sent
    progress.demand(world)


def test_a_vote_under_way_at_a_kill_may_be_there_and_may_be_not():
    kept: set[bool] = set()
    for seed in range(8):
        world = formed(seed)
        node = next(node for node in world.nodes if node is not leader_of(world))
        slow(node).slow_down((PERSIST,), None, NEVER_MS)
        slow(node).holds_back(PersistQuorumState(QuorumState(Epoch(9))), iter(()))
        node.crash()
        kept.add(node.disk.state.epoch == 9)
        world.run_until(world.now_ms + 6000)
        assert node.core is None  # no start comes to its end on such a disk
        slow(node).recover()
        world.run_until(world.now_ms + 6000)
        assert node.core is not None
    assert kept == {True, False}


def test_a_flush_that_hangs_makes_nothing_durable_until_it_returns():
    world = formed()
    leader = leader_of(world)
    slow(leader).slow_down((FLUSH,), None, NEVER_MS)
    durable = len(leader.disk.durable)
    world.writer.write()
    world.run_until(world.now_ms + 2000)
    assert (len(leader.disk.durable), len(leader.disk.log)) == (durable, durable + 1)
    assert world.writer.outcomes[b"write-%d" % world.writer.written] == "acknowledged"
    slow(leader).recover()
    world.run_until(world.now_ms + 20)
    assert len(leader.disk.durable) == durable + 1


def test_a_stopped_process_answers_no_client_and_then_all():
    world = formed()
    leader = leader_of(world)
    slow(leader).stand_still(1000)
    value = world.writer.write()
    assert value is not None
    world.run_until(world.now_ms + 900)
    assert world.writer.outcomes[value] == "open"
    world.run_until(world.now_ms + 500)
    assert world.writer.outcomes[value] == "acknowledged"


def test_a_watchdog_ends_a_process_whose_disk_gives_nothing_back():
    world = formed()
    leader = leader_of(world)
    slow(leader).watchdog_ms = 2000
    slow(leader).slow_down((FLUSH,), None, NEVER_MS)
    world.writer.write()
    world.run_until(world.now_ms + 1900)
    assert leader.core is not None
    world.run_until(world.now_ms + 200)
    assert world.faults.counts["ended_by_watchdog"] == 1


def test_no_clock_goes_back_where_an_action_lets_time_pass():
    """The loop around it set the clock back to its own end, and nodes slept for as long."""
    world = formed()
    end_ms = world.now_ms + 100
    world.at(end_ms, lambda: world.run_until(end_ms + 5000))
    world.run_until(end_ms)
    assert world.now_ms == end_ms + 5000


def test_no_fault_takes_a_disk_that_a_request_behind_a_slow_disk_relies_on():
    """Seed 13000959: 2's disk was lost, a new one asked for, and that one lost before it was added.

    The leader's disk hung meanwhile. It added the disk once it went on: two of four were lost.
    """
    assert run_seed(13_000_959).acknowledged
