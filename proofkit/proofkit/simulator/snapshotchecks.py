"""The invariants of snapshots, trimmed logs and installs, by name (protocol.md section 3).

The log that a simulated disk keeps whole says what should be there, whatever was trimmed: all
that a snapshot or an index claims of the part that is gone is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from raftnode.core.log_head import LogHead
from raftnode.core.log_index import LogIndex
from raftnode.core.records import (
    AddVoter,
    Batch,
    FormationCompleted,
    RaftVersion,
    RemoveVoter,
    TargetVoters,
)
from raftnode.core.types import (
    BASE_VOTER_RECORD,
    FIRST_OFFSET,
    NO_EPOCH,
    LogPosition,
    Offset,
    ReplicaKey,
    VoterRecordId,
    VoterSet,
)

if TYPE_CHECKING:
    from proofkit.simulator.disk import SimSnapshot
    from proofkit.simulator.node import SimNode

_NOTHING = LogHead(LogPosition(NO_EPOCH, FIRST_OFFSET), VoterSet(), BASE_VOTER_RECORD, 0, False)


def head_after(head: LogHead, batch: Batch) -> LogHead:
    """Return the head of the log after one more batch, by the records alone."""
    for index, control in enumerate(batch.control):
        record = VoterRecordId(Offset(batch.base_offset + index), batch.epoch)
        match control:
            case AddVoter(voter):
                head = replace(head, voters=head.voters.with_added(voter), voter_record=record)
            case RemoveVoter(key):
                head = replace(head, voters=head.voters.without(key), voter_record=record)
            case RaftVersion(version):
                head = replace(head, raft_version=max(version, head.raft_version))
            case FormationCompleted():
                head = replace(head, formation_completed=True)
            case TargetVoters(target):
                head = replace(head, target_voters=VoterSet.of(target), target_record=record)
            case _:
                pass
    return replace(head, position=LogPosition(batch.epoch, batch.end_offset))


@dataclass(slots=True)
class SnapshotChecks:
    """Watches the snapshots of a whole world.

    Args:
        fail: reports a broken invariant.
        committed_log: all batches that any replica ever committed.
    """

    fail: Callable[[str, str], None]
    committed_log: list[Batch]
    heads: dict[int, LogHead] = field(default_factory=dict[int, LogHead])
    """Batch identity → what the log says after it."""
    digests: dict[Offset, int] = field(default_factory=dict[Offset, int])
    """Of the state, by how much is applied."""
    compared: dict[ReplicaKey, tuple[Offset, int]] = field(
        default_factory=dict[ReplicaKey, tuple[Offset, int]]
    )
    """Where each log began, and how often it was cut, when its index was last compared."""

    def appended(self, node: SimNode, batches: tuple[Batch, ...]) -> None:
        """Note batches that will be appended to a log."""
        before = node.disk.log[-1] if node.disk.log else None
        for batch in batches:
            if id(batch) not in self.heads:
                head = self.heads[id(before)] if before else _NOTHING
                self.heads[id(batch)] = head_after(head, batch)
            before = batch

    def applied(self, node: SimNode) -> None:
        """SameState: nodes that applied as much have the same state, however they came to it."""
        machine = node.machine
        if self.digests.setdefault(machine.end, machine.digest) != machine.digest:
            self.fail("SameState", f"{node.key} has another state at {machine.end} than others")

    def made(self, node: SimNode, made: SimSnapshot) -> None:
        """SnapshotIsCommitted: it says what all that is committed below its end makes."""
        if list(made.batches) != self.committed_log[: len(made.batches)]:
            self.fail("SnapshotIsCommitted", f"{node.key}: {made.position}")
        if self.digests.get(made.end, 0) != made.state.digest or made.state.end != made.end:
            self.fail("SnapshotIsCommitted", f"{node.key}: the state is not that at {made.end}")
        expected = self.heads[id(made.batches[-1])] if made.batches else _NOTHING
        if made.head != expected:
            self.fail("SnapshotHead", f"{node.key}: {made.head}, the log says {expected}")

    def trimming(
        self, node: SimNode, start: Offset, whole: Mapping[LogPosition, SimSnapshot]
    ) -> None:
        """TrimBehindSnapshots: as many as are kept, durable here, reach what goes; no more goes."""
        covering = [
            snapshot
            for snapshot in node.disk.snapshots
            if snapshot.end >= start and snapshot.position in whole
        ]
        assert node.snapshots is not None
        wanted = 1 if node.snapshots.has_set_aside else node.snapshots.plan.retained
        if len(covering) < wanted:
            self.fail("TrimBehindSnapshots", f"{node.key}: {start}, covered by {covering}")
        committed = self.committed_log[-1].end_offset if self.committed_log else FIRST_OFFSET
        if start > committed:
            self.fail("TrimBehindSnapshots", f"{node.key}: {start}, committed is {committed}")

    def installing(self, node: SimNode, snapshot: SimSnapshot) -> None:
        """InstallKeepsCommitted: no committed record of the log that is replaced is lost."""
        covered = len(snapshot.batches)
        here = len(node.disk.log)
        if any(
            node.disk.log[position] is self.committed_log[position]
            for position in range(covered, min(here, len(self.committed_log)))
        ):
            end = node.disk.end
            self.fail("InstallKeepsCommitted", f"{node.key}: {snapshot.position} for {end}")

    def started(self, node: SimNode) -> None:
        """LogReachesSnapshot: what is trimmed stands in a snapshot that the start could read."""
        disk = node.disk
        newest = disk.snapshots[-1] if disk.snapshots else None
        if disk.start > FIRST_OFFSET and (newest is None or newest.end < disk.start):
            self.fail("LogReachesSnapshot", f"{node.key}: {disk.start}, {newest}")
        if newest is not None and list(newest.batches) != disk.log[: len(newest.batches)]:
            self.fail("SnapshotCoversLog", f"{node.key}: {newest.position}, log of {disk.end}")
        self._compare_index(node)

    def _compare_index(self, node: SimNode) -> None:
        """IndexFromLog: a log that begins with a snapshot tells the same as one that is whole."""
        assert node.core is not None
        index, disk = node.core.replica.log, node.disk
        self.compared[node.key] = (index.start, index.truncations)
        if index.has_voter_record and disk.log:
            expected = self.heads[id(disk.log[-1])]
            head = _head_of(index, expected.position)
            if head != expected:
                self.fail("IndexFromLog", f"{node.key}: {head}, the log says {expected}")
        first = disk.position(index.start)
        for batch in disk.log[max(first - 1, 0) :]:
            if index.epoch_at(batch.last_offset) != batch.epoch:
                self.fail("EpochsFromLog", f"{node.key}: {batch}, {index.epochs}")

    def after_event(self, node: SimNode) -> None:
        """AppliesAll: the state is what the core takes for applied, whatever it comes from.

        LogStart: it is committed, and a snapshot covers what is below.
        KeepsEveryRecord: where all replicas are set to, no log ever begins with a snapshot.
        """
        assert node.core is not None
        replica = node.core.replica
        if node.machine.end != replica.applicable:
            self.fail("AppliesAll", f"{node.key}: {node.machine.end} of {replica.applicable}")
        start = replica.log.start
        plan = node.world.snapshot_plan
        if start > FIRST_OFFSET and plan is not None and plan.all_keep:
            self.fail("KeepsEveryRecord", f"{node.key}: its log begins at {start}")
        if (start, replica.log.truncations) != self.compared[node.key]:
            self._compare_index(node)
        if start < node.disk.start:
            self.fail("LogStart", f"{node.key}: {start}, gone is all below {node.disk.start}")
        if start > min(replica.high_watermark, replica.applicable):
            self.fail("LogStart", f"{node.key}: {start}, committed {replica.high_watermark}")
        if start > FIRST_OFFSET and (
            replica.log.snapshot is None or replica.log.snapshot.end_offset < start
        ):
            self.fail("LogStart", f"{node.key}: {start}, snapshot {replica.log.snapshot}")

    def reads(self, node: SimNode, start: Offset) -> None:
        """ReadsWhatItHas: records are served and applied from what was not trimmed."""
        if start < node.disk.start:
            self.fail("ReadsWhatItHas", f"{node.key}: {start} of {node.disk.start}")

    def truncating(self, node: SimNode, end: Offset) -> None:
        """NoTruncationBelowSnapshot: what a snapshot here covers was committed."""
        covered = max((snapshot.end for snapshot in node.disk.snapshots), default=FIRST_OFFSET)
        if end < max(covered, node.disk.start):
            self.fail("NoTruncationBelowSnapshot", f"{node.key}: {end}, covered {covered}")


def _head_of(index: LogIndex, position: LogPosition) -> LogHead:
    """The end of the log, put as a snapshot's head would be."""
    return LogHead(
        position,
        index.voters,
        index.voter_record,
        index.raft_version,
        index.formation_completed,
        index.target_voters,
        index.target_record,
    )
