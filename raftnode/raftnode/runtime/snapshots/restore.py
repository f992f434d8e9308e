"""Starts the state machine from the newest snapshot that can be read, and the log behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from raftnode.core.types import FIRST_OFFSET, Epoch, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat.snapshot import SnapshotId
from raftnode.statemachine.kv import Entry, KeyValueStore
from raftnode.storage.files import FileOperationError
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.snapshot_file import SnapshotDamagedError, SnapshotFile
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage, Snapshots

_log = structlog.get_logger("raftnode")


def covered_end(snapshots: Snapshots) -> Offset:
    """The offset below which every record was committed, by any snapshot, even a damaged one.

    `restore_state` does not start from a log that lacks any of these records.
    """
    return max(
        (snapshot_id.end_offset for snapshot_id in snapshots.all_files()), default=FIRST_OFFSET
    )


def restore_state(snapshots: Snapshots, log: Log) -> tuple[KeyValueStore, SnapshotFile | None]:
    """The state to begin with: that of the newest whole snapshot, else an empty one.

    A snapshot that is damaged, or that the disk cannot read, is set aside if an older snapshot and
    the log, or the log alone, give the same state. The log must hold the records after the chosen
    snapshot, and all that any snapshot covers, even a damaged one: so no committed record is left
    out.

    Raises:
        StorageCorruptError: the log does not reach back to a whole snapshot, or it lacks
            records that a snapshot covers.
        StorageFailedError: the disk failed; or it cannot read a snapshot now, and the files that
            it can read do not suffice. Nothing was renamed then: a later start may read it.
    """
    damaged: list[SnapshotDamage] = []
    unreadable: FileOperationError | None = None
    for snapshot_id, path in snapshots.all_files().items():
        _check_covered(snapshot_id, path, log)
    for snapshot_id in reversed(snapshots.ids()):
        if snapshot_id.end_offset < log.start_offset:
            break
        reader, since_s = snapshots.reader(snapshot_id), snapshots.now_s()
        try:
            entries = ((r.key, Entry(r.value, r.offset, r.epoch)) for r in reader.records())
            store = KeyValueStore.restore(snapshot_id.end_offset, entries)
        except (SnapshotDamagedError, ValueError) as error:
            damaged.append(SnapshotDamage(snapshot_id, str(error), since_s))
            continue
        except FileOperationError as error:
            if not error.is_unreadable:
                raise
            unreadable = unreadable or error
            damaged.append(SnapshotDamage(snapshot_id, str(error), since_s))
            continue
        if reader.snapshot is not None:
            snapshots.proved(reader.snapshot)
        _set_aside(snapshots, damaged, log)
        _log.info("snapshot_loaded", snapshot=str(snapshot_id), entries=len(store))
        return store, reader.snapshot
    if log.start_offset > 0:
        _tell(damaged)
        if unreadable is not None:
            raise unreadable
        raise StorageCorruptError(
            f"{snapshots.directory}: the log begins at offset {log.start_offset} and no "
            "undamaged snapshot reaches that offset; this replica must be replaced"
        )
    _set_aside(snapshots, damaged, log)
    return KeyValueStore(), None


def _tell(damaged: Iterable[SnapshotDamage]) -> None:
    for damage in damaged:
        _log.error("snapshot_damaged", snapshot=str(damage.snapshot_id), problem=damage.problem)


def _set_aside(snapshots: Snapshots, damaged: Sequence[SnapshotDamage], log: Log) -> None:
    _tell(damaged)
    for damage in damaged:
        snapshots.set_aside(damage, log.start_offset)


def _check_covered(snapshot_id: SnapshotId, path: Path, log: Log) -> None:
    """Check that the log has what a snapshot covers, which was committed and durable here."""
    end = snapshot_id.end_offset
    if end <= log.start_offset:
        return  # the epoch before its start the log does not tell
    epoch = _epoch_before(log, end)
    if end > log.end_offset or epoch != snapshot_id.epoch:
        raise StorageCorruptError(
            f"{path} covers committed records up to offset {end} "
            f"of epoch {snapshot_id.epoch}, but the log ends at {log.end_offset} and has epoch "
            f"{epoch} there: records were lost; this replica must be replaced"
        )


def _epoch_before(log: Log, end: Offset) -> Epoch:
    return max((entry.epoch for entry in log.epochs if entry.start_offset < end), default=Epoch(-1))
