"""A world: nodes, time, a network, clients, faults, and a checker that watches it all."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from proofkit.simulator.clients import Administrator, Reader, Writer
from proofkit.simulator.disk import SimDisk, SimSnapshot
from proofkit.simulator.faults import FaultPlan
from proofkit.simulator.keyvalue import KeyValueHistory
from proofkit.simulator.network import SimNetwork
from proofkit.simulator.node import SimNode
from proofkit.simulator.progress import ProgressLog
from proofkit.simulator.snapshots import SnapshotPlan
from proofkit.simulator.strictchecker import StrictChecker
from proofkit.simulator.watcher import Watcher
from raftnode.core.config import CoreConfig
from raftnode.core.effects import Fact
from raftnode.core.events import ClusterJoined, LatchReceived
from raftnode.core.records import RAFT_VERSION
from raftnode.core.roles import Leader
from raftnode.core.state import Latch
from raftnode.core.types import LogPosition, NodeId, ReplicaKey, Voter, VoterSet

CLUSTER_ID = "simulated"


_Scheduled = tuple[int, int, Callable[[], None]]
"""When, in which order of the scheduling, what."""


class World:
    """A simulated world in one thread, from one seed.

    Args:
        seed: all that is random follows from it.
        voters: how many nodes form the quorum; `spares` more begin as observers.
        raft_version: what the quorum begins at.
        trace: keep a line for each fact.
        snapshots: how replicas take snapshots and trim behind them; None: they do not.
    """

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        spares: int = 2,
        raft_version: int = RAFT_VERSION,
        trace: bool = False,
        snapshots: SnapshotPlan | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_ms = 1000
        self.config = CoreConfig()
        self.fetch_batches = 4
        self.snapshot_plan = snapshots
        self.snapshot_files: dict[tuple[LogPosition, bytes], SimSnapshot] = {}
        """Every snapshot that was ever made, by what its file holds."""
        self.events = 0
        self.trace: list[str] | None = [] if trace else None
        self.lost: set[ReplicaKey] = set()
        self.put_back_at_ms: dict[ReplicaKey, int] = {}
        self.ghosts: list[SimNode] = []
        self.calm = False
        """No fault strikes and no voter is changed while progress is waited for."""
        self.tells_observers = True
        """Whether a blank replica that the latch does not list gets a join request; else it
        joins only by an AddVoter."""
        self.progress = ProgressLog()
        self.watcher: Watcher | None = None
        self._queue: list[_Scheduled] = []
        self._order = 0
        self.checker = StrictChecker()
        self.network = SimNetwork(self._child(), self.after)
        self.nodes = [
            SimNode(self, SimDisk.fresh(NodeId(node_id), self.rng), self._child())
            for node_id in range(voters + spares)
        ]
        listed = VoterSet.of(Voter(node.key) for node in self.nodes[:voters])
        self.latch = Latch(CLUSTER_ID, listed, raft_version)
        self.keyvalue = KeyValueHistory(self)
        self.writer = Writer(self)
        self.administrator = Administrator(self, self._child())
        if seed % 4 == 3:
            self.administrator.reassigns = random.Random(seed)
        self.reader = Reader(self, self._child())
        self.faults = FaultPlan(self, self._child())

    def _child(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    @property
    def everybody(self) -> list[SimNode]:
        """All processes, also replaced ones that still run."""
        return [*self.nodes, *self.ghosts] if self.ghosts else self.nodes

    # -- time --------------------------------------------------------------------------

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        """Schedule a call at a time."""
        self._order += 1
        heapq.heappush(self._queue, (at_ms, self._order, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Schedule a call after a delay."""
        self.at(self.now_ms + delay_ms, action)

    def every(self, low_ms: int, high_ms: int, until_ms: int, action: Callable[[], object]) -> None:
        """Repeat a call at random intervals."""

        def again() -> None:
            if self.now_ms < until_ms:
                action()
                self.after(self.rng.randint(low_ms, high_ms), again)

        self.after(self.rng.randint(low_ms, high_ms), again)

    def run_until(self, end_ms: int) -> None:
        """Let time pass."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            at_ms, _, action = heapq.heappop(queue)
            self.now_ms = max(self.now_ms, at_ms)
            self.events += 1
            action()
        # An action may have let time pass beyond it: no clock goes back.
        self.now_ms = max(self.now_ms, end_ms)

    # -- nodes -------------------------------------------------------------------------

    def start_all(self) -> None:
        """Start all processes that are down."""
        for node in self.nodes:
            node.paused_until_ms = -1
            if node.core is None:
                node.start()

    def tell_blank(self) -> None:
        """Act as the operator: give voters the latch, and others the cluster id (S18, S5)."""
        for node in self.nodes:
            if node.core is None or node.disk.cluster_id is not None:
                continue
            if node.key in self.latch.voters:
                node.ask(lambda request_id: LatchReceived(request_id, self.latch), lambda _: None)
            elif self.tells_observers:
                node.ask(lambda request_id: ClusterJoined(request_id, CLUSTER_ID), lambda _: None)

    def wipe(self, node: SimNode) -> None:
        """Lose a disk for good; the node restarts empty under its old id."""
        node.crash()
        if self.watcher is not None:
            self.watcher.lost(node)
        self.lost.add(node.key)
        node.disk = SimDisk.fresh(node.key.node_id, self.rng)
        node.saved = node.halted = None
        if node.slow is not None:
            node.slow.replaced()

    def replace_beside(self, node: SimNode) -> None:
        """Another disk and process under the same id, while the old one goes on (same id twice)."""
        self.lost.add(node.key)
        reborn = SimNode(self, SimDisk.fresh(node.key.node_id, self.rng), self._child())
        reborn.clock_percent = node.clock_percent
        if node.slow is not None:
            reborn.slow = node.slow.of_another(reborn)
        self.nodes[self.nodes.index(node)] = reborn
        self.ghosts.append(node)
        reborn.start()

    def end_ghosts(self) -> None:
        """The operator ends old processes whose replicas were replaced."""
        for ghost in self.ghosts:
            ghost.crash()
        self.ghosts.clear()

    def flush_failed(self, node: SimNode) -> None:
        """EIO: the process ends; its disk is replaced, if that can be afforded."""
        if self.faults.affordable(node.key):
            self.wipe(node)
        else:
            node.crash()

    def put_back(self, node: SimNode) -> None:
        """Start a replica on an earlier copy of its volume (S3)."""
        assert node.saved is not None
        node.crash()
        if self.watcher is not None:
            self.watcher.put_back(node)
        node.halted = None
        self.put_back_at_ms[node.key] = self.now_ms
        ever_flushed, promised_ms = node.disk.ever_flushed, node.disk.promised_ms
        node.disk, node.saved = node.saved, None
        node.disk.ever_flushed |= ever_flushed  # what was acknowledged was true when it was said
        node.disk.promise(promised_ms)  # no volume goes back within a promise, says decision 14
        self.checker.forget(node.key)
        node.start()

    def replace_stale(self) -> None:
        """The operator gives an empty disk to each node that ended because its disk is stale."""
        for node in self.nodes:
            if node.disk.stale:
                self.wipe(node)
                node.start()

    def find(self, asker: SimNode, target: ReplicaKey | None) -> SimNode | None:
        """Return the process at a replica's address, if it is that replica (S6)."""
        if target is None:
            others = [n for n in self.everybody if n is not asker and n.core is not None]
            return self.rng.choice(others) if others else None
        for node in self.everybody:
            if node.disk.key == target:
                return node if node.core is not None else None
        return None

    def is_lost(self, key: ReplicaKey) -> bool:
        """Whether that disk was wiped."""
        return key in self.lost

    def is_live(self, key: ReplicaKey) -> bool:
        """Whether a process runs on that disk."""
        return any(node.key == key and node.core is not None for node in self.nodes)

    def believed_leaders(self) -> list[SimNode]:
        """Return the nodes that take themselves for the leader."""
        return [
            node
            for node in self.everybody
            if node.core is not None and isinstance(node.core.replica.role, Leader)
        ]

    # -- records -----------------------------------------------------------------------

    def record(self, node: SimNode, fact: Fact) -> None:
        """Keep a fact in the trace."""
        if fact.name == "election_call_received":
            self.faults.counts["called"] += 1
        if self.trace is not None:
            fields = " ".join(f"{name}={value}" for name, value in fact.fields)
            self.trace.append(f"{self.now_ms:7d} {node.key.node_id} {fact.name} {fields}")

    def acknowledged_now(self, value: bytes) -> None:
        """Check that an acknowledged write is committed now."""
        if value not in self.checker.committed_data:
            self.checker.fail("AcknowledgedIsCommitted", repr(value))
