"""What a start after a crash must find, given how many steps were taken to their end."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftnode.core.records import Batch
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.runtime.snapshotting import restore_state
from raftnode.storage.batch import decode_batches
from raftnode.storage.log import Log
from raftnode.storage.snapshot import SnapshotId
from raftnode.testing.crash.history import (
    Append,
    Flush,
    Reopen,
    Snapshot,
    Step,
    Storage,
    Truncate,
    Vote,
    state_at,
)


class LossError(AssertionError):
    """What was durable, acknowledged or answered is not there; or what is was never written."""


@dataclass(slots=True)
class Expected:
    """What the steps so far have left.

    Attributes:
        batches: written, in order.
        durable: up to where they are acknowledged.
        floor: how short the log may be at least: what a power cut cannot take.
        states: what the vote on the disk may be.
        snapshots: that may be there, the last of which were finished.
        finished: the newest one that was.
        keeps_written: a process died, not the machine: what it wrote is there.
    """

    keeps_written: bool = False
    batches: list[Batch] = field(default_factory=list[Batch])
    durable: Offset = FIRST_OFFSET
    states: list[QuorumState] = field(default_factory=lambda: [QuorumState()])
    snapshots: set[SnapshotId] = field(default_factory=set[SnapshotId])
    finished: SnapshotId | None = None
    floor: Offset = FIRST_OFFSET

    @property
    def end(self) -> Offset:
        """End of all that was written."""
        return self.batches[-1].end_offset if self.batches else FIRST_OFFSET

    def finish(self, step: Step) -> None:
        """A step was taken to its end."""
        match step:
            case Append(batches):
                self.batches += batches
            case Flush() | Reopen():
                self.durable = self.end
            case Vote(state):
                self.states = [state]
            case Truncate(end):
                self.batches = [one for one in self.batches if one.end_offset <= end]
                self.durable = min(self.durable, end)
            case Snapshot(snapshot_id):
                self.snapshots.add(snapshot_id)
                self.finished = snapshot_id
        self.floor = self.end if self.keeps_written else self.durable

    def begin(self, step: Step) -> None:
        """A step was begun and perhaps not finished: either outcome will do."""
        match step:
            case Append(batches):
                self.batches += batches
            case Vote(state):
                self.states.append(state)
            case Truncate(end):
                self.floor = min(self.floor, end)
            case Snapshot(snapshot_id):
                self.snapshots.add(snapshot_id)
            case Flush() | Reopen():
                pass

    def check(self, storage: Storage) -> None:
        """Compare with what a start found.

        Raises:
            LossError: naming the first difference.
        """
        log = storage.log
        if not self.floor <= log.end_offset <= self.end:
            raise LossError(
                f"the log ends at {log.end_offset}, not within {self.floor} and {self.end}"
            )
        kept = [one for one in self.batches if one.end_offset <= log.end_offset]
        if (kept[-1].end_offset if kept else 0) != log.end_offset:
            raise LossError(f"the log ends at {log.end_offset}, within a batch")
        if _content(log) != b"".join(one.data for one in kept):
            raise LossError(f"the log up to {log.end_offset} is not what was written")
        starts: list[tuple[int, int]] = []
        for one in kept:
            if not starts or starts[-1][0] != one.epoch:
                starts.append((one.epoch, one.base_offset))
        if [(one.epoch, one.start_offset) for one in log.epochs] != starts:
            raise LossError(f"epochs {log.epochs} instead of {starts}")
        control = [(one.base_offset, one.control) for one in kept if one.control]
        if [(one.base_offset, one.control) for one in log.recovered] != control:
            raise LossError("the control batches are not those that were written")
        if storage.directory.quorum_state not in self.states:
            raise LossError(f"vote {storage.directory.quorum_state}, not one of {self.states}")
        self._check_snapshot(storage)

    def _check_snapshot(self, storage: Storage) -> None:
        store, found = restore_state(storage.snapshots, storage.log)
        last = None if found is None else found.snapshot_id
        if last is None:
            if self.finished is not None:
                raise LossError(f"snapshot {self.finished} is gone")
            return
        if last not in self.snapshots or (self.finished is not None and last < self.finished):
            raise LossError(f"snapshot {last}, the last one finished was {self.finished}")
        wanted = state_at(last)
        entries = [store.get(one.key) for one in wanted]
        if len(store) != len(wanted) or [
            (entry.value, entry.offset) if entry else None for entry in entries
        ] != [(one.value, one.offset) for one in wanted]:
            raise LossError(f"snapshot {last} does not hold what it was made of")


def _content(log: Log) -> bytes:
    parts: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset)
        parts.append(data)
        offset = decode_batches(data)[-1].end_offset
    return b"".join(parts)


def expected(steps: tuple[Step, ...], done: int, *, keeps_written: bool) -> Expected:
    """What must be found once so many steps were finished and the next one was begun."""
    made = Expected(keeps_written)
    for step in steps[:done]:
        made.finish(step)
    if done < len(steps):
        made.begin(steps[done])
    return made
