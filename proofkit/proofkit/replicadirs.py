"""Makes replicas' directories by the node's own storage code, and damages them.

It serves tests of the pipeline and of similar programs. It writes the same history into several
directories and changes bytes in them. The expected findings of an audit belong to the tests.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raftnode.core.records import (
    AddVoter,
    Batch,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
)
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.logformat import (
    BatchHeader,
    Record,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    encode_control_batch,
    encode_data_batch,
    read_header,
    stamp,
)
from raftnode.storage.directory.directory import DataDirectory, format_storage
from raftnode.storage.directory.identity import LOG_DIRECTORY
from raftnode.storage.files import Files
from raftnode.storage.log.log import LogSettings
from raftnode.storage.snapshots.snapshot_file import write_snapshot

CLUSTER_ID = "TestTestTestTestTestTe"
FIRST_MS = 1_700_000_000_000
STEP_MS = 40


def key_of(number: int, disk: int = 0) -> ReplicaKey:
    """The replica of a node; another disk, another replica."""
    return ReplicaKey(NodeId(number), uuid.UUID(int=0x1000 * (number + 1) + disk + 1))


def voter(key: ReplicaKey) -> Voter:
    """A replica as a voter."""
    return Voter(key, Endpoint(f"node-{key.node_id}", 9093))


@dataclass(slots=True)
class History:
    """A made-up log: batches with their bytes, and the state that follows from them."""

    batches: list[Batch] = field(default_factory=list[Batch])
    state: dict[bytes, StateRecord] = field(default_factory=dict[bytes, StateRecord])
    voters: tuple[ReplicaKey, ...] = ()
    epoch: int = 0
    written: int = 0
    states: dict[int, tuple[StateRecord, ...]] = field(
        default_factory=dict[int, tuple[StateRecord, ...]]
    )

    @property
    def end(self) -> int:
        """One past the last offset."""
        return int(self.batches[-1].end_offset) if self.batches else 0

    @property
    def now_ms(self) -> int:
        """The leader's clock."""
        return FIRST_MS + STEP_MS * len(self.batches)

    def control(self, *records: ControlRecord) -> None:
        """Append one control batch."""
        base, last = Offset(self.end), Offset(self.end + len(records) - 1)
        bare = Batch(base, last, Epoch(self.epoch), b"", records)
        data = encode_control_batch(bare, self.now_ms)
        self.batches.append(Batch(base, last, Epoch(self.epoch), data, records))

    def data(self, *records: tuple[bytes | None, bytes | None]) -> None:
        """Append one batch of keys and values."""
        base, last = Offset(self.end), Offset(self.end + len(records) - 1)
        body = encode_data_batch([Record(key, value) for key, value in records], self.now_ms)
        data = stamp(body, base, Epoch(self.epoch))
        self.batches.append(Batch(base, last, Epoch(self.epoch), data))
        for number, (key, value) in enumerate(records):
            if key is not None and value is None:
                self.state.pop(key, None)
            elif key is not None and value is not None:
                place = Offset(base + number), Epoch(self.epoch)
                self.state[key] = StateRecord(key, value, *place)

    def lead(self, leader: ReplicaKey, epoch: int) -> None:
        """Elect a replica; the first election forms the quorum."""
        self.epoch = epoch
        change = LeaderChange(leader, self.voters, self.voters)
        if self.batches:
            self.control(change)
        else:
            added = [AddVoter(voter(key)) for key in self.voters]
            self.control(change, RaftVersion(2), *added)
            self.control(FormationCompleted())

    def add(self, key: ReplicaKey) -> None:
        """Add a voter."""
        self.control(AddVoter(voter(key)))
        self.voters = (*self.voters, key)

    def remove(self, key: ReplicaKey) -> None:
        """Remove a voter."""
        self.control(RemoveVoter(key))
        self.voters = tuple(voter for voter in self.voters if voter != key)

    def write(self, batches: int, *, records: int = 2, value_bytes: int = 40) -> None:
        """Write numbered values under a few keys, with some deletions."""
        for _ in range(batches):
            pairs: list[tuple[bytes | None, bytes | None]] = []
            for _ in range(records):
                self.written += 1
                key = b"key %03d" % (self.written * 7 % 50)
                value = b"value %d " % self.written
                gone = self.written % 23 == 0
                pairs.append((key, None if gone else value.ljust(value_bytes, b".")))
            self.data(*pairs)

    def keep_state(self) -> int:
        """Remember the state here, for a snapshot; returns the offset."""
        self.states[self.end] = tuple(self.state.values())
        return self.end


