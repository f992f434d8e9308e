"""Worlds in which a replica can come back through a snapshot only, and what may go wrong then."""

import random

import pytest

from proofkit.mutation import taken_out
from proofkit.simulator import progress
from proofkit.simulator.node import SimNode
from proofkit.simulator.snapshots import SimSnapshots, SnapshotPlan
from proofkit.simulator.world import World
from raftnode.core.types import ReplicaKey

pytestmark = pytest.mark.rule("P22", "P25")


def formed(
    *, interval_ms: tuple[int, int] = (200, 400), retained: int = 2, piece_bytes: int = 20
) -> World:
    """Three voters that take snapshots, trim all behind them, and have trimmed already."""
    plan = SnapshotPlan(
        random.Random(1), interval_ms=interval_ms, retained=retained, piece_bytes=piece_bytes
    )
    world = World(1, voters=3, spares=0, snapshots=plan)
    world.network.heal()
    world.start_all()
    world.every(20, 100, 10**9, world.tell_blank)
    world.every(20, 60, 10**9, world.writer.write)
    progress.demand(world)
    world.run_until(world.now_ms + 2000)
    assert all(node.disk.start > 0 for node in world.nodes)
    assert not world.faults.counts["installed"]
    return world


def leader_of(world: World) -> SimNode:
    [leader] = world.believed_leaders()
    return leader


def wiped(world: World) -> SimNode:
    """A follower whose disk was lost, started again on an empty one."""
    node = next(node for node in world.nodes if node is not leader_of(world))
    world.wipe(node)
    node.start()
    return node


def until_installed(world: World, node: SimNode, *, limit_ms: int = 30_000) -> int:
    """How long it takes until the log begins with a snapshot, milliseconds."""
    began = world.now_ms
    while not node.disk.start:
        assert world.now_ms < began + limit_ms, "it never comes back"
        world.run_until(world.now_ms + 50)
    return world.now_ms - began


def snapshots_of(node: SimNode) -> SimSnapshots:
    assert node.snapshots is not None
    return node.snapshots


def caught_up(world: World, node: SimNode) -> bool:
    world.run_until(world.now_ms + 3000)
    leader = leader_of(world)
    assert node.machine.end > 0
    return leader.machine.end - node.machine.end < 20


def test_empty_disk_gets_the_state_and_no_replica_can_send_it_the_log():
    world = formed()
    keys = set(leader_of(world).machine.values)
    node = wiped(world)
    until_installed(world, node)
    assert world.faults.counts["installed"] == 1
    assert set(node.machine.values) == keys
    assert caught_up(world, node)


def test_slow_disk_comes_to_the_end_of_one_though_the_leader_takes_another_every_second():
    """The fetch takes many times as long as the leader needs for the next and for its trim."""
    world = formed(interval_ms=(800, 1000))
    node = wiped(world)
    world.run_until(world.now_ms + 50)
    snapshots_of(node).slow_until_ms = world.now_ms + 60_000
    taken = world.faults.counts["snapshot"]
    took_ms = until_installed(world, node)
    assert took_ms > 3000
    assert world.faults.counts["snapshot"] - taken > 5
    assert world.faults.counts["fetch_begun"] == 1
    snapshots_of(node).slow_until_ms = 0
    assert caught_up(world, node)


def test_follower_that_dies_in_the_middle_begins_again_with_what_it_had():
    world = formed()
    node = wiped(world)
    for _ in range(3):
        snapshots_of(node).die_after_jobs = 3
        world.run_until(world.now_ms + 1500)
        if node.core is None:
            node.start()
    assert world.faults.counts["died_at_a_job"] == 3
    until_installed(world, node)
    assert caught_up(world, node)


