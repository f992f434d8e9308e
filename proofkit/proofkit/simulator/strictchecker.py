"""More invariants after each event of a simulated world, about elections and roles.

`invariants` compares logs and disks, for the explorer too. This adds what other proofs of Raft name
(protocol.md section 3): who was counted at an election, that a role says what the disk says, that
epochs rise along a log, that no leader begins with a snapshot. It reads, and changes nothing: a
seed has the same life under either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofkit.simulator.invariants import Checker
from proofkit.simulator.snapshotchecks import SnapshotChecks
from raftnode.core.records import Batch
from raftnode.core.roles import Blank, Candidate, Follower, Leader, Prospective, Resigned
from raftnode.core.state import QuorumState
from raftnode.core.types import NO_EPOCH, Epoch, ReplicaKey

if TYPE_CHECKING:
    from proofkit.simulator.disk import SimSnapshot
    from proofkit.simulator.node import SimNode


@dataclass(slots=True)
class StrictSnapshotChecks(SnapshotChecks):
    """The checks of snapshots, and one more."""

    def installing(self, node: SimNode, snapshot: SimSnapshot) -> None:
        """LeaderNeverLoadsSnapshot: who leads has the log, and gives it out."""
        assert node.core is not None
        if isinstance(node.core.replica.role, Leader):
            self.fail("LeaderNeverLoadsSnapshot", f"{node.key}: {snapshot.position}")
        SnapshotChecks.installing(self, node, snapshot)


@dataclass(slots=True)
class StrictChecker(Checker):
    """The checks of `invariants` and of this module."""

    votes_ever: set[tuple[Epoch, ReplicaKey, ReplicaKey]] = field(
        default_factory=set[tuple[Epoch, ReplicaKey, ReplicaKey]]
    )
    """In which epoch who persisted a vote for whom; what a volume forgot was cast all the same."""
    elected: set[Epoch] = field(default_factory=set[Epoch])

    def __post_init__(self) -> None:
        Checker.__post_init__(self)
        self.snapshots = StrictSnapshotChecks(self.fail, self.committed_log)

    def persisted(self, node: SimNode, state: QuorumState) -> None:
        """Remember the vote."""
        if state.voted is not None:
            self.votes_ever.add((state.epoch, node.key, state.voted))
        Checker.persisted(self, node, state)

    def appended(self, node: SimNode, batches: tuple[Batch, ...]) -> None:
        """EpochsRiseInLog: along a log epochs never fall, and offsets leave no gap."""
        last = node.disk.log[-1] if node.disk.log else None
        for batch in batches:
            end, epoch = (last.end_offset, last.epoch) if last else (0, NO_EPOCH)
            if batch.base_offset != end or batch.epoch < epoch:
                self.fail("EpochsRiseInLog", f"{node.key}: {batch} after {last}")
            last = batch
        Checker.appended(self, node, batches)

    def after_event(self, node: SimNode) -> None:
        """Check RemovedNeverCounted and RolesMatchState after the other checks."""
        Checker.after_event(self, node)
        if node.core is None:
            return
        if (why := _contradiction(node)) is not None:
            self.fail("RolesMatchState", f"{node.key} is {node.core.replica.role}: {why}")
        role = node.core.replica.role
        if isinstance(role, Leader) and role.epoch not in self.elected:
            self.elected.add(role.epoch)
            self._check_election(node, role.epoch)

    def _check_election(self, node: SimNode, epoch: Epoch) -> None:
        """RemovedNeverCounted: a majority of the set in force in its log, and of no other."""
        assert node.core is not None
        voters = node.core.replica.log.voters
        granted = [key for key in voters if (epoch, key, node.key) in self.votes_ever]
        if len(granted) < voters.majority:
            self.fail("RemovedNeverCounted", f"{node.key} leads {epoch} by {granted} of {voters}")


def _contradiction(node: SimNode) -> str | None:
    """What in memory or on disk says that a replica cannot have its role; None: nothing."""
    assert node.core is not None
    replica, disk = node.core.replica, node.disk
    own, state = replica.key, replica.state
    match replica.role:
        case Blank():
            wrong = disk.cluster_id is not None
        case Leader(epoch=epoch):
            wrong = epoch != state.epoch or state.leader != own
        case Resigned():
            wrong = state.leader != own
        case Follower(leader=leader):
            wrong = leader == own or state.leader != leader
        case Candidate():
            wrong = state.leader is not None or state.voted not in {None, own}
        case _:
            wrong = False
    if wrong:
        return f"its state is {state}"
    if state != disk.state:
        return f"its disk says {disk.state}, its memory {state}"
    stands = isinstance(replica.role, Leader | Candidate | Prospective)
    return "it has no voters" if stands and not replica.log.voters else None
