"""The steps of a storage until its crash, from a seed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from proofkit.crash.held_flush import HeldFlush, Holdable
from proofkit.faultdisk import FaultDisk
from raftnode.core.records import Batch, LeaderChange
from raftnode.core.state import QuorumState
from raftnode.core.types import (
    FIRST_OFFSET,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
)
from raftnode.logformat import (
    Record,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    decode_batches,
    encode_control_batch,
    encode_data_batch,
    encode_keyless_batch,
    place_finished_batch,
    read_finished_batch,
    stamp,
)
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings
from raftnode.storage.snapshots.snapshot_file import write_snapshot
from raftnode.storage.snapshots.snapshot_store import Snapshots

OWN = NodeId(1)
PEER = ReplicaKey(NodeId(2), uuid.UUID(int=0x5678))
NOW_MS = 5
RETAINED = 2
"""Snapshots that are kept."""
HEAD = SnapshotHead(
    VoterSet.of([Voter(PEER)]), 2, True, 7, voter_record=VoterRecordId(FIRST_OFFSET, Epoch(1))
)
_PIECE_BYTES = 150
"""Fetched at once: a snapshot comes in two or three pieces."""
_BEFORE_ALL = Epoch(0)


class LossError(AssertionError):
    """Durable or acknowledged data is lost, or the storage holds data that was never written."""


@dataclass(frozen=True, slots=True)
class Append:
    """Write batches without making them durable; roll a full segment."""

    batches: tuple[Batch, ...]
    """All with their bytes."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Make all written batches durable; they count as acknowledged."""


@dataclass(frozen=True, slots=True)
class Vote:
    """Make the vote of an epoch durable; it counts as answered."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop the records from an offset on."""

    end: Offset


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Make a snapshot of the durable log."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class Trim:
    """Remove the segments below an offset that two whole snapshots cover."""

    start: Offset


@dataclass(frozen=True, slots=True)
class Install:
    """Fetch a snapshot in pieces, read it, and replace the log by it."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class Reopen:
    """Stop the node on request and start it again."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Begin a flush of all written batches that does not return before `Release`."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read records from the disk, and from memory if they are there."""

    start: Offset
    data: bytes
    """From there to the end of the log."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Begin a step that must wait for the flush under way."""

    step: Append | Truncate | Install


@dataclass(frozen=True, slots=True)
class Release:
    """Let the flush return: its batches count as acknowledged, and waiting steps end."""


Step = (
    Append
    | Flush
    | Vote
    | Truncate
    | Snapshot
    | Trim
    | Install
    | Reopen
    | Hold
    | Read
    | Behind
    | Release
)
Story = Literal["plain", "trims", "slow"]
"""What a history has besides appends, flushes, votes, truncations and snapshots: nothing; a log
that goes behind snapshots and is replaced by them; that, and flushes that take long."""
STEPS: dict[Story, int] = {"plain": 30, "trims": 80, "slow": 50}
"""At least so many are in a history."""
FINISHED = 0.25
"""The share of the appended batches that clients have finished."""
SETTINGS = (
    LogSettings(segment_bytes=700, now_ms=lambda: NOW_MS),
    LogSettings(segment_bytes=9000, now_ms=lambda: NOW_MS),
)


def preallocates(seed: int) -> bool:
    """Whether the log of a seed reserves room for its segments; a quarter of the logs do."""
    return seed % 8 in {2, 3}


def settings_of(seed: int) -> LogSettings:
    """Of the log of a seed."""
    return replace(SETTINGS[seed % 2], preallocate=preallocates(seed))


