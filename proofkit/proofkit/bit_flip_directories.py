"""Data directories for the tests of bit flips: killed, stopped, trimmed and marked replicas.

Each is a disk in memory that no replica uses. `read_all` starts a node on it.
"""

from __future__ import annotations

import contextlib
import errno
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.core.records import Batch, LeaderChange
from raftnode.core.replication.peer_memory import Mark
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey, Voter, VoterRecordId, VoterSet
from raftnode.errors import StorageCorruptError, StorageFailedError
from raftnode.logformat import (
    Record,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    decode_batches,
    encode_data_batch,
    iter_records,
    stamp,
)
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.directory.directory import DataDirectory, format_storage
from raftnode.storage.directory.identity import FORMATTING_FILE, LOG_DIRECTORY
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings
from raftnode.storage.snapshots.damaged_snapshots import DAMAGED_SUFFIX
from raftnode.storage.snapshots.installation import write_marker
from raftnode.storage.snapshots.snapshot_file import write_snapshot

ROOT = Path("/data")
LOG = ROOT / LOG_DIRECTORY
ONE = ReplicaKey(NodeId(1), uuid.UUID(int=0x1234))
TWO = ReplicaKey(NodeId(2), uuid.UUID(int=0x5678))
LATCH = Latch("cluster", VoterSet.of([Voter(ONE), Voter(TWO)]))
END = 24
"""Of the log."""
SNAPSHOT_ENDS = (12, 17)
FETCHED = SnapshotId(Offset(40), Epoch(3))
"""The snapshot that is about to take the place of the log in `make_installing`."""
SETTINGS = LogSettings(segment_bytes=900, now_ms=lambda: 5)
SMALL = LogSettings(segment_bytes=400, now_ms=lambda: 5)
"""Two batches a segment: some bases of segments differ by one bit."""


@dataclass(frozen=True)
class Content:
    """The content of a directory as a start reads it.

    Attributes:
        identity: the replica, its promises, and the peers that it knows.
        start: where the log begins.
        log: what the log holds: its epochs, its control batches, all its bytes.
        state: keys and values as of the log's end.
        again: files of it were made again, or a torn tail was cut off.
        aside: a snapshot was set aside.
    """

    identity: tuple[object, ...]
    start: Offset
    log: tuple[object, ...]
    state: str
    batches: bytes
    again: bool = False
    aside: bool = False


def _data(base: int, epoch: int) -> Batch:
    value = random.Random(base).randbytes(60)
    data = encode_data_batch([Record(b"key %d" % (base % 7), value)], 7)
    return Batch(
        Offset(base), Offset(base), Epoch(epoch), stamp(data, Offset(base), Epoch(epoch)), ()
    )


def _fold(store: KeyValueStore, log: Log, end: int) -> KeyValueStore:
    """What the log makes of a state."""
    for data in _pieces(log, store.next_offset, end):
        for batch in decode_batches(data):
            if batch.control:
                store.skip(batch.base_offset, batch.last_offset)
            for record in iter_records(batch.data) if not batch.control else ():
                store.apply(record.offset, record.key, record.value, epoch=record.epoch)
    return store


def _pieces(log: Log, start: int, end: int) -> Iterator[bytes]:
    offset = Offset(start)
    while offset < end:
        data = log.read(offset, 1, Offset(end))
        yield data
        offset = decode_batches(data)[-1].end_offset


def _entries(store: KeyValueStore) -> list[StateRecord]:
    entries = [(key, store.get(key)) for key in store.scan()]
    return [
        StateRecord(key, entry.value, entry.offset, entry.epoch) for key, entry in entries if entry
    ]


def _head() -> SnapshotHead:
    return SnapshotHead(
        LATCH.voters,
        2,
        formation_completed=True,
        last_timestamp_ms=7,
        voter_record=VoterRecordId(Offset(0), Epoch(1)),
    )


