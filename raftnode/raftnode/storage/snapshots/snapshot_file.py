"""Snapshot files (KIP-630): the state at one committed offset, in the log's own batches.

A file `<end offset>-<epoch>.checkpoint` stands beside the segments. It holds a header, our control
records with the state of the quorum up to there (S27: the voters are AddVoter records, never
Kafka's), the state, and a footer. Its offsets count from 0 and its epoch is the snapshot's, as in
Kafka's files.

Our own tagged fields in the header repeat the snapshot's position, which detects a file under a
wrong name, and name the record that the voters come from. Those in the footer have the number of
records of the state and the checksum of all before it. A record's own offset and epoch are record
headers. Kafka skips all of these.

The same state at the same offset makes the same bytes on every replica, so that another leader can
finish a transfer that one leader began. This module writes a snapshot; `snapshot_reader` reads it,
and `logformat.snapshot` has its name, header and footer. `snapshot_store` decides which snapshots
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

from raftnode.core.log_head import LogHead
from raftnode.core.types import (
    BASE_VOTER_RECORD,
    Offset,
)
from raftnode.errors import StorageCorruptError
from raftnode.logformat.batch import (
    Record,
    encode_control_records,
    encode_data_batch,
    stamp,
)
from raftnode.logformat.control import encode_control_record
from raftnode.logformat.snapshot import (
    SNAPSHOT_SUFFIX,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    footer_record,
    header_record,
    quorum_records,
)
from raftnode.logformat.snapshot_fields import (
    ORIGIN,
    PLACE,
)
from raftnode.storage.files import Files

PARTIAL_SUFFIX = SNAPSHOT_SUFFIX + ".part"
"""Suffix of a snapshot that was being written when the node stopped; it is never read."""

_BATCH_BYTES = 64 << 10
"""About how many bytes of keys and values stand in a batch: few enough that no call that holds the
interpreter for a whole batch delays other threads noticeably."""

_BATCH_RECORDS = 512
"""How many records stand in a batch at most, however small they are: some milliseconds of work."""

_SYNC_BYTES = 1 << 20
"""How many bytes are synced at once: on a file system that writes data with its journal, such as
ext4, the log's own fsyncs wait until the bytes of a snapshot's sync are written."""


class SnapshotDamagedError(StorageCorruptError):
    """A snapshot file that is not whole, not what its name says, or not well formed."""


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A whole snapshot.

    Attributes:
        snapshot_id: its name.
        head: the state of the quorum.
        records: of the state.
        size: of the file, bytes.
        made_ms: stamped on its batches; of ours, the time of the last record that it covers.
    """

    snapshot_id: SnapshotId
    head: SnapshotHead
    records: int
    size: int
    made_ms: int

    @property
    def log_head(self) -> LogHead | None:
        """The head for a log that begins with the snapshot; None: the file has too little."""
        head = self.head
        if head.voter_record == BASE_VOTER_RECORD:
            return None
        return LogHead(
            self.snapshot_id.position,
            head.voters,
            head.voter_record,
            head.raft_version,
            head.formation_completed,
            head.target_voters,
            head.target_record,
        )


def list_snapshots(files: Files, directory: Path) -> list[SnapshotId]:
    """The snapshots in the log's directory by their names, oldest first."""
    snapshot_ids = (SnapshotId.of(name) for name in files.listdir(directory))
    return sorted(snapshot_id for snapshot_id in snapshot_ids if snapshot_id is not None)


# -- writing ---------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    files: Files
    path: Path
    snapshot_id: SnapshotId
    timestamp_ms: int
    offset: int = 0
    position: int = 0
    synced: int = 0
    checksum: int = 0

    def write(
        self, records: Iterable[StateRecord], head: SnapshotHead, pause: Callable[[], None]
    ) -> int:
        """Write the whole content and sync it; returns how many records the state has."""
        file = self.files.open(self.path, create=True)
        try:
            file.truncate(0)

            def put(data: bytes, count: int) -> None:
                file.pwrite(data, self.position)
                self.checksum = crc32c.crc32c(data, self.checksum)
                self.position += len(data)
                self.offset += count
                if self.position - self.synced >= _SYNC_BYTES:
                    file.fdatasync()
                    self.synced = self.position

            control = [
                header_record(self.snapshot_id, head),
                *map(encode_control_record, quorum_records(head)),
            ]
            put(self._control(control), len(control))
            total = 0
            for batch in _batches(records):
                data = encode_data_batch(batch, self.timestamp_ms)
                put(stamp(data, Offset(self.offset), self.snapshot_id.epoch), len(batch))
                total += len(batch)
                pause()
            put(self._control([footer_record(total, self.checksum)]), 1)
            file.fsync()
        finally:
            file.close()
        return total

    def _control(self, records: list[tuple[bytes, bytes]]) -> bytes:
        place = Offset(self.offset), self.snapshot_id.epoch
        return encode_control_records(records, *place, self.timestamp_ms)


def write_snapshot(
    files: Files,
    directory: Path,
    snapshot_id: SnapshotId,
    head: SnapshotHead,
    records: Iterable[StateRecord],
    *,
    now_ms: int,
    pause: Callable[[], None] = lambda: None,
    make_way: Callable[[], None] = lambda: None,
) -> SnapshotFile:
    """Make a snapshot file, durably: a crash, or a full disk, leaves none or a whole one.

    Args:
        files: the file layer.
        directory: the log's.
        snapshot_id: an offset below which everything is committed and durable here, and the
            epoch of the last record below it.
        head: the state of the quorum there, from the log.
        records: the state there; read once.
        now_ms: stamped on its batches.
        pause: called after each batch; it may raise to give up.
        make_way: called when the file is durable, before it gets its name.

    Raises:
        FileOperationError: the disk has no room for the content (`is_full`); or the disk failed,
            and nothing may be written any more.
    """
    partial = directory / f"{snapshot_id}{PARTIAL_SUFFIX}"
    path = directory / snapshot_id.file_name
    try:
        with files.apart() as apart:
            writer = _Writer(apart, partial, snapshot_id, now_ms)
            total = writer.write(records, head, pause)
    except BaseException:
        if files.failure is None and files.stat(partial) is not None:
            files.unlink(partial)
        raise
    make_way()
    files.run("rename", path, files.calls.rename, str(partial), str(path))
    files.fsync_dir(directory)
    return SnapshotFile(snapshot_id, head, total, writer.position, now_ms)


def _batches(records: Iterable[StateRecord]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        origin = PLACE.pack(record.offset, record.epoch)
        batch.append(Record(record.key, record.value, ((ORIGIN, origin),)))
        size += len(record.key) + len(record.value)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_RECORDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
