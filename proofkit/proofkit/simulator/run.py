"""One seed from formation through faults to rest; many seeds and their summary."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from proofkit.simulator import progress
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.node import SimNode
from proofkit.simulator.slowness import Slowness
from proofkit.simulator.snapshots import SnapshotPlan
from proofkit.simulator.world import World
from raftnode.core.records import RAFT_VERSION
from raftnode.core.roles import Follower, Leader
from raftnode.runtime import reason_sentences

FAULTY_MS = 40_000
"""How long faults go on, in simulated time."""
HEALED_MS = 30_000
"""How long the healed world is watched, voters being replaced once it has made progress."""

SLOW = frozenset({5, 7})
"""In which worlds nodes may be slow but alive, by the remainder of the seed by eight."""

FINISHING = frozenset({4, 7, 13, 16})
"""In which worlds clients finish batches of many records, by the remainder of the seed by 17."""


@dataclass(slots=True)
class Outcome:
    """The figures of one seed, for the summary."""

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
    progress_ms: tuple[int, ...] = ()
    """How long each demanded progress took."""
    over_budget: int = 0
    """How often none could be demanded."""
    resumed_ms: tuple[int, ...] = ()
    """How long clients waited beside nodes that were slow but alive."""


def run_seed(seed: int, *, trace: bool = False) -> Outcome:
    """Run one world.

    Raises:
        InvariantError: with the seed in its message, and the trace if it was asked for.
    """
    world = build(seed, trace=trace)
    try:
        live(world)
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
        tuple(world.progress.took_ms),
        world.progress.over_budget,
        tuple(world.progress.resumed_ms),
    )


def build(seed: int, *, trace: bool = False) -> World:
    """Return the world of a seed; its size depends on the seed."""
    rng = random.Random(seed)
    voters = rng.choice([1, 2, 3, 3, 3, 4, 5])
    # Most quorums begin at the newest raft.version; the others are upgraded on the way (P54).
    raft_version = seed // 7 % 2 if seed % 7 == 5 else RAFT_VERSION
    spares = rng.choice([0, 1, 2])
    # In a third of the worlds every log stays whole: what trimming hides is seen there.
    plan = SnapshotPlan.of_seed(seed) if seed % 3 else None
    world = World(
        seed,
        voters=voters,
        spares=spares,
        raft_version=raft_version,
        trace=trace,
        snapshots=plan,
    )
    world.fetch_batches = rng.choice([1, 2, 8])
    _configure(world)
    return world


def _configure(world: World) -> None:
    """What is off unless a user asks for it is on in some worlds; the others keep their lives."""
    rng = random.Random(f"{world.seed} settings")
    if world.seed % 11 == 8:
        world.config = replace(world.config, fetches_in_flight_max=rng.choice([2, 2, 3, 5]))
    if world.seed % 13 in {2, 5, 8, 11}:
        drift = rng.choice([1, 10, 30])
        world.config = replace(world.config, lease_clock_drift_percent=drift)
        for node in world.nodes:
            node.clock_percent = 100 + rng.choice([0, drift // 2, drift])
    if announces(world.seed):
        world.config = replace(world.config, announces_blank=True)
        world.tells_observers = False
    if world.seed % 17 in FINISHING:
        world.writer.finishes = random.Random(f"{world.seed} batches")
    if world.seed % 8 in SLOW:
        world.faults.slow_down_too(rng)
        for node in world.nodes:
            node.slow = Slowness.of_seed(node, world.seed)


def announces(seed: int) -> bool:
    """Whether new disks of a seed's world join only when an AddVoter names them (S5)."""
    return seed % 19 == 6


def live(world: World) -> None:
    """Let a world live to its end.

    Raises:
        InvariantError: something was broken.
    """
    _live_through_faults(world)
    _heal_and_check(world)