def quorum_history(writes: int = 60) -> History:
    """Formed of three, grown to four by a new disk of node 1 and back, with three leaders."""
    history = History(voters=(key_of(0), key_of(1), key_of(2)))
    history.lead(key_of(0), 1)
    history.write(writes)
    history.add(key_of(1, disk=1))
    history.write(2)
    history.remove(key_of(1))
    history.write(writes // 2)
    history.lead(key_of(2), 3)
    history.write(writes // 2)
    history.keep_state()
    history.write(writes // 3)
    history.lead(key_of(0), 4)
    history.write(writes // 3)
    return history


def write_replica(
    path: Path,
    key: ReplicaKey,
    batches: Sequence[Batch],
    *,
    state: QuorumState | None = None,
    segment_bytes: int = 4000,
    cluster_id: str = CLUSTER_ID,
) -> Path:
    """Make a replica's data directory with these batches in it, through the node's own storage."""
    path.mkdir(parents=True)
    latch = Latch(cluster_id, VoterSet.of([voter(key)]))
    format_storage(path, key.node_id, directory_id=key.directory_id, latch=latch)
    directory = DataDirectory.open(path, key.node_id)
    log = directory.open_log(LogSettings(segment_bytes=segment_bytes))
    for batch in batches:
        log.append([batch])
    if state is not None:
        directory.write_quorum_state(state)
    log.close()
    directory.close()
    return path


def add_snapshot(
    path: Path,
    history: History,
    end: int,
    *,
    change: Callable[[list[StateRecord]], list[StateRecord]] = lambda records: records,
    voters: Sequence[ReplicaKey] | None = None,
) -> Path:
    """Write a snapshot of a remembered state beside a replica's log."""
    epoch = next(batch.epoch for batch in history.batches if batch.end_offset >= end)
    named = voters if voters is not None else voters_at(history, end)
    head = SnapshotHead(VoterSet.of(voter(key) for key in named), 2, formation_completed=True)
    directory = path / LOG_DIRECTORY
    snapshot_id = SnapshotId(Offset(end), epoch)
    records = change(list(history.states[end]))
    write_snapshot(Files(), directory, snapshot_id, head, records, now_ms=FIRST_MS)
    return directory / snapshot_id.file_name


def voters_at(history: History, end: int) -> list[ReplicaKey]:
    """Return the voters by the records below an offset."""
    keys: list[ReplicaKey] = []
    for batch in history.batches:
        for record in batch.control if batch.end_offset <= end else ():
            if isinstance(record, AddVoter):
                keys.append(record.voter.key)
            elif isinstance(record, RemoveVoter):
                keys.remove(record.key)
    return keys


def write_quorum(
    root: Path, history: History, *, segment_bytes: int = 4000, cluster_id: str = CLUSTER_ID
) -> list[Path]:
    """Write the last voters' directories, in order of node, each with the remembered snapshots."""
    paths: list[Path] = []
    leader = next(
        record.leader
        for batch in reversed(history.batches)
        for record in batch.control
        if isinstance(record, LeaderChange)
    )
    for key in history.voters:
        state = QuorumState(Epoch(history.epoch), leader)
        path = root / f"node-{key.node_id}"
        write_replica(
            path,
            key,
            history.batches,
            state=state,
            segment_bytes=segment_bytes,
            cluster_id=cluster_id,
        )
        for end in history.states:
            add_snapshot(path, history, end)
        paths.append(path)
    return sorted(paths)


# -- damage ------------------------------------------------------------------------


def segments(path: Path) -> list[Path]:
    """The segments of a replica, oldest first."""
    return sorted((path / LOG_DIRECTORY).glob("*.log"))


def batches_in(segment: Path) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch of a segment."""
    data, position = segment.read_bytes(), 0
    batches: list[tuple[int, BatchHeader]] = []
    while position < len(data):
        header = read_header(data, position)
        batches.append((position, header))
        position += header.size
    return batches


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def replace_batch(segment: Path, number: int, data: bytes) -> None:
    """Replace a batch of a segment by other bytes."""
    position, header = batches_in(segment)[number]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:position] + data + whole[position + header.size :])


def copy_quorum(paths: Sequence[Path], root: Path) -> list[Path]:
    """Copy the directories, for a test to damage."""
    return [Path(shutil.copytree(path, root / path.name)) for path in paths]
