"""The faults, and how many of them may be active at once.

Crashes, pauses and cuts are unlimited: they may cost progress, never data. Disks
are wiped only while every voter set that may be in force anywhere keeps a
majority of disks that were never lost; past that, data is gone by definition.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from proofkit.simulator.network import NetworkSettings
from proofkit.simulator.slowness import FLUSH, KINDS, NEVER_MS, PACES_MS, PERSIST, READ
from raftnode.core.events import (
    AddVoterRequested,
    DiskSpaceChanged,
    Event,
    ReassignmentRequested,
    RemoveVoterRequested,
    Target,
)
from raftnode.core.membership.reassignment import differences
from raftnode.core.records import Batch
from raftnode.core.roles import Leader
from raftnode.core.types import FIRST_OFFSET, ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from proofkit.simulator.disk import SimDisk, SimSnapshot
    from proofkit.simulator.node import SimNode
    from proofkit.simulator.snapshots import SimSnapshots
    from proofkit.simulator.world import World


WEIGHTS = {
    "crash": 4.0,
    "crash_inside": 4.0,
    "restart": 6.0,
    "pause": 2.0,
    "cut": 4.0,
    "cut_leader": 8.0,
    "bridge": 2.0,
    "heal": 3.0,
    "wipe": 2.0,
    "weather": 2.0,
    "eio": 1.0,
    "save": 2.0,
    "put_back": 4.0,
    "twice": 1.0,
    "end_ghosts": 1.0,
    "disk_space": 1.0,
}
"""How often each fault strikes, relative to the others, in a seed without a mood."""

SNAPSHOT_WEIGHTS = {
    "snapshots_now": 4.0,
    "crash_fetching": 3.0,
    "lose_source": 2.0,
    "rot_snapshot": 2.0,
    "slow_disk": 2.0,
    "no_room": 1.0,
}
"""The same of those that strike only where snapshots are taken."""

SLOW_WEIGHTS = {
    "slow_flush": 3.0,
    "hang_flush": 2.0,
    "hang_disk": 2.0,
    "hang_reads": 1.0,
    "stand_still": 3.0,
    "recover": 4.0,
}
"""The same of those that strike only where nodes may be slow but alive."""
FOR_GOOD_MS = 300_000
"""How long a process stands still that is never resumed: longer than a world lives."""


@dataclass(slots=True)
class FaultPlan:
    """Chooses the next fault."""

    world: World
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter[str])
    weights: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        # Each seed has its own weather: some faults come often, some never.
        all_weights = WEIGHTS | SNAPSHOT_WEIGHTS if self.world.snapshot_plan else WEIGHTS
        self.weights = self._drawn(all_weights, self.rng)
        self.weights["heal"] = WEIGHTS["heal"]
        self.weights["restart"] = WEIGHTS["restart"]

    def _drawn(self, weights: dict[str, float], rng: random.Random) -> dict[str, float]:
        return {fault: weight * rng.choice([0, 0.3, 1, 1, 3]) for fault, weight in weights.items()}

    def slow_down_too(self, rng: random.Random) -> None:
        """From now on nodes may be slow but alive, too."""
        self.weights |= self._drawn(SLOW_WEIGHTS, rng)
        self.weights["recover"] = SLOW_WEIGHTS["recover"]

    def act(self) -> None:
        """Cause one fault, unless the world must be calm."""
        if self.world.calm:
            return
        fault = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
        if getattr(self, f"_{fault}")():
            self.counts[fault] += 1

    def tempt(self) -> None:
        """Isolate a leader with its lease, and restart the others, which might forget it (S33)."""
        leaders = self.world.believed_leaders()
        if self.world.calm or not leaders:
            return
        leader = self.rng.choice(leaders)
        for node in self.world.nodes:
            if node is leader:
                continue
            self.world.network.cut.add((leader.key.node_id, node.key.node_id))
            self.world.network.cut.add((node.key.node_id, leader.key.node_id))
            if self.rng.random() < 0.7:
                node.crash()
                node.start()
        self.counts["tempted"] += 1

    def _up(self) -> list[SimNode]:
        return [node for node in self.world.nodes if node.core is not None]

    def _crash(self) -> bool:
        up = self._up()
        if up:
            self.rng.choice(up).crash()
        return bool(up)

    def _crash_inside(self) -> bool:
        """Die at one of the next points between two effects."""
        up = self._up()
        if up:
            self.rng.choice(up).die_after_effects = self.rng.randint(0, 12)
        return bool(up)

    def _restart(self) -> bool:
        down = [node for node in self.world.nodes if node.core is None]
        if down:
            self.rng.choice(down).start()
        return bool(down)

    def _pause(self) -> bool:
        node = self.rng.choice(self.world.nodes)
        node.paused_until_ms = self.world.now_ms + self.rng.randint(100, 6000)
        return True

    def _cut(self) -> bool:
        """Cut the nodes in two, in both directions or in one."""
        ids = [node.key.node_id for node in self.world.nodes]
        side = {node_id for node_id in ids if self.rng.random() < 0.5}
        both = self.rng.random() < 0.7
        for a in ids:
            for b in ids:
                if a in side and b not in side:
                    self.world.network.cut.add((a, b))
                    if both:
                        self.world.network.cut.add((b, a))
        return True

    def _cut_leader(self) -> bool:
        """Leave a leader with a minority, so that another is elected beside it."""
        leaders = self.world.believed_leaders()
        if not leaders:
            return False
        leader = self.rng.choice(leaders).key.node_id
        for node in self.world.nodes:
            if node.key.node_id != leader and self.rng.random() < 0.9:
                self.world.network.cut.add((leader, node.key.node_id))
                self.world.network.cut.add((node.key.node_id, leader))
        return True

    def _bridge(self) -> bool:
        """Two sides that only one node can talk to."""
        ids = [node.key.node_id for node in self.world.nodes]
        bridge = self.rng.choice(ids)
        side = {node_id for node_id in ids if self.rng.random() < 0.5}
        for a in ids:
            for b in ids:
                if bridge not in {a, b} and (a in side) != (b in side):
                    self.world.network.cut.add((a, b))
        return True

    def _heal(self) -> bool:
        self.world.network.cut.clear()
        return True

    def _weather(self) -> bool:
        self.world.network.settings = NetworkSettings(
            loss=self.rng.choice([0, 0.01, 0.05, 0.2]),
            duplication=self.rng.choice([0, 0.02, 0.1]),
            delay_max_ms=self.rng.choice([2, 10, 50, 300]),
            slow=self.rng.choice([0, 0.02, 0.1]),
            slow_delay_max_ms=self.rng.choice([500, 3000]),
        )
        return True

    def _wipe(self) -> bool:
        candidates = [node for node in self.world.nodes if self.affordable(node.key)]
        if candidates:
            self.world.wipe(self.rng.choice(candidates))
        return bool(candidates)

    def _eio(self) -> bool:
        """The next flush fails: the process ends, the disk is replaced."""
        up = self._up()
        if up:
            self.rng.choice(up).next_flush_fails = True
        return bool(up)

    def _save(self) -> bool:
        """Take a snapshot of a volume behind the back of its process."""
        node = self.rng.choice(self.world.nodes)
        if node.disk.cluster_id is None or (node.saved and self.rng.random() < 0.7):
            return False
        node.saved = node.disk.saved()
        node.saved.log = list(node.saved.durable)
        return True

    def _put_back(self) -> bool:
        """Put an old volume back (S3).

        An observer's at any time; a voter's only where our rules promise that nothing is
        lost. From then on it counts as lost. Neither, where the voters that the old volume
        knows would elect it, and none of them knows better: the only voter would elect itself.
        """
        sets = self._sets_in_force()
        deciding = {key for voters in sets for key in voters}
        deciding.update(key for _, target in self._reassignments() for key in target)
        saved = [n for n in self.world.nodes if n.saved and not self._would_lead(n, n.saved)]
        observers = [n for n in saved if n.key not in deciding]
        voters = [n for n in saved if n.saved and self._may_go_back(n, n.saved, sets)]
        if voters:
            node = self.rng.choice(voters)
            self.world.lost.add(node.key)
            self.counts["put_back_voter"] += 1
            self.world.put_back(node)
        elif observers:
            self.world.put_back(self.rng.choice(observers))
        return bool(voters or observers)

    def _would_lead(self, node: SimNode, saved: SimDisk) -> bool:
        """Whether a set in an older log has a majority that lets its replica lead again.

        A replica does not let it lead if it has seen a later start of it, or holds its last record.
        """
        last = node.disk.durable[-1:]
        unaware = {
            other.key
            for other in self.world.everybody
            if other is not node
            and not _holds(other.disk, last)
            and not _has_seen_later(other.disk, node.key, saved)
        }
        index = saved.index()
        known = [index.voters, *(at.voters for at in index.voter_sets_since(saved.start))]
        return any(
            node.key in voters and 1 + sum(key in unaware for key in voters) >= voters.majority
            for voters in known
        )

    def _may_go_back(self, node: SimNode, saved: SimDisk, sets: list[VoterSet]) -> bool:
        """Whether a voter's older volume can do no harm, for one of two reasons.

        Every other voter that counts has seen a later start of it. Or it forgets no vote and
        no record but such as a majority of the others holds: it may then go on unnoticed.
        """
        deciding = [voters for voters in sets if node.key in voters]
        if not deciding or node.key in self.world.lost or not self.affordable(node.key):
            return False
        others = {
            other.key: other.disk
            for other in self.world.everybody
            if other is not node and other.key not in self.world.lost
        }
        if all(
            _has_seen_later(disk, node.key, saved)
            for voters in deciding
            for key, disk in others.items()
            if key in voters
        ):
            return True
        last = node.disk.durable[-1:]
        return saved.state == node.disk.state and all(
            sum(key in voters and _holds(disk, last) for key, disk in others.items())
            >= voters.majority
            for voters in deciding
        )

    def _twice(self) -> bool:
        """A node gets a new disk and process while the old process runs on."""
        up = [node for node in self._up() if self.affordable(node.key)]
        if up and not self.world.ghosts:
            self.world.replace_beside(self.rng.choice(up))
            return True
        return False

    def _end_ghosts(self) -> bool:
        had = bool(self.world.ghosts)
        self.world.end_ghosts()
        return had

    def _disk_space(self) -> bool:
        up = self._up()
        if up:
            self.rng.choice(up).take(DiskSpaceChanged(self.rng.random() < 0.5))
        return bool(up)

    def _snapshots_now(self) -> bool:
        """Everybody takes one now: what is behind a little is behind the logs' start soon."""
        up = self._with_snapshots()
        for snapshots in up:
            snapshots.take()
        return bool(up)

    def _with_snapshots(self) -> list[SimSnapshots]:
        return [node.snapshots for node in self._up() if node.snapshots]

    def _crash_fetching(self) -> bool:
        """Die after one of the next jobs of a trim or a fetch, or at the next install."""
        up = self._with_snapshots()
        if up:
            self.rng.choice(up).die_after_jobs = self.rng.randint(1, 20)
            self.rng.choice(up).die_after_install = True
        return bool(up)

    def _lose_source(self) -> bool:
        """A node that gives a snapshot out dies in the middle of it."""
        up = self._with_snapshots()
        for snapshots in up:
            snapshots.die_after_pieces = self.rng.randint(1, 12)
        return bool(up)

    def _rot_snapshot(self) -> bool:
        """Corrupt a snapshot; on each disk a sound one stays that reaches the log's start."""
        spare = [
            (node, snapshot)
            for node in self.world.nodes
            for snapshot in node.disk.snapshots
            if snapshot.position not in node.disk.rotten and _is_spare(node, snapshot)
        ]
        if spare:
            node, snapshot = self.rng.choice(spare)
            node.disk.rotten.add(snapshot.position)
        return bool(spare)

    def _slow_disk(self) -> bool:
        """Fetching, reading and trimming take so long that others trim again meanwhile."""
        up = self._with_snapshots()
        if up:
            self.rng.choice(up).slow_until_ms = self.world.now_ms + self.rng.randint(500, 8000)
        return bool(up)

    def _no_room(self) -> bool:
        """A disk has no room for a snapshot, or has it again."""
        up = self._with_snapshots()
        if up:
            self.rng.choice(up).has_room = self.rng.random() < 0.5
        return bool(up)

    def strike_for_good(self, node: SimNode) -> None:
        """Slow a node down until its disk is replaced or its process resumes."""
        assert node.slow is not None
        hangs, takes_ms = self.rng.random() < 0.6, self.rng.choice(PACES_MS)
        kinds = self.rng.choice([(FLUSH,), (FLUSH,), (FLUSH, PERSIST), KINDS, (READ,), ()])
        if kinds:
            node.slow.slow_down(kinds, None if hangs else takes_ms, NEVER_MS)
        else:
            node.slow.stand_still(FOR_GOOD_MS)
        self.counts["slow_for_good"] += 1

    def _slow_flush(self) -> bool:
        """Each piece of a disk's work takes its time, from a tenth of a second to ten."""
        kinds = self.rng.choice([(FLUSH,), (FLUSH, PERSIST), KINDS])
        return self._slow_down(kinds, self.rng.choice(PACES_MS))

    def _hang_flush(self) -> bool:
        """The log's fsync does not come back; all else goes on."""
        return self._slow_down((FLUSH,), None)

    def _hang_disk(self) -> bool:
        """The disk gives nothing back, neither a flush nor a vote."""
        return self._slow_down(KINDS if self.rng.random() < 0.5 else (FLUSH, PERSIST), None)

    def _hang_reads(self) -> bool:
        """What is written becomes durable; nothing of it can be read for a Fetch."""
        return self._slow_down((READ,), None)

    def _stand_still(self) -> bool:
        """The process is stopped, clients and all, and goes on some seconds later."""
        node = self._one_to_slow_down()
        if node is not None and node.slow is not None:
            node.slow.stand_still(self.rng.choice([200, 1500, 4000, 9000]))
        return node is not None

    def _recover(self) -> bool:
        slow = [node for node in self.world.nodes if node.slow and node.slow.paces]
        for node in slow:
            if node.slow is not None and self.rng.random() < 0.7:
                node.slow.recover()
        return bool(slow)

    def _slow_down(self, kinds: tuple[str, ...], takes_ms: tuple[int, int] | None) -> bool:
        node = self._one_to_slow_down()
        if node is not None and node.slow is not None:
            for_ms = self.rng.choice([2000, 6000, 15_000, NEVER_MS])
            node.slow.slow_down(kinds, takes_ms, for_ms)
        return node is not None

    def _one_to_slow_down(self) -> SimNode | None:
        """Often who leads: the others then have a leader that is well in all they can see."""
        leaders = [node for node in self.world.believed_leaders() if node in self._up()]
        if leaders and self.rng.random() < 0.5:
            return self.rng.choice(leaders)
        up = self._up()
        return self.rng.choice(up) if up else None

    def affordable(self, key: ReplicaKey) -> bool:
        """Whether every set in force keeps a majority of disks that were never lost."""
        lost = self.world.lost | {key}
        return all(
            sum(voter in lost for voter in voters) <= len(voters) - voters.majority
            for voters in self._sets_in_force()
        ) and all(keeps_majorities(*way, lost) for way in self._reassignments())

    def may_reassign(self, voters: VoterSet, target: VoterSet) -> bool:
        """Whether every set on the way keeps a majority of disks that were never lost.

        A replica that is as good as lost, such as one whose node has got another disk, may
        still look well: no rule can keep an administrator from leaning on it.
        """
        return keeps_majorities(voters, target, self.world.lost)

    def _reassignments(self) -> Iterator[tuple[VoterSet, VoterSet]]:
        """From where to where a leader with some replica's log may go on."""
        for node in self.world.everybody:
            index = node.core.replica.log if node.core else node.disk.index()
            if index.target_voters:
                yield index.voters, index.target_voters
            role = node.core.replica.role if node.core else None
            if isinstance(role, Leader) and role.target and role.target.target:
                yield index.voters, role.target.target
            for asked in _waiting(node):
                if isinstance(asked, ReassignmentRequested) and asked.targets:
                    for keys in product(*(self._meant(t, index.voters) for t in asked.targets)):
                        yield index.voters, VoterSet.of(Voter(key) for key in keys)

    def _meant(self, target: Target, voters: VoterSet) -> list[ReplicaKey]:
        """The replicas, any of which a leader with these voters may take for a target."""
        if target.directory_id:
            return [ReplicaKey(target.node_id, target.directory_id)]
        known = [*voters, *(node.disk.key for node in self.world.everybody)]
        return list(dict.fromkeys(key for key in known if key.node_id == target.node_id))

    def _sets_in_force(self) -> list[VoterSet]:
        """Every set that some replica may yet decide with, and the committed one."""
        # Until a first record is committed the latch decides, whether or not it has arrived.
        sets = [] if self.world.checker.committed_log else [self.world.latch.voters]
        for node in self.world.everybody:
            index = node.core.replica.log if node.core else node.disk.index()
            mark = node.core.replica.high_watermark if node.core else index.start
            sets.extend(at.voters for at in index.voter_sets_since(mark) if at.voters)
            role = node.core.replica.role if node.core else None
            if isinstance(role, Leader):  # what it may append next
                sets.extend(change.applied_to(index.voters) for change in role.changes)
            for asked in _waiting(node):
                if isinstance(asked, AddVoterRequested) and asked.voter.key not in index.voters:
                    sets.append(index.voters.with_added(asked.voter))
                elif isinstance(asked, RemoveVoterRequested):
                    sets.append(index.voters.without(asked.key))
        return sets


