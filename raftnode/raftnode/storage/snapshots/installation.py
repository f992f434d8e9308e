"""Puts a snapshot from a leader in the place of the log: all of it or nothing, over any crash.

The order: a marker names the snapshot; the whole and synced file gets its name; the log is
made empty, beginning at the snapshot's end; the marker goes. Each step is durable before the
next. A start that finds the marker and the snapshot does the rest once more, whatever was done
of it; one that finds the marker alone keeps the log as it was. So a file that has the name
already is replaced before there is a marker. Without the marker a log that ends before a
snapshot has lost records, and the node must not start: that is another case.
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
    """Say durably that the log is about to be replaced by that snapshot."""
    fields = {
        "version": 1,
        "end_offset": int(snapshot_id.end_offset),
        "epoch": int(snapshot_id.epoch),
    }
    files.replace(directory / MARKER_FILE, seal(fields))


def remove_marker(files: Files, directory: Path) -> None:
    """The log is the snapshot's now, durably."""
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
    """On a start: finish what a crash interrupted, or drop it where it had not begun.

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
    """Replace whatever stands there by a log without records that begins at a snapshot's end.

    It may be done again after a crash at any of its steps; only under the marker.
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
