"""Computes the data that a start after a crash must find, from the number of finished steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofkit.crash.history import (
    Append,
    Behind,
    Flush,
    Hold,
    Install,
    LossError,
    Read,
    Release,
    Reopen,
    Snapshot,
    Step,
    Storage,
    Trim,
    Truncate,
    Vote,
    content_from,
    state_at,
)
from raftnode.core.records import Batch
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.logformat import SnapshotId
from raftnode.runtime.snapshots.restore import restore_state


@dataclass(slots=True)
class Expected:
    """The data that the steps so far have left.

    Attributes:
        batches: written, in order, since the log began or a snapshot took its place; also those
            that were trimmed.
        base: the snapshot that the log began with, if it did.
        starts: where the log may begin.
        instead: the snapshot that perhaps has taken its place.
        durable: up to where they are acknowledged.
        floor: how short the log may be at least: what a power cut cannot take.
        states: what the vote on the disk may be.
        snapshots: that may be there, the last of which were finished.
        finished: the newest one that was.
        keeps_written: a process died, not the machine: what it wrote is there.
        held: up to where the flush under way makes durable; until it returns, nothing is sure.
        behind: the step that waits for it, perhaps done in part.
    """

    keeps_written: bool = False
    batches: list[Batch] = field(default_factory=list[Batch])
    durable: Offset = FIRST_OFFSET
    states: list[QuorumState] = field(default_factory=lambda: [QuorumState()])
    snapshots: set[SnapshotId] = field(default_factory=set[SnapshotId])
    finished: SnapshotId | None = None
    floor: Offset = FIRST_OFFSET
    base: SnapshotId | None = None
    starts: list[Offset] = field(default_factory=lambda: [FIRST_OFFSET])
    instead: SnapshotId | None = None
    held: Offset = FIRST_OFFSET
    behind: Step | None = None

    @property
    def end(self) -> Offset:
        """The end of all written batches."""
        if self.batches:
            return self.batches[-1].end_offset
        return self.base.end_offset if self.base else FIRST_OFFSET

    def _install(self, snapshot_id: SnapshotId) -> None:
        self.batches, self.base, self.instead = [], snapshot_id, None
        self.durable = self.floor = snapshot_id.end_offset
        self.starts = [snapshot_id.end_offset]
        self.snapshots.add(snapshot_id)
        self.finished = snapshot_id

    def finish(self, step: Step) -> None:
        """Note that a step is finished."""
        match step:
            case Append(batches):
                self.batches += batches
            case Flush() | Reopen():
                self.durable = self.end
            case Vote(state):
                self.states = [state]
            case Truncate(end):
                self.batches = [batch for batch in self.batches if batch.end_offset <= end]
                self.durable = min(self.durable, end)
            case Snapshot(snapshot_id):
                self.snapshots.add(snapshot_id)
                self.finished = snapshot_id
            case Trim(start):
                self.starts = [start]
            case Install(snapshot_id):
                self._install(snapshot_id)
            case Hold():
                self.held = self.end
            case Behind(step):
                self.behind = step
            case Release():
                self.durable = self.held
                if self.behind is not None:
                    self.finish(self.behind)
                self.behind = None
            case Read():
                pass
        self.floor = self.end if self.keeps_written else self.durable

    def begin(self, step: Step) -> None:
        """Note that a step began and may be unfinished: both outcomes are correct."""
        match step:
            case Append(batches):
                self.batches += batches
            case Vote(state):
                self.states.append(state)
            case Truncate(end):
                self.floor = min(self.floor, end)
            case Snapshot(snapshot_id):
                self.snapshots.add(snapshot_id)
            case Trim(start):
                self.starts.append(start)
            case Install(snapshot_id):
                self.instead = snapshot_id
            case Behind(step):
                self.begin(step)
            case Flush() | Reopen() | Hold() | Read() | Release():
                pass

    def check(self, storage: Storage) -> None:
        """Compare with a started storage.

        Raises:
            LossError: naming the first difference.
        """
        log = storage.log
        if self.instead is not None and log.start_offset == self.instead.end_offset:
            self._install(self.instead)
        if log.start_offset not in self.starts:
            raise LossError(f"the log begins at {log.start_offset}, not at one of {self.starts}")
        if not self.floor <= log.end_offset <= self.end:
            raise LossError(
                f"the log ends at {log.end_offset}, not within {self.floor} and {self.end}"
            )
        kept = [batch for batch in self.batches if batch.end_offset <= log.end_offset]
        begin = self.base.end_offset if self.base else FIRST_OFFSET
        if (kept[-1].end_offset if kept else begin) != log.end_offset:
            raise LossError(f"the log ends at {log.end_offset}, within a batch")
        epochs = self._epochs(kept, log.start_offset)
        kept = [batch for batch in kept if batch.base_offset >= log.start_offset]
        if content_from(log, log.start_offset) != b"".join(batch.data for batch in kept):
            raise LossError(f"the log up to {log.end_offset} is not what was written")
        if [(entry.epoch, entry.start_offset) for entry in log.epochs] != epochs:
            raise LossError(f"epochs {log.epochs} instead of {epochs}")
        control = [(batch.base_offset, batch.control) for batch in kept if batch.control]
        if [(batch.base_offset, batch.control) for batch in log.recovered] != control:
            raise LossError("the control batches are not those that were written")
        if storage.directory.quorum_state not in self.states:
            raise LossError(f"vote {storage.directory.quorum_state}, not one of {self.states}")
        self._check_snapshot(storage)

    def _epochs(self, kept: list[Batch], start: Offset) -> list[tuple[int, int]]:
        """Where each epoch begins; of those below the log's start the last one alone."""
        base = self.base
        epochs = [(int(base.epoch), base.end_offset - 1)] if base else []
        for batch in kept:
            if not epochs or epochs[-1][0] != batch.epoch:
                epochs.append((batch.epoch, batch.base_offset))
        below = [entry for entry in epochs if entry[1] < start]
        return [*below[-1:], *(entry for entry in epochs if entry[1] >= start)]

    def _check_snapshot(self, storage: Storage) -> None:
        store, restored = restore_state(storage.snapshots, storage.log)
        last = None if restored is None else restored.snapshot_id
        if last is None:
            if self.finished is not None:
                raise LossError(f"snapshot {self.finished} is gone")
            return
        if last not in self.snapshots or (self.finished is not None and last < self.finished):
            raise LossError(f"snapshot {last}, the last one finished was {self.finished}")
        wanted = state_at(last)
        entries = [store.get(record.key) for record in wanted]
        if len(store) != len(wanted) or [
            (entry.value, entry.offset) if entry else None for entry in entries
        ] != [(record.value, record.offset) for record in wanted]:
            raise LossError(f"snapshot {last} does not hold what it was made of")


def expected(steps: tuple[Step, ...], done: int, *, keeps_written: bool) -> Expected:
    """Return the data that must exist once some steps are finished and the next has begun."""
    made = Expected(keeps_written)
    for step in steps[:done]:
        made.finish(step)
    if made.behind is not None:
        made.begin(made.behind)
    if done < len(steps):
        made.begin(steps[done])
    return made
