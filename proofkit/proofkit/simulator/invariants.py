"""The invariants after each event, by name (protocol.md section 3).

The checker sees everything; the core sees nothing of it. A broken invariant
raises `InvariantError` with its name and what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofkit.simulator.snapshotchecks import SnapshotChecks
from raftnode.core.effects import Halt
from raftnode.core.reasons.halts import StorageFenced
from raftnode.core.reasons.staleness import Staleness
from raftnode.core.records import (
    RAFT_VERSION,
    AddVoter,
    Batch,
    RaftVersion,
    RemoveVoter,
    TargetVoters,
)
from raftnode.core.roles import Leader, Resigned
from raftnode.core.state import QuorumState
from raftnode.core.types import NO_EPOCH, Epoch, Offset, ReplicaKey, VoterRecordId, VoterSet

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode


REQUESTS_AT_ONCE_MAX = 60
"""More than every election and Fetch of seven nodes needs."""
OVERDUE_IN_A_ROW_MAX = 3


def _applied(voters: VoterSet, batch: Batch) -> VoterSet:
    for control in batch.control:
        match control:
            case AddVoter(voter):
                voters = voters.with_added(voter)
            case RemoveVoter(key):
                voters = voters.without(key)
            case _:
                pass
    return voters


class InvariantError(AssertionError):
    """An invariant is broken; `name` says which."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