def make_directory(*, clean: bool, trimmed: bool = False) -> FaultDisk:
    """A replica's directory with some segments, two epochs, a vote, a latch and two snapshots.

    Args:
        clean: stopped on request; else killed, so that the last segment is read at the start.
        trimmed: the log begins where the older snapshot ends.
    """
    disk, files = _formatted()
    directory = DataDirectory.open(ROOT, ONE.node_id, files)
    directory.write_peer_marks({TWO: Mark(3, "0123456789abcdef")})
    log = directory.open_log(SMALL if trimmed else SETTINGS)
    for base in range(END):
        epoch = Epoch(1 if base < 11 else 2)
        if base in {0, 11}:
            directory.write_quorum_state(QuorumState(epoch, ONE, ONE))
            change = LeaderChange(ONE, (ONE, TWO), (ONE,))
            log.append([Batch(Offset(base), Offset(base), epoch, b"", (change,))])
        else:
            log.append([_data(base, epoch)])
    log.flush()
    snapshots = directory.open_snapshots(2)
    for end in SNAPSHOT_ENDS:
        entries = _entries(_fold(KeyValueStore(), log, end))
        snapshot_id = SnapshotId(Offset(end), Epoch(2))
        snapshots.write(snapshot_id, _head(), entries, now_ms=5, pause=lambda: None)
    if trimmed:
        log.trim(log.trim_target(snapshots.covered(), 0))
    if clean:
        log.close()
        directory.close()
    disk.kill()
    return disk


def make_installing() -> FaultDisk:
    """Make a directory that crashed while a fetched snapshot replaced the log: both are there."""
    disk = make_directory(clean=False)
    files = Files(disk)
    entries = [StateRecord(b"key 1", b"fetched", Offset(30), Epoch(3))]
    write_marker(files, LOG, FETCHED)
    write_snapshot(files, LOG, FETCHED, _head(), entries, now_ms=5)
    directory = DataDirectory.open(ROOT, ONE.node_id, files)
    directory.write_quorum_state(QuorumState(Epoch(3), TWO, None))
    disk.kill()
    return disk


def make_marked(mark: str) -> FaultDisk:
    """Make a directory that a start always refuses.

    Args:
        mark: `stale` or `corrupt`.
    """
    disk = make_directory(clean=True)
    directory = DataDirectory.open(ROOT, ONE.node_id, Files(disk))
    if mark == "stale":
        directory.mark_stale("a peer has seen more of it")
    else:
        directory.set_aside(StorageCorruptError("a batch of last year"))
    disk.kill()
    return disk


def make_formatting() -> FaultDisk:
    """Make a directory that crashed in the last step of a format with a latch."""
    disk = FaultDisk(random.Random(1))
    disk.make_directory(ROOT)
    disk.faults.append(Fault("unlink", errno.EIO, path_part=FORMATTING_FILE))
    with contextlib.suppress(StorageFailedError):
        _format(Files(disk))
    disk.kill()
    return disk


def _formatted() -> tuple[FaultDisk, Files]:
    disk = FaultDisk(random.Random(1))
    disk.make_directory(ROOT)
    files = Files(disk)
    _format(files)
    return disk, files


def _format(files: Files) -> None:
    format_storage(ROOT, ONE.node_id, files=files, directory_id=ONE.directory_id, latch=LATCH)


def read_all(disk: FaultDisk) -> Content:
    """Start on a disk and read everything.

    Raises:
        RaftnodeError: it was refused.
    """
    files = Files(disk)
    directory = DataDirectory.open(ROOT, ONE.node_id, files)
    log = directory.open_log(SETTINGS)
    store, _ = restore_state(directory.open_snapshots(2), log)
    batches = b"".join(_pieces(log, log.start_offset, log.end_offset))
    _fold(store, log, log.end_offset)
    return Content(
        (
            directory.key,
            directory.quorum_state,
            directory.latch,
            directory.cluster_id,
            directory.peer_marks,
            directory.incarnation,
            log.end_offset,
        ),
        log.start_offset,
        (log.epochs, log.recovered),
        repr(_entries(store)),
        batches,
        again=bool(log.rebuilt) or log.torn_tail is not None,
        aside=any(name.endswith(DAMAGED_SUFFIX) for name in disk.listdir(str(LOG))),
    )
