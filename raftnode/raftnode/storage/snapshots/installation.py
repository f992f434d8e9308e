"""Replaces the log by a snapshot from a leader: in full or not at all, over any crash.

The steps, each durable before the next:

1. a marker names the snapshot;
2. the whole and synced file gets its name;
3. the log is made empty, beginning at the snapshot's end;
4. the marker is removed.

A start that finds the marker and the snapshot does the later steps again. A start that finds only
the marker keeps the log as it was. So a file that has the name already is replaced before there is
a marker. Another case is a log without the marker that ends before a snapshot: it has lost records,
and the node must not start.
"""

from __future__ import annotations

from pathlib import Path

from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat.epochs import EpochIndex, EpochStart
from raftnode.logformat.index import OFFSET_SUFFIX, TIME_SUFFIX
from raftnode.logformat.sealed_json import integer, seal, unseal
from raftnode.logformat.snapshot import SnapshotId
from raftnode.storage.files import Files
from raftnode.storage.log import control_places
from raftnode.storage.log.checkpoints import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    FlushedMark,
    write_log_start,
    write_recovery_point,
)
from raftnode.storage.log.control_places import write_control_places
from raftnode.storage.log.epoch_file import FILE_NAME as EPOCHS_FILE
from raftnode.storage.log.epoch_file import write_epochs
from raftnode.storage.segments.segment import SUFFIX, Segment, segment_base_offset

MARKER_FILE = "snapshot-install.json"


def write_marker(files: Files, directory: Path, snapshot_id: SnapshotId) -> None:
    """Write the marker, durably: the log is about to be replaced by that snapshot."""
    fields = {
        "version": 1,
        "end_offset": int(snapshot_id.end_offset),
        "epoch": int(snapshot_id.epoch),
    }
    files.replace(directory / MARKER_FILE, seal(fields))


def remove_marker(files: Files, directory: Path) -> None:
    """Remove the marker, durably, as the log now begins with the snapshot."""
    files.unlink(directory / MARKER_FILE)


def read_marker(files: Files, directory: Path) -> SnapshotId | None:
    """Read the marker; None if there is none.

    Raises:
        StorageCorruptError: it is damaged.
    """
    data = files.read_bytes(directory / MARKER_FILE)
    if data is None:
        return None
    try:
        fields, intact = unseal(data)
        if not intact or integer(fields, "version", 1) != 1:
            raise ValueError("its checksum or version is wrong")  # noqa: TRY301
        end, epoch = integer(fields, "end_offset", 1), integer(fields, "epoch", 0)
    except ValueError as error:
        raise StorageCorruptError(f"{directory / MARKER_FILE} is damaged: {error}") from error
    return SnapshotId(Offset(end), Epoch(epoch))


def finish_install(files: Files, directory: Path, mark: FlushedMark) -> SnapshotId | None:
    """Finish an install that a crash interrupted, or drop it if it had not begun; on a start.

    Returns:
        The snapshot that the log now begins with; None: there was nothing to finish.
    """
    snapshot_id = read_marker(files, directory)
    if snapshot_id is None:
        return None
    whole = files.stat(directory / snapshot_id.file_name) is not None
    if whole:
        empty_log(files, directory, mark, snapshot_id)
    remove_marker(files, directory)
    return snapshot_id if whole else None


def empty_log(files: Files, directory: Path, mark: FlushedMark, snapshot_id: SnapshotId) -> None:
    """Replace the files there by a log without records that begins at a snapshot's end.

    It may be repeated after a crash at any of its steps; call it only under the marker.
    """
    end = snapshot_id.end_offset
    mark.lower_to(end)
    for name in files.listdir(directory):
        if any(
            segment_base_offset(name, suffix) is not None
            for suffix in (SUFFIX, OFFSET_SUFFIX, TIME_SUFFIX)
        ):
            files.unlink(directory / name)
    write_control_places(files, directory / control_places.FILE_NAME, (), [end])
    before = EpochIndex((EpochStart(snapshot_id.epoch, Offset(end - 1)),))
    write_epochs(files, directory / EPOCHS_FILE, before)
    write_log_start(files, directory / LOG_START_FILE, end)
    Segment.create(files, directory, end).close()
    write_recovery_point(files, directory / RECOVERY_POINT_FILE, end)