@dataclass(slots=True)
class Checker:
    """Watches a whole world."""

    leaders: dict[Epoch, ReplicaKey] = field(default_factory=dict[Epoch, ReplicaKey])
    votes: dict[tuple[ReplicaKey, Epoch], ReplicaKey] = field(
        default_factory=dict[tuple[ReplicaKey, Epoch], ReplicaKey]
    )
    epochs: dict[ReplicaKey, Epoch] = field(default_factory=dict[ReplicaKey, Epoch])
    marks: dict[tuple[ReplicaKey, int], tuple[Offset, Offset]] = field(
        default_factory=dict[tuple[ReplicaKey, int], tuple[Offset, Offset]]
    )
    predecessors: dict[int, int] = field(default_factory=dict[int, int])
    """Batch identity → identity of the batch before it where it was first appended."""
    made: dict[tuple[Offset, Epoch], Batch] = field(
        default_factory=dict[tuple[Offset, Epoch], Batch]
    )
    voter_records: dict[ReplicaKey, VoterRecordId] = field(
        default_factory=dict[ReplicaKey, VoterRecordId]
    )
    committed_log: list[Batch] = field(default_factory=list[Batch])
    committed_in: dict[int, Epoch] = field(default_factory=dict[int, Epoch])
    """In which epoch each of those was first known to be committed, by its place."""
    committed_data: set[bytes] = field(default_factory=set[bytes])
    voters_after: dict[int, VoterSet] = field(default_factory=dict[int, VoterSet])
    """Batch identity → the set in force after it; one batch has one predecessor (LogMatching)."""
    flushed: dict[ReplicaKey, set[int]] = field(default_factory=dict[ReplicaKey, set[int]])
    stale: set[ReplicaKey] = field(default_factory=set[ReplicaKey])
    requests: dict[ReplicaKey, tuple[int, int]] = field(
        default_factory=dict[ReplicaKey, tuple[int, int]]
    )
    overdue: dict[ReplicaKey, int] = field(default_factory=dict[ReplicaKey, int])
    raft_version: int = 0
    """What is committed."""
    target: VoterSet = field(default_factory=VoterSet)
    """Of a committed reassignment that is not finished; else empty."""
    targets: int = 0
    checks: int = 0
    snapshots: SnapshotChecks = field(init=False)
    """What is checked of snapshots and of logs that were trimmed behind them."""

    def __post_init__(self) -> None:
        self.snapshots = SnapshotChecks(self.fail, self.committed_log)

    def fail(self, name: str, detail: str) -> None:
        """Report a broken invariant."""
        raise InvariantError(name, detail)

    # -- hooks -----------------------------------------------------------------------

    def started(self, node: SimNode) -> None:
        """A process starts: its voter set is the one in its log."""
        self.flushed[node.key] = node.disk.ever_flushed
        self._check_voters(node)

    def persisted(self, node: SimNode, state: QuorumState) -> None:
        """EpochMonotone, OneVotePerEpoch: what a disk promised it keeps."""
        if state.epoch < node.disk.state.epoch:
            self.fail("EpochMonotone", f"{node.key}: {node.disk.state} then {state}")
        if state.voted is not None:
            voted = self.votes.setdefault((node.key, state.epoch), state.voted)
            if voted != state.voted:
                self.fail("OneVotePerEpoch", f"{node.key} in {state.epoch}: {voted}, {state.voted}")

    def appended(self, node: SimNode, batches: tuple[Batch, ...]) -> None:
        """LogMatching, ChangesAfterOwnEpochEntry: what stands where, and when it may."""
        self._check_changes(node, batches)
        before = id(node.disk.log[-1]) if node.disk.log else 0
        for batch in batches:
            first = self.made.setdefault((batch.base_offset, batch.epoch), batch)
            if first is not batch:
                self.fail("LogMatching", f"{node.key}: two batches at {batch}, {first}")
            if self.predecessors.setdefault(id(batch), before) != before:
                self.fail(
                    "LogMatching", f"{node.key}: {batch} follows another batch than elsewhere"
                )
            if id(batch) not in self.voters_after:
                self.voters_after[id(batch)] = _applied(
                    self.voters_after.get(before, VoterSet()), batch
                )
            before = id(batch)

    def _check_changes(self, node: SimNode, batches: tuple[Batch, ...]) -> None:
        """P28: no voter change before an entry of the leader's own epoch is committed."""
        if node.core is None or not isinstance(node.core.replica.role, Leader):
            return
        start, committed = node.core.replica.role.epoch_start, node.core.replica.high_watermark
        for batch in batches:
            change = any(isinstance(control, AddVoter | RemoveVoter) for control in batch.control)
            if change and batch.base_offset > start >= committed:
                self.fail("ChangesAfterOwnEpochEntry", f"{node.key} appends {batch} at {committed}")

    def committed(self, node: SimNode, high_watermark: Offset) -> None:
        """CommittedPrefix: all replicas commit the same batches, and a majority holds them."""
        self.checks += 1
        log = node.disk.log
        for position in range(node.disk.checked, len(log)):
            batch = log[position]
            if batch.end_offset > high_watermark:
                break
            node.disk.checked = position + 1
            if position < len(self.committed_log):
                if self.committed_log[position] is not batch:
                    self.fail(
                        "CommittedPrefix",
                        f"{node.key} commits {batch}, committed was {self.committed_log[position]}",
                    )
            else:
                self._newly_committed(node, batch)

    def _newly_committed(self, node: SimNode, batch: Batch) -> None:
        assert node.core is not None
        role = node.core.replica.role
        if isinstance(role, Leader) and node.core.replica.high_watermark <= role.epoch_start:
            self.fail(
                "CommitsPastOwnEpochEntry",
                f"{node.key} commits {batch}, its epoch begins at {role.epoch_start} (P42)",
            )
        if isinstance(role, Leader | Resigned):
            # The log as it stood when this effect was decided: the core may be ahead of it.
            voters = self._voters_of(node.disk.log) or node.core.replica.log.base_voters
            holders = sum(id(batch) in self.flushed.get(key, set()) for key in voters)
            if holders < voters.majority:
                self.fail(
                    "DurableOnMajority",
                    f"{node.key} commits {batch} held by {holders} of {voters}",
                )
        before = self._voters_of(self.committed_log)
        self._check_version(batch)
        self.committed_in[len(self.committed_log)] = node.core.replica.epoch
        self.committed_log.append(batch)
        self.committed_data.add(batch.data)
        after = self._voters_of(self.committed_log)
        if before and len(set(before) ^ set(after)) > 1:
            self.fail("AdjacentVoterSets", f"{before} then {after}")

    def _check_version(self, batch: Batch) -> None:
        """VersionNeverLowered, VersionRules: what each raft.version allows (P54)."""
        changes: set[ReplicaKey] = set()
        for control in batch.control:
            match control:
                case RaftVersion(version):
                    if version < self.raft_version:
                        self.fail("VersionNeverLowered", f"{batch} after {self.raft_version}")
                    self.raft_version = version
                case AddVoter(voter):
                    changes.add(voter.key)
                    if self.target and voter.key not in self.target:
                        self.fail("StepsTowardsTarget", f"{batch} on the way to {self.target}")
                case RemoveVoter(key):
                    changes.add(key)
                    if key in self.target:
                        self.fail("StepsTowardsTarget", f"{batch} on the way to {self.target}")
                case TargetVoters(target):
                    self._check_target(batch, VoterSet.of(target))
                case _:
                    pass
        if changes and self.raft_version == 0:
            self.fail("VersionRules", f"{batch} changes voters at raft.version 0")
        before = self._voters_of(self.committed_log)
        if before and self.raft_version == 1:
            ids = {key.node_id for key in before}
            if {key.node_id for key in _applied(before, batch)} != ids:
                self.fail("VersionRules", f"{batch} changes the ids {ids} at raft.version 1")

    def _check_target(self, batch: Batch, target: VoterSet) -> None:
        """TargetPinned: one replica of each id, and only where sets may be arbitrary (S15)."""
        if self.raft_version < RAFT_VERSION:
            self.fail("VersionRules", f"{batch} reassigns at raft.version {self.raft_version}")
        if len({key.node_id for key in target}) < len(target):
            self.fail("TargetPinned", f"{batch} has an id twice")
        self.target = target
        self.targets += 1

    def _voters_of(self, log: list[Batch]) -> VoterSet:
        return self.voters_after[id(log[-1])] if log else VoterSet()

    def halted(self, node: SimNode, halt: Halt) -> None:
        """NoHalt: no core gives up within the fault budget, but one on a stale volume (S3)."""
        if not isinstance(halt.reason, StorageFenced) or node.key not in self.stale:
            self.fail("NoHalt", f"{node.key}: {halt}")

    def found_stale(self, node: SimNode, teller: ReplicaKey, reason: Staleness) -> None:
        """NobodyIsStaleButTheStale: only a volume that was put back is refused (S3)."""
        self.checks += 1
        if node.key not in self.stale:
            self.fail("NobodyIsStaleButTheStale", f"{node.key}: {teller} says: {reason}")

    def forget(self, key: ReplicaKey) -> None:
        """A stale volume is put back: what it had promised since is forgotten (S3)."""
        self.stale.add(key)
        self.epochs.pop(key, None)
        for promised in [vote for vote in self.votes if vote[0] == key]:
            del self.votes[promised]

    def confirmed(self, node: SimNode, high_watermark: Offset, required: Offset) -> None:
        """ConfirmedReads: an answer covers all that was acknowledged before it was asked for."""
        self.checks += 1
        if high_watermark < required:
            self.fail("ConfirmedReads", f"{node.key}: {high_watermark}, acknowledged {required}")

    def asked(self, node: SimNode, now_ms: int) -> None:
        """NoStorm: no node asks on and on without time passing."""
        at_ms, count = self.requests.get(node.disk.key, (now_ms, 0))
        count = count + 1 if at_ms == now_ms else 1
        self.requests[node.disk.key] = (now_ms, count)
        if count > REQUESTS_AT_ONCE_MAX:
            self.fail("NoStorm", f"{node.key}: {count} requests within one millisecond")

    def woken(self, node: SimNode, deadline_ms: int | None, now_ms: int) -> None:
        """NoBusyLoop: no node wants to be woken in the past again and again."""
        key = node.disk.key
        if deadline_ms is None or deadline_ms > now_ms:
            self.overdue.pop(key, None)
            return
        self.overdue[key] = self.overdue.get(key, 0) + 1
        if self.overdue[key] > OVERDUE_IN_A_ROW_MAX:
            assert node.core is not None
            self.fail("NoBusyLoop", f"{node.key}: {deadline_ms} at {now_ms}: {node.core.replica}")

    def after_event(self, node: SimNode) -> None:
        """Everything that can be seen from one replica at any time."""
        self.checks += 1
        core = node.core
        if core is None:
            return
        replica = core.replica
        self._check_marks(node)
        record = replica.log.voter_record
        if self.voter_records.get(node.disk.key) != record:
            self.voter_records[node.disk.key] = record
            self._check_voters(node)
        if replica.log.end != node.disk.end:
            self.fail("IndexMatchesLog", f"{node.key}: {replica.log.end} != {node.disk.end}")
        if isinstance(replica.role, Leader):
            self._check_leader(node, replica.role)

    def _check_marks(self, node: SimNode) -> None:
        assert node.core is not None
        replica = node.core.replica
        key, epoch = node.disk.key, replica.epoch
        if (before := self.epochs.get(key, NO_EPOCH)) != epoch:
            if epoch < before:
                self.fail("EpochMonotone", f"{key}: {epoch}")
            self.epochs[key] = epoch
        now, life = (replica.high_watermark, replica.applicable), (key, node.life)
        if (marks := self.marks.get(life)) != now:
            if marks is not None and (now[0] < marks[0] or now[1] < marks[1]):
                self.fail("MonotonicHighWatermark", f"{key}: {marks} then {now}")
            self.marks[life] = now
        if replica.log.end < replica.high_watermark:
            self.fail("NoTruncationBelowHighWatermark", f"{node.key}: {now} {replica.log.end}")
        if replica.applicable > replica.log.durable_end:
            self.fail("AppliesOnlyDurable", f"{node.key}: {now} {replica.log.durable_end}")

    def _check_leader(self, node: SimNode, role: Leader) -> None:
        assert node.core is not None
        replica = node.core.replica
        known = self.leaders.get(role.epoch)
        if known is None:
            self.leaders[role.epoch] = node.key
            self._check_completeness(node, role.epoch)
        elif known != node.disk.key:
            self.fail("SingleLeader", f"epoch {role.epoch}: {known} and {node.key}")
        open_records = [
            at for at in replica.log.history if at.record.offset >= replica.high_watermark
        ]
        if len(open_records) > 1 and replica.high_watermark > role.epoch_start:
            self.fail("OneUncommittedChange", f"{node.key}: {open_records}")

    def _check_completeness(self, node: SimNode, epoch: Epoch) -> None:
        """A leader has what was committed before its epoch.

        A candidate that slept over its own victory leads an epoch that is over: of what was
        committed since it knows nothing, and it commits nothing.
        """
        log = node.disk.log
        for position, batch in enumerate(self.committed_log):
            if self.committed_in.get(position, NO_EPOCH) >= epoch:
                continue
            if position >= len(log) or log[position] is not batch:
                self.fail("LeaderCompleteness", f"{node.key} lacks committed {batch}")

    def _check_voters(self, node: SimNode) -> None:
        assert node.core is not None
        index = node.core.replica.log
        # A UUID between its removal and its re-adding is in neither, so it is never counted (S14).
        expected = self._voters_of(node.disk.log)
        if expected and set(expected) != set(index.voters):
            self.fail("VotersFromLog", f"{node.key}: {index.voters}, log says {expected}")