def _waiting(node: SimNode) -> Sequence[Event]:
    """The requests that wait for a slow node, which makes what they ask for once it goes on.

    The administrator asked while all that they name was well, and the replica may look so still.
    """
    return node.slow.waiting if node.slow else ()


def _is_spare(node: SimNode, snapshot: SimSnapshot) -> bool:
    """Whether the disk has what a start needs without it, also once its log is trimmed."""
    plan, disk = node.world.snapshot_plan, node.disk
    start = node.core.replica.log.start if node.core else disk.start
    others = [
        other
        for other in disk.snapshots
        if other is not snapshot and other.position not in disk.rotten
    ]
    if plan is None or plan.retained == 1:
        return any(other.end > snapshot.end for other in others)
    return start == FIRST_OFFSET or any(other.end >= start for other in others)


def keeps_majorities(voters: VoterSet, target: VoterSet, lost: set[ReplicaKey]) -> bool:
    """Whether every set that a reassignment may pass through has a majority that is not lost."""
    coming, going = differences(voters, target)
    return _keeps_majorities(
        len(voters),
        sum(key in lost for key in voters),
        (
            sum(voter.key in lost for voter in coming),
            sum(voter.key not in lost for voter in coming),
        ),
        (
            sum(voter.key in lost for voter in going),
            sum(voter.key not in lost for voter in going),
        ),
    )


@functools.cache
def _keeps_majorities(
    size: int, lost: int, coming: tuple[int, int], going: tuple[int, int]
) -> bool:
    """Of a set's size and its lost ones; `coming` and `going` are those lost and those well."""
    if lost > size - (size // 2 + 1):
        return False
    adds = sum(coming) >= sum(going)
    rest = coming if adds else going
    for kind in (0, 1):
        if not rest[kind]:
            continue
        left = (rest[0] - (kind == 0), rest[1] - (kind == 1))
        step = 1 if adds else -1
        ways = (left, going) if adds else (coming, left)
        if not _keeps_majorities(size + step, lost + (step if kind == 0 else 0), *ways):
            return False
    return True


def _has_seen_later(disk: SimDisk, key: ReplicaKey, saved: SimDisk) -> bool:
    """Whether a replica remembers a later start of another than that one's older volume had."""
    mark = disk.peer_marks.get(key)
    return mark is not None and mark.incarnation > saved.incarnation


def _holds(disk: SimDisk, last: list[Batch]) -> bool:
    """Whether a log holds a batch, and so all before it (LogMatching); or nothing is asked for."""
    return all(any(held is batch for held in disk.durable) for batch in last)
