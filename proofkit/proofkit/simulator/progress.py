"""Liveness: once faults end, a leader, a new commit, all voters caught up, in bounded time.

The rules promise that only within a budget: every voter set that may yet decide keeps a
majority of its disks. `FaultPlan.affordable` spends no more; `demand` looks again, and asks
for nothing where it is overspent. No administrator helps: what needs a voter change to go on
is a wedge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raftnode.core.events import DiskSpaceChanged
from raftnode.core.roles import Follower, Leader
from raftnode.core.types import FIRST_OFFSET, Offset, ReplicaKey

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode
    from proofkit.simulator.world import World
    from raftnode.core.raft import RaftCore

ELECTION_TIMEOUTS_MAX = 20
"""How many election timeouts progress may take. A few are enough, unless an old message
comes late, a disk is found stale and replaced, or votes are split several times."""
RESUMES_MS_MAX = 10_000
"""How long clients may wait where some nodes are slow but alive: what is promised of real ones."""
SETTLING_MS = 2000
"""How long a healed quorum has before nodes are slowed down, and between two looks at it."""
ROUNDS = 3
"""How often clients ask beside the same slow nodes: what was under way at first may mislead."""
LOOK_MS = 100


@dataclass(slots=True)
class ProgressLog:
    """The results of the demands of one world."""

    took_ms: list[int] = field(default_factory=list[int])
    over_budget: int = 0
    """How often nothing could be demanded."""
    resumed_ms: list[int] = field(default_factory=list[int])
    """How long a client waited for a write and for a read of it, beside nodes that are slow."""


def heal(world: World) -> None:
    """End every fault: the network is whole, every process runs, stale disks are replaced."""
    world.network.heal()
    world.end_ghosts()
    for node in world.nodes:
        node.die_after_effects = None
        node.next_flush_fails = False
        if node.slow:
            node.slow.recover()
            node.slow.wake()
        if node.snapshots:
            node.snapshots.has_room, node.snapshots.slow_until_ms = True, 0
            node.snapshots.die_after_jobs = node.snapshots.die_after_pieces = None
            node.snapshots.die_after_install = False
        if node.halted:  # S3: its storage went back in time; the operator replaces it
            world.wipe(node)
    world.replace_stale()
    world.start_all()
    for node in world.nodes:
        node.take(DiskSpaceChanged(low=False))  # wakes it too, if it slept through an alarm


def demand(world: World) -> None:
    """Heal the world, keep it calm, and wait for progress; the next fault ends the calm.

    Raises:
        InvariantError: `Progress`, with every replica's state.
    """
    settings = world.network.settings
    heal(world)
    if not within_budget(world):
        world.progress.over_budget += 1
        world.network.settings = settings
        return
    world.calm = True
    began, waiting = world.now_ms, _Waiting(world)
    limit_ms = ELECTION_TIMEOUTS_MAX * world.config.election_timeout_ms
    while (missing := waiting.missing()) is not None:
        if world.now_ms - began >= limit_ms:
            states = "\n".join(_describe(node) for node in world.nodes)
            world.checker.fail("Progress", f"{missing} for {limit_ms} ms after healing:\n{states}")
        world.run_until(world.now_ms + LOOK_MS)
        world.replace_stale()
    world.progress.took_ms.append(world.now_ms - began)
    world.calm = False
    world.network.settings = settings


def demand_beside_slow(world: World, strike: Callable[[SimNode], None]) -> list[SimNode]:
    """Heal the world, slow some nodes down for good, and demand that clients make progress.

    Those that are struck leave a majority of every set that may yet decide. They are up and
    connected: nothing but their slowness tells the others of it. The calm ends with the demand,
    the slowness does not.

    Args:
        world: that has been built so that nodes may be slow.
        strike: slows one node down.

    Returns:
        The nodes that were struck; none where nothing can be demanded.

    Raises:
        InvariantError: `ProgressBesideSlow`, with every replica's state.
    """
    settings = world.network.settings
    heal(world)
    world.calm = True
    world.run_until(world.now_ms + SETTLING_MS)
    world.replace_stale()
    struck = _struck(world)
    if not struck:
        world.progress.over_budget += 1
    for node in struck:
        strike(node)
    for _ in range(ROUNDS if struck else 0):
        client, began = _Client(world), world.now_ms
        while not client.is_served():
            if world.now_ms - began >= RESUMES_MS_MAX:
                if _is_forming(world):
                    world.progress.over_budget += 1
                    break
                states = "\n".join(_describe(node) for node in world.nodes)
                slow = ", ".join(f"{node.key}: {node.slow}" for node in struck)
                world.checker.fail(
                    "ProgressBesideSlow",
                    f"{client.missing} for {RESUMES_MS_MAX} ms though only {slow}:\n{states}",
                )
            world.run_until(world.now_ms + LOOK_MS)
            world.replace_stale()
        world.progress.resumed_ms.append(world.now_ms - began)
        world.run_until(world.now_ms + SETTLING_MS)
    world.calm = False
    world.network.settings = settings
    return struck


def _struck(world: World) -> list[SimNode]:
    """As many nodes as may be slow at once, often with the leader; none while it cannot write."""
    leaders = [node for node in world.believed_leaders() if node in world.nodes]
    if not any(leader.core and _is_formed(leader.core) for leader in leaders):
        return []
    if _is_reassigned(world):
        return []
    order = world.rng.sample(world.nodes, len(world.nodes))
    if world.rng.random() < 0.7:
        order.insert(0, leaders[0])
    struck: list[SimNode] = []
    for node in order:
        if node not in struck and within_budget(world, [slow.key for slow in (*struck, node)]):
            struck.append(node)
            if world.rng.random() < 0.5:
                break
    return struck


def _is_reassigned(world: World) -> bool:
    """Whether any log says that a reassignment is under way.

    Its next step may be appended before the leader can know that a disk is slow, and may need
    that disk: of three voters it makes two, and then nothing is committed without either.
    """
    cores = [node.core for node in world.everybody if node.core is not None]
    return any(core.replica.log.target_voters for core in cores)


def _is_formed(core: RaftCore) -> bool:
    """Whether clients may write (S19); a slow voter may hold that up as a lost one may."""
    log = core.replica.log
    return log.formation_completed or not log.raft_version


def _is_forming(world: World) -> bool:
    """Whether an upgrade from static voters that was under way holds writes up (S19).

    The leader appends it once it knows all voters to support it, maybe after they were slowed down.
    """
    leaders = [node.core for node in world.believed_leaders() if node.core is not None]
    return any(not _is_formed(core) for core in leaders)


@dataclass(slots=True)
class _Client:
    """A client that writes to a node that takes itself for the leader, then reads."""

    world: World
    written: list[bytes] = field(default_factory=list[bytes])
    reads: list[int] = field(default_factory=list[int])
    missing: str = "no write is acknowledged"

    def is_served(self) -> bool:
        """Ask once more, unless a write is acknowledged and a read after it answered."""
        outcomes = self.world.writer.outcomes
        if not any(outcomes[value] == "acknowledged" for value in self.written):
            value = self.world.writer.write()
            self.written += [value] if value else []
            return False
        self.missing = "no read is answered"
        if not self.world.keyvalue.answered.isdisjoint(self.reads):
            return True
        self.reads += self.world.reader.read()
        return False


def within_budget(world: World, besides: Collection[ReplicaKey] = ()) -> bool:
    """Whether every set that may yet decide has a majority that lives on its own disks.

    A replica that lacks a committed record cannot win an election: its older set decides nothing.

    Args:
        world: to be judged.
        besides: replicas that are not to be counted on.
    """
    committed = world.checker.committed_log
    deciding = [] if committed else [world.latch.voters]
    for node in world.nodes:
        log = node.disk.log
        if node.core is None or log[len(committed) - 1 : len(committed)] != committed[-1:]:
            continue
        mark = committed[-1].end_offset if committed else FIRST_OFFSET
        deciding.extend(at.voters for at in node.core.replica.log.voter_sets_since(mark))
    return bool(deciding) and all(
        sum(world.is_live(key) and not world.is_lost(key) and key not in besides for key in voters)
        >= voters.majority
        for voters in deciding
        if voters
    )


def may_write(world: World, leader: SimNode) -> bool:
    """S19: until all voters have the first batch a lost one has to be replaced first."""
    assert leader.core is not None
    log = leader.core.replica.log
    return log.formation_completed or not any(world.is_lost(key) for key in log.voters)


@dataclass(slots=True)
class _Waiting:
    """One demand's progress so far."""

    world: World
    value: bytes | None = None
    """The write that must be acknowledged; another where this one's leader fell."""
    reach: Offset = FIRST_OFFSET
    """What every voter must know to be committed: that write too."""

    def missing(self) -> str | None:
        """What there is not yet; None: progress was made."""
        leaders = self.world.believed_leaders()
        if len(leaders) != 1:
            return f"{len(leaders)} leaders"
        [leader] = leaders
        assert leader.core is not None
        replica = leader.core.replica
        role = replica.role
        assert isinstance(role, Leader)
        if replica.high_watermark <= role.epoch_start:
            return "nothing is committed in this leader's epoch"
        if may_write(self.world, leader) and not self._is_written():
            return "no new write is acknowledged"
        behind = [
            str(node.key)
            for node in self.world.nodes
            if node.key in replica.log.voters
            and not self.world.is_lost(node.key)
            and not _is_attached(node, leader, max(self.reach, Offset(role.epoch_start + 1)))
        ]
        return f"{', '.join(behind)} not caught up with {leader.key}" if behind else None

    def _is_written(self) -> bool:
        outcome = self.world.writer.outcomes[self.value] if self.value else "none"
        if outcome not in {"open", "acknowledged"}:
            self.value = self.world.writer.write()
        if outcome == "acknowledged" and not self.reach:
            self.reach = self.world.writer.acknowledged_end
        return outcome == "acknowledged"


def _is_attached(node: SimNode, leader: SimNode, reach: Offset) -> bool:
    """Whether a replica follows the leader and knows all below an offset to be committed."""
    if node is leader:
        return True
    if node.core is None:
        return False
    replica = node.core.replica
    follows = isinstance(replica.role, Follower) and replica.role.leader == leader.key
    return follows and replica.high_watermark >= reach


def _describe(node: SimNode) -> str:
    if node.core is None:
        return f"{node.key} down"
    replica = node.core.replica
    return (
        f"{node.key} epoch={replica.epoch} log={replica.log.position} "
        f"committed={replica.high_watermark} voters={replica.log.voters} {replica.role}"
    )
