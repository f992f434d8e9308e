"""One seed from formation through faults to rest; many seeds and their summary."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from raftnode.core.events import DiskSpaceChanged
from raftnode.core.roles import Follower, Leader
from raftnode.testing.simulator.invariants import InvariantError
from raftnode.testing.simulator.world import World

FAULTY_MS = 40_000
"""How long faults go on, in simulated time."""
HEALED_MS = 30_000
"""How long the healed world has to find a leader and commit: 30 election time-outs."""


@dataclass(slots=True)
class Outcome:
    """What one seed did, for the summary."""

    seed: int
    events: int
    checks: int
    acknowledged: int
    unknown: int
    refused: int
    epochs: int
    changes: dict[str, int]
    reads: int
    faults: Counter[str] = field(default_factory=Counter[str])


def run_seed(seed: int, *, trace: bool = False) -> Outcome:
    """Run one world.

    Raises:
        InvariantError: with the seed in its message, and the trace if it was asked for.
    """
    world = build(seed, trace=trace)
    try:
        _live_through_faults(world)
        _heal_and_check(world)
    except InvariantError as broken:
        if world.trace is not None:
            broken.add_note("\n".join(world.trace[-200:]))
        broken.add_note(f"repeat with: make sim SEED={seed}")
        raise
    writer = world.writer
    return Outcome(
        seed,
        world.events,
        world.checker.checks,
        writer.count("acknowledged"),
        writer.count("unknown"),
        writer.count("refused"),
        len(world.checker.leaders),
        world.administrator.changes,
        world.reader.answered,
        world.faults.counts,
    )


def build(seed: int, *, trace: bool = False) -> World:
    """The world of a seed: its size varies with it."""
    rng = random.Random(seed)
    voters = rng.choice([1, 2, 3, 3, 3, 4, 5])
    world = World(seed, voters=voters, spares=rng.choice([0, 1, 2]), trace=trace)
    world.fetch_batches = rng.choice([1, 2, 8])
    return world


def _live_through_faults(world: World) -> None:
    end = world.now_ms + FAULTY_MS
    world.start_all()
    world.every(20, 400, end, world.tell_blank)
    world.every(5, 120, end, world.writer.write)
    world.every(100, 1500, end, world.administrator.act)
    world.every(50, 600, end, world.reader.read)
    world.every(500, 8000, end, world.replace_stale)
    # Fault upon fault in some seeds; time to get into subtler trouble in others.
    low, high = world.rng.choice([(50, 900), (300, 3000), (500, 6000)])
    world.after(world.rng.choice([0, 3000]), lambda: world.every(low, high, end, world.faults.act))
    world.run_until(end)


def _heal_and_check(world: World) -> None:
    """After healing: a leader, progress, and every log the same (eventual progress)."""
    world.network.heal()
    world.end_ghosts()
    end = world.now_ms + HEALED_MS
    for node in world.nodes:
        node.die_after_effects = None
        node.next_flush_fails = False
        if node.halted:  # S3: its storage went back in time; the operator replaces it
            world.wipe(node)
    world.replace_stale()
    world.start_all()
    for node in world.nodes:
        node.take(DiskSpaceChanged(low=False))
    world.every(20, 200, end, world.tell_blank)
    world.every(200, 600, end, world.writer.write)
    world.every(100, 1000, end, world.administrator.act)
    world.every(200, 900, end, world.reader.read)
    world.every(500, 1500, end, world.replace_stale)
    before = world.writer.count("acknowledged")
    world.run_until(end)
    world.run_until(end + 5_000)
    _check_end(world, before)


def _check_end(world: World, before: int) -> None:
    checker = world.checker
    leaders = [n for n in world.nodes if n.core and isinstance(n.core.replica.role, Leader)]
    if len(leaders) != 1:
        states = [f"{n.key}:{n.core.replica.role if n.core else None}" for n in world.nodes]
        checker.fail("EventualLeader", f"{len(leaders)} leaders: {states}")
    if world.writer.count("acknowledged") <= before:
        checker.fail("EventualProgress", f"nothing was acknowledged after healing ({before})")
    leader, end = leaders[0], leaders[0].disk.end
    for node in world.nodes:
        if node is leader or node.core is None or node.halted:
            continue
        role = node.core.replica.role
        if not isinstance(role, Follower) or role.leader != leader.key:
            checker.fail("EventualAttachment", f"{node.key} does not follow {leader.key}: {role}")
        if node.disk.end != end:
            checker.fail("EventualReplication", f"{node.key} ends at {node.disk.end}, not {end}")
    _check_writes(world)


def _check_writes(world: World) -> None:
    """Nothing acknowledged is lost, nothing is there twice, nothing refused is there."""
    found = Counter(batch.data for batch in world.checker.committed_log if batch.data)
    for value, outcome in world.writer.outcomes.items():
        count = found[value]
        if count > 1:
            world.checker.fail("NoDuplicates", f"{value!r} is there {count} times")
        if outcome == "acknowledged" and count != 1:
            world.checker.fail("NothingAcknowledgedIsLost", repr(value))
        if outcome == "refused" and count:
            world.checker.fail("NothingRefusedAppears", repr(value))