@pytest.mark.parametrize("effects", range(4))
def test_follower_that_dies_at_the_install_has_all_of_it_or_nothing(effects: int):
    world = formed()
    node = wiped(world)
    until = world.now_ms + 5000
    while node.core is not None and world.now_ms < until:
        download = node.core.replica.download
        if download is not None and download.verifying:
            node.die_after_effects = effects
        world.run_until(world.now_ms + 1)
    if node.core is None:
        assert (node.disk.start > 0) == bool(node.disk.snapshots)
        node.start()
    until_installed(world, node)
    assert caught_up(world, node)


def test_leader_that_dies_in_the_middle_is_followed_by_one_that_has_another_snapshot():
    world = formed(piece_bytes=10)
    node = wiped(world)
    first = leader_of(world)
    snapshots_of(first).die_after_pieces = 4
    world.run_until(world.now_ms + 600)
    assert world.faults.counts["source_lost"] == 1
    progress.demand(world)
    until_installed(world, node)
    assert caught_up(world, node)


def test_rotten_snapshot_is_given_out_once():
    world = formed()
    leader = leader_of(world)
    newest = leader.disk.snapshots[-1]
    leader.disk.rotten.add(newest.position)
    snapshots_of(leader).plan.rng.seed(2)
    node = wiped(world)
    until_installed(world, node)
    assert world.faults.counts["fetched_damaged"] + world.faults.counts["set_aside"] >= 1
    assert newest.position not in leader.disk.rotten
    assert caught_up(world, node)


def test_damaged_snapshot_that_is_given_out_for_ever_brings_no_replica_back():
    with taken_out(SimSnapshots._check_later, "which in node.disk.rotten", "False"):
        world = formed()
        leader = leader_of(world)
        snapshots_of(leader).has_room = False
        world.run_until(world.now_ms + 500)
        leader.disk.rotten.add(leader.disk.snapshots[-1].position)
        node = wiped(world)
        with pytest.raises(AssertionError, match="it never comes back"):
            until_installed(world, node)


def test_an_older_snapshot_is_offered_where_the_newest_is_corrupt_and_there_is_no_room_for_another():
    world = formed()
    leader = leader_of(world)
    snapshots_of(leader).has_room = False
    world.run_until(world.now_ms + 500)
    newest, before = leader.disk.snapshots[-1], leader.disk.snapshots[-2]
    leader.disk.rotten.add(newest.position)
    snapshots_of(leader).plan.rng.seed(2)
    node = wiped(world)
    until_installed(world, node)
    assert world.faults.counts["offered_older"] == 1
    assert node.disk.snapshots[-1].end == before.end
    assert caught_up(world, node)


def test_start_takes_an_older_snapshot_for_a_corrupt_one():
    world = formed(retained=3)
    node = next(node for node in world.nodes if node is not leader_of(world))
    newest, before = node.disk.snapshots[-1], node.disk.snapshots[-2]
    node.disk.rotten.add(newest.position)
    node.crash()
    node.start()
    assert node.machine.end == before.end
    assert node.core is not None
    assert node.core.replica.high_watermark == before.end
    assert caught_up(world, node)


def test_disk_without_room_asks_again_until_it_has_some():
    world = formed()
    node = wiped(world)
    snapshots_of(node).has_room = False
    world.run_until(world.now_ms + 5000)
    assert node.disk.start == 0
    begun = world.faults.counts["fetch_begun"]
    assert 2 <= begun <= 8, "once a second"
    snapshots_of(node).has_room = True
    until_installed(world, node)
    assert caught_up(world, node)


def test_voters_and_reassignment_survive_in_the_snapshot_alone():
    """P50, S15: a replica that begins with it knows who votes, though no record says so any more."""
    world = formed()
    node = wiped(world)
    until_installed(world, node)
    leader = leader_of(world)
    assert leader.core is not None
    assert node.core is not None
    theirs, own = leader.core.replica.log, node.core.replica.log
    assert own.voters == theirs.voters
    assert own.voter_record == theirs.voter_record
    assert own.voter_record.offset < own.start
    listed: set[ReplicaKey] = set(world.latch.voters)
    assert set(own.voters) == listed