@dataclass(slots=True)
class _Author:
    """Makes steps that a node could take: it keeps what the next one may be."""

    rng: random.Random
    is_slow: bool = False
    batches: list[Batch] = field(default_factory=list[Batch])
    epoch: Epoch = _BEFORE_ALL
    durable: Offset = FIRST_OFFSET
    covered: Offset = FIRST_OFFSET
    segments: _Segments | None = None
    """Kept where the log is trimmed: it goes by whole segments."""
    base: Offset = FIRST_OFFSET
    """Where the log begins that the batches are of."""
    whole: list[Offset] = field(default_factory=list[Offset])
    """Ends of the last snapshots that this start has written or read, at most two."""

    @property
    def end(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.base

    def steps(self, count: int) -> Iterator[Step]:
        """Steps, at least as many as asked for."""
        makers = (self._append, self._epoch, self._flush, self._truncate, self._snapshot)
        weights = [6, 1, 4, 1, 1]
        if self.segments is not None:
            makers, weights = (*makers, self._trim, self._install), [6, 1, 6, 1, 8, 8, 1]
        if self.is_slow:
            makers, weights = (*makers, self._slow), [*weights, 12]
        for number in range(count):
            if number and self.rng.random() < 0.03:
                self.durable = self.end
                self.whole.clear()
                yield Reopen()
            yield from self.rng.choices(makers, weights)[0]()

    def _append(self) -> Iterator[Step]:
        if not self.epoch:
            yield from self._epoch()
        made: list[Batch] = []
        for _ in range(self.rng.randint(1, 3)):
            end = made[-1].end_offset if made else self.end
            data, count = self._finished() if self.rng.random() < FINISHED else self._gathered()
            data = stamp(data, end, self.epoch)
            made.append(Batch(end, Offset(end + count - 1), self.epoch, data))
        yield self._appended(tuple(made))

    def _gathered(self) -> tuple[bytes, int]:
        """A batch that the leader encodes, and the number of its records."""
        sizes = self.rng.choices([3, 40, 300, 3000], [2, 3, 3, 1], k=self.rng.randint(1, 3))
        records = [Record(b"key %d" % size, self.rng.randbytes(size)) for size in sizes]
        return encode_data_batch(records, 7), len(records)

    def _finished(self) -> tuple[bytes, int]:
        """A batch that a client has finished: many records without keys."""
        sizes = self.rng.choices([0, 3, 40, 300], k=self.rng.randint(8, 60))
        data = encode_keyless_batch([self.rng.randbytes(size) for size in sizes], 0)
        return place_finished_batch(read_finished_batch(data, len(sizes)), 7), len(sizes)

    def _appended(self, made: tuple[Batch, ...]) -> Append:
        self.batches += made
        if self.segments is not None:
            for batch in made:
                self.segments.add(batch)
        return Append(made)

    def _epoch(self) -> Iterator[Step]:
        """A new epoch: its vote first, as in a node, then its leader's record."""
        self.epoch = Epoch(self.epoch + self.rng.randint(1, 3))
        yield Vote(QuorumState(self.epoch, None, PEER))
        change = LeaderChange(PEER, (PEER,), (PEER,))
        bare = Batch(self.end, self.end, self.epoch, b"", (change,))
        data = encode_control_batch(bare, NOW_MS)
        batch = Batch(bare.base_offset, bare.last_offset, bare.epoch, data, bare.control)
        yield self._appended((batch,))

    def _flush(self) -> Iterator[Step]:
        self.durable = self.end
        yield Flush()

    def _truncate(self) -> Iterator[Step]:
        able = [batch.base_offset for batch in self.batches if batch.base_offset >= self.covered]
        if able:
            end = self.rng.choice(able)
            self.batches = [batch for batch in self.batches if batch.end_offset <= end]
            self.durable = min(self.durable, end)
            if self.segments is not None:
                self.segments.cut(end, self.batches)
            yield Truncate(end)

    def _snapshot(self) -> Iterator[Step]:
        ends = [batch for batch in self.batches if self.covered < batch.end_offset <= self.durable]
        if ends:
            batch = self.rng.choice(ends)
            self._is_whole(batch.end_offset)
            yield Snapshot(SnapshotId(batch.end_offset, batch.epoch))

    def _slow(self) -> Iterator[Step]:
        """A flush that takes long, and what a node does meanwhile."""
        assert self.segments is not None
        if self.durable == self.end:
            yield from self._append()
        yield Hold()
        held, waits = self.end, False
        makers = (self._append, self._epoch, self._snapshot, self._trim, self._read)
        for _ in range(self.rng.randint(1, 5)):
            segments = len(self.segments.bases)
            for step in self.rng.choices(makers, [6, 1, 2, 2, 3])[0]():
                # A segment that is full is synced before the next one is begun.
                waits = isinstance(step, Append) and len(self.segments.bases) > segments
                yield Behind(step) if isinstance(step, Append) and waits else step
            if waits:
                break
        self.durable = held
        if not waits and self.rng.random() < 0.5:
            for step in self.rng.choices((self._truncate, self._install), [4, 1])[0]():
                yield Behind(step) if isinstance(step, Truncate | Install) else step
        yield Release()

    def _read(self) -> Iterator[Step]:
        assert self.segments is not None
        there = [batch for batch in self.batches if batch.base_offset >= self.segments.bases[0]]
        if there:
            read = there[self.rng.randrange(len(there)) :]
            yield Read(read[0].base_offset, b"".join(batch.data for batch in read))

    def _is_whole(self, end: Offset) -> None:
        self.covered = end
        self.whole = [*self.whole[-1:], end]

    def _trim(self) -> Iterator[Step]:
        assert self.segments is not None
        if len(self.whole) == RETAINED:
            start = self.segments.holding(self.whole[0])
            if start > self.segments.bases[0]:
                self.segments.trim(start)
                yield Trim(start)

    def _install(self) -> Iterator[Step]:
        """From a leader that is ahead, or of a later epoch in which this log's end was given up."""
        assert self.segments is not None
        end = self.rng.randint(self.covered + 1, self.end + 50)
        if end <= self.end or not self.epoch:
            self.epoch = Epoch(self.epoch + 1)
            yield Vote(QuorumState(self.epoch, None, PEER))
        self.base = self.durable = Offset(end)
        self.batches.clear()
        self.segments = _Segments(self.segments.size_max, self.base)
        self._is_whole(self.base)
        yield Install(SnapshotId(self.base, self.epoch))


@dataclass(slots=True)
class _Segments:
    """Where the segments of a log begin: the rule of a roll once more, in its own words.

    Attributes:
        size_max: bytes, from which on a batch begins a new one.
        start: where the first begins.
    """

    size_max: int
    start: Offset = FIRST_OFFSET
    bases: list[Offset] = field(init=False)
    size: int = 0
    """Of the last one, bytes."""

    def __post_init__(self) -> None:
        """Begin with one."""
        self.bases = [self.start]

    def add(self, batch: Batch) -> None:
        if self.size and self.size + len(batch.data) > self.size_max:
            self.bases.append(batch.base_offset)
            self.size = 0
        self.size += len(batch.data)

    def cut(self, end: Offset, kept: list[Batch]) -> None:
        self.bases = [base for base in self.bases if base <= end]
        last = self.bases[-1]
        self.size = sum(len(batch.data) for batch in kept if batch.base_offset >= last)

    def holding(self, offset: Offset) -> Offset:
        return max((base for base in self.bases if base <= offset), default=self.bases[0])

    def trim(self, start: Offset) -> None:
        self.bases = [base for base in self.bases if base >= start]


def make_history(seed: int, story: Story = "plain") -> tuple[Step, ...]:
    """Return the steps of a seed."""
    segments = None if story == "plain" else _Segments(settings_of(seed).segment_bytes)
    author = _Author(random.Random(seed), story == "slow", segments=segments)
    return tuple(author.steps(STEPS[story]))


def state_at(snapshot_id: SnapshotId) -> list[StateRecord]:
    """Return the content of a snapshot, which differs for each snapshot."""
    end, epoch = snapshot_id.end_offset, snapshot_id.epoch
    count = 1 + end % 5
    return [StateRecord(b"key %d" % n, b"%d" % end, Offset(end - 1), epoch) for n in range(count)]


@cache
def content_of(snapshot_id: SnapshotId) -> bytes:
    """Return the file of a snapshot, as a leader has it."""
    disk, there = FaultDisk(random.Random(0)), Path("/leader")
    disk.make_directory(there)
    write_snapshot(Files(disk), there, snapshot_id, HEAD, state_at(snapshot_id), now_ms=NOW_MS)
    return disk.content(there / snapshot_id.file_name)


@dataclass(slots=True)
class Storage:
    """An open storage that takes steps.

    Attributes:
        files: the file layer.
        root: the data directory.
        settings: of its log.
        calls: what its files are made of, so that a flush can be held.
    """

    files: Files
    root: Path
    settings: LogSettings
    calls: Holdable | None = None
    held: HeldFlush | None = field(init=False, default=None)
    directory: DataDirectory = field(init=False)
    log: Log = field(init=False)
    snapshots: Snapshots = field(init=False)

    def __post_init__(self) -> None:
        """Open the storage; it recovers what the last crash left."""
        self.open()

    def open(self) -> None:
        """Start.

        Raises:
            RaftnodeError: it is refused.
        """
        self.directory = DataDirectory.open(self.root, OWN, self.files)
        self.log = self.directory.open_log(self.settings)
        self.snapshots = self.directory.open_snapshots(RETAINED)

    def take(self, step: Step) -> None:
        """Take a step to its end; after a failure no thread continues."""
        try:
            self._take(step)
        except BaseException:
            if self.held is not None:
                self.held.end()
            raise

    def _take(self, step: Step) -> None:
        match step:
            case Append(batches):
                # As the core gives them: a control batch without its bytes.
                self.log.append(
                    [
                        Batch(batch.base_offset, batch.last_offset, batch.epoch, b"", batch.control)
                        if batch.control
                        else batch
                        for batch in batches
                    ]
                )
            case Flush():
                self.log.flush()
            case Vote(state):
                self.directory.write_quorum_state(state)
            case Truncate(end):
                self.log.truncate(end)
            case Snapshot(snapshot_id):
                self.snapshots.write(
                    snapshot_id, HEAD, state_at(snapshot_id), now_ms=NOW_MS, pause=_no_pause
                )
            case Trim(start):
                assert self.log.trim_target(self.snapshots.covered(), 0) == start
                self.log.trim(start)
            case Install(snapshot_id):
                self._install(snapshot_id)
            case Reopen():
                self.close()
                self.open()
            case Hold():
                assert self.calls is not None
                self.held = HeldFlush(self.calls, self.log.flush)
            case Read(start, data):
                self._read(start, data)
            case Behind(step):
                assert self.held is not None
                self.held.begin_behind(lambda: self._take(step))
            case Release():
                assert self.held is not None
                held, self.held = self.held, None
                held.release()

    def _read(self, start: Offset, data: bytes) -> None:
        """Read and compare.

        Raises:
            LossError: it is something else.
        """
        read = content_from(self.log, start)
        recent = self.log.recent(start, len(data), self.log.end_offset)
        if read != data or recent not in {None, data}:
            raise LossError(f"what is read from offset {start} on is not what was written")

    def _install(self, snapshot_id: SnapshotId) -> None:
        content, incoming = content_of(snapshot_id), self.snapshots.incoming
        for position in range(0, len(content), _PIECE_BYTES):
            incoming.store(snapshot_id, position, content[position : position + _PIECE_BYTES])
        reader = incoming.reader(snapshot_id)
        assert list(reader.records()) == state_at(snapshot_id)
        assert reader.snapshot is not None
        self.snapshots.install(self.log, reader.snapshot)

    def close(self) -> None:
        """Stop on request."""
        self.log.close()
        self.directory.close()


def content_from(log: Log, start: Offset) -> bytes:
    """Return the bytes of the log from an offset on."""
    parts: list[bytes] = []
    offset = start
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset)
        parts.append(data)
        offset = decode_batches(data)[-1].end_offset
    return b"".join(parts)


Span = tuple[str, range]
"""A kind of step, in small letters, and the calls of one of them."""


def spans(
    storage: Storage, steps: tuple[Step, ...], calls: Callable[[], int], kinds: tuple[type, ...]
) -> list[Span]:
    """Take all steps; return the calls that the steps of some kinds made."""
    ranges: list[Span] = []
    for step in steps:
        before = calls()
        storage.take(step)
        if isinstance(step, kinds):
            ranges.append((type(step).__name__.lower(), range(before, calls())))
    return ranges


def _no_pause() -> None:
    """A snapshot here has the disk to itself."""


def run(storage: Storage, steps: tuple[Step, ...], done: Callable[[], None]) -> None:
    """Take all steps; report each."""
    for step in steps:
        storage.take(step)
        done()
