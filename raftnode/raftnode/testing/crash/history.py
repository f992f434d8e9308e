"""What a storage does until it crashes: the same for the same seed, step by step."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raftnode.core.records import Batch, LeaderChange
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Epoch, NodeId, Offset, ReplicaKey
from raftnode.storage.batch import Record, encode_control_batch, encode_data_batch, stamp
from raftnode.storage.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log import Log, LogSettings
from raftnode.storage.snapshot import SnapshotHead, SnapshotId, StateRecord
from raftnode.storage.snapshots import Snapshots

OWN = NodeId(1)
PEER = ReplicaKey(NodeId(2), uuid.UUID(int=0x5678))
NOW_MS = 5
_BEFORE_ALL = Epoch(0)


@dataclass(frozen=True, slots=True)
class Append:
    """Batches are written, not durable yet; a full segment is rolled on the way."""

    batches: tuple[Batch, ...]
    """All with their bytes."""


@dataclass(frozen=True, slots=True)
class Flush:
    """All that was written is made durable, and counts as acknowledged."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The vote of an epoch is made durable and counts as answered."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class Truncate:
    """Records from an offset on are dropped."""

    end: Offset


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the durable log is made."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class Reopen:
    """The node stops on request and starts again."""


Step = Append | Flush | Vote | Truncate | Snapshot | Reopen
SETTINGS = (
    LogSettings(segment_bytes=700, now_ms=lambda: NOW_MS),
    LogSettings(segment_bytes=9000, now_ms=lambda: NOW_MS),
)


@dataclass(slots=True)
class _Author:
    """Makes steps that a node could take: it keeps what the next one may be."""

    rng: random.Random
    batches: list[Batch] = field(default_factory=list[Batch])
    epoch: Epoch = _BEFORE_ALL
    durable: Offset = FIRST_OFFSET
    covered: Offset = FIRST_OFFSET

    @property
    def end(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else FIRST_OFFSET

    def steps(self, count: int) -> Iterator[Step]:
        """Steps, at least as many as asked for."""
        makers = (self._append, self._epoch, self._flush, self._truncate, self._snapshot)
        for number in range(count):
            if number and self.rng.random() < 0.03:
                self.durable = self.end
                yield Reopen()
            yield from self.rng.choices(makers, [6, 1, 4, 1, 1])[0]()

    def _append(self) -> Iterator[Step]:
        if not self.epoch:
            yield from self._epoch()
        made: list[Batch] = []
        for _ in range(self.rng.randint(1, 3)):
            end = made[-1].end_offset if made else self.end
            sizes = self.rng.choices([3, 40, 300, 3000], [2, 3, 3, 1], k=self.rng.randint(1, 3))
            records = [Record(b"key %d" % size, self.rng.randbytes(size)) for size in sizes]
            data = stamp(encode_data_batch(records, 7), end, self.epoch)
            made.append(Batch(end, Offset(end + len(records) - 1), self.epoch, data))
        self.batches += made
        yield Append(tuple(made))

    def _epoch(self) -> Iterator[Step]:
        """A new epoch: its vote first, as in a node, then its leader's record."""
        self.epoch = Epoch(self.epoch + self.rng.randint(1, 3))
        yield Vote(QuorumState(self.epoch, None, PEER))
        change = LeaderChange(PEER, (PEER,), (PEER,))
        bare = Batch(self.end, self.end, self.epoch, b"", (change,))
        data = encode_control_batch(bare, NOW_MS)
        batch = Batch(bare.base_offset, bare.last_offset, bare.epoch, data, bare.control)
        self.batches.append(batch)
        yield Append((batch,))

    def _flush(self) -> Iterator[Step]:
        self.durable = self.end
        yield Flush()

    def _truncate(self) -> Iterator[Step]:
        able = [one.base_offset for one in self.batches if one.base_offset >= self.covered]
        if able:
            end = self.rng.choice(able)
            self.batches = [one for one in self.batches if one.end_offset <= end]
            self.durable = min(self.durable, end)
            yield Truncate(end)

    def _snapshot(self) -> Iterator[Step]:
        ends = [one for one in self.batches if self.covered < one.end_offset <= self.durable]
        if ends:
            batch = self.rng.choice(ends)
            self.covered = batch.end_offset
            yield Snapshot(SnapshotId(batch.end_offset, batch.epoch))


def make_history(seed: int, count: int) -> tuple[Step, ...]:
    """The steps of a seed."""
    return tuple(_Author(random.Random(seed)).steps(count))


def state_at(snapshot_id: SnapshotId) -> list[StateRecord]:
    """What a snapshot holds: enough to know it by."""
    end, epoch = snapshot_id.end_offset, snapshot_id.epoch
    count = 1 + end % 5
    return [StateRecord(b"key %d" % n, b"%d" % end, Offset(end - 1), epoch) for n in range(count)]


@dataclass(slots=True)
class Storage:
    """An open storage that takes steps.

    Attributes:
        files: the file layer.
        root: the data directory.
        settings: of its log.
    """

    files: Files
    root: Path
    settings: LogSettings
    directory: DataDirectory = field(init=False)
    log: Log = field(init=False)
    snapshots: Snapshots = field(init=False)

    def __post_init__(self) -> None:
        """Open it; whatever the last crash left is recovered."""
        self.open()

    def open(self) -> None:
        """Start.

        Raises:
            RaftnodeError: it is refused.
        """
        self.directory = DataDirectory.open(self.root, OWN, self.files)
        self.log = self.directory.open_log(self.settings)
        self.snapshots = self.directory.open_snapshots(2)

    def take(self, step: Step) -> None:
        """Take a step to its end."""
        match step:
            case Append(batches):
                # As the core gives them: a control batch without its bytes.
                self.log.append(
                    [
                        Batch(one.base_offset, one.last_offset, one.epoch, b"", one.control)
                        if one.control
                        else one
                        for one in batches
                    ]
                )
            case Flush():
                self.log.flush()
            case Vote(state):
                self.directory.write_quorum_state(state)
            case Truncate(end):
                self.log.truncate(end)
            case Snapshot(snapshot_id):
                head = SnapshotHead(last_timestamp_ms=7)
                self.snapshots.write(
                    snapshot_id, head, state_at(snapshot_id), now_ms=NOW_MS, pause=_no_pause
                )
            case Reopen():
                self.close()
                self.open()

    def close(self) -> None:
        """Stop on request."""
        self.log.close()
        self.directory.close()


def _no_pause() -> None:
    """A snapshot here shares the disk with nobody."""


def run(storage: Storage, steps: tuple[Step, ...], done: Callable[[], None]) -> None:
    """Take all steps, telling after each."""
    for step in steps:
        storage.take(step)
        done()