def _live_through_faults(world: World) -> None:
    end = world.now_ms + FAULTY_MS
    world.start_all()
    world.every(20, 400, end, world.tell_blank)
    world.every(5, 120, end, world.writer.write)
    world.every(100, 1500, end, world.administrator.act)
    # A lease that should have ended is only seen by who asks while it lasts.
    world.every(*((5, 60) if world.config.promise_ms else (50, 600)), end, world.reader.read)
    world.every(500, 8000, end, world.replace_stale)
    if world.config.promise_ms:
        world.every(1000, 9000, end, world.faults.tempt)
    # Fault upon fault in some seeds; time to get into subtler trouble in others.
    low, high = world.rng.choice([(50, 900), (300, 3000), (500, 6000)])
    world.after(world.rng.choice([0, 3000]), lambda: world.every(low, high, end, world.faults.act))
    if world.seed % 5 == 4:
        # Progress in the middle too: what comes after is a quorum that was whole once more.
        world.run_until(end - world.rng.randint(FAULTY_MS // 4, FAULTY_MS * 3 // 4))
        progress.demand(world)
    if world.seed % 8 in SLOW:
        world.run_until(end - world.rng.randint(FAULTY_MS // 4, FAULTY_MS // 2))
        progress.demand_beside_slow(world, world.faults.strike_for_good)
    world.run_until(end)


def _heal_and_check(world: World) -> None:
    """After healing: a leader, progress, and every log the same (eventual progress)."""
    end = world.now_ms + HEALED_MS
    world.tells_observers = True  # so that all logs can become the same
    world.every(20, 200, end, world.tell_blank)
    world.every(200, 600, end, world.writer.write)
    world.every(100, 1000, end, world.administrator.act)
    world.every(200, 900, end, world.reader.read)
    world.every(500, 1500, end, world.replace_stale)
    before = world.writer.count("acknowledged")
    progress.demand(world)
    world.network.heal()
    world.run_until(end)
    world.run_until(end + 5_000)
    if _target_waited_for(world) is not None:
        # A leadership transfer that failed is tried again by its own time.
        timeouts = [n.core.replica.config.fetch_timeout_ms for n in world.nodes if n.core]
        world.run_until(world.now_ms + 2 * max(timeouts) + 5_000)
    _check_end(world, before)


def _check_end(world: World, before: int) -> None:
    checker = world.checker
    leaders = [n for n in world.nodes if n.core and isinstance(n.core.replica.role, Leader)]
    if len(leaders) != 1:
        states = [f"{n.key}:{n.core.replica.role if n.core else None}" for n in world.nodes]
        checker.fail("EventualLeader", f"{len(leaders)} leaders: {states}")
    leader, end = leaders[0], leaders[0].disk.end
    if progress.may_write(world, leader) and world.writer.count("acknowledged") <= before:
        checker.fail("EventualProgress", f"nothing was acknowledged after healing ({before})")
    for node in world.nodes:
        if node is leader or node.core is None or node.halted:
            continue
        role = node.core.replica.role
        if _refuses(node, leader) or _is_refused_by_all(node, leader):
            continue
        if not isinstance(role, Follower) or role.leader != leader.key:
            checker.fail("EventualAttachment", f"{node.key} does not follow {leader.key}: {role}")
        if node.disk.end != end:
            checker.fail("EventualReplication", f"{node.key} ends at {node.disk.end}, not {end}")
    if (target := _target_waited_for(world)) is not None:
        checker.fail("EventualReassignment", target)
    _check_writes(world)
    world.keyvalue.judge()


def _refuses(node: SimNode, leader: SimNode) -> bool:
    """Whether one that is no voter alone has seen what a leader that was put back has forgotten.

    It must not take that one's log for its own (S3): the leader may lead an epoch for the second
    time, of which this one has the first records. No replica believes it, so the
    administrator who put the leader back has to replace one of the two.
    """
    assert node.gate is not None
    assert leader.core is not None
    assert leader.gate is not None
    if node.key in leader.core.replica.log.voters or leader.key not in node.world.checker.stale:
        return False
    return node.gate.memory.why_stale(leader.key, leader.gate.start) is not None


def _is_refused_by_all(node: SimNode, leader: SimNode) -> bool:
    """Whether the leader refuses an observer that was put back, and which believes no replica.

    The voters that it knows are all gone, and a voter stops at the word of no stranger (S3). It
    stays without records until the administrator who put it back gives it an empty disk.
    """
    assert node.core is not None
    assert node.gate is not None
    assert leader.core is not None
    assert leader.gate is not None
    if node.key in leader.core.replica.log.voters:
        return False
    if leader.gate.memory.why_stale(node.key, node.gate.start) is None:
        return False
    others = (other for other in node.world.everybody if other is not node and other.core)
    return not any(node.gate.believes(other.key) for other in others)


def _target_waited_for(world: World) -> str | None:
    """A target whose members are all well must be reached, however often leaders change (P34)."""
    for node in world.nodes:
        if node.core is None or not isinstance(role := node.core.replica.role, Leader):
            continue
        log = node.core.replica.log
        target = log.target_voters
        if target and all(world.is_live(key) and not world.is_lost(key) for key in target):
            waits_for = role.step_waits_for and reason_sentences.wait(role.step_waits_for)
            return f"{log.voters} to {target} waits for {waits_for!r}"
    return None


def _check_writes(world: World) -> None:
    """Nothing acknowledged is lost, nothing is there twice, nothing refused is there."""
    committed = [batch for batch in world.checker.committed_log if batch.data]
    counts = Counter(batch.data for batch in committed)
    for batch in committed:
        records, sent = batch.end_offset - batch.base_offset, world.writer.record_counts[batch.data]
        if records != sent:
            world.checker.fail("NothingAcknowledgedIsLost", f"{batch}: {sent} records were sent")
    for value, outcome in world.writer.outcomes.items():
        count = counts[value]
        if count > 1:
            world.checker.fail("NoDuplicates", f"{value!r} is there {count} times")
        if outcome == "acknowledged" and count != 1:
            world.checker.fail("NothingAcknowledgedIsLost", repr(value))
        if outcome == "refused" and count:
            world.checker.fail("NothingRefusedAppears", repr(value))
