"""Other names for damaged snapshots, so that nothing of them is lost.

The damaged file may be the only copy of its content, and a read that failed may succeed tomorrow.
So a file that is replaced by a whole file of the same name gets a second name first: at every
moment there is a file under the snapshot's own name. This module has only the names; the store
decides which snapshot is damaged, and when it may lose its own name.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from raftnode.logformat.snapshot import SnapshotId
from raftnode.storage.files import FileOperationError, Files

DAMAGED_SUFFIX = ".damaged"
"""Added to the name of a snapshot that was found damaged, for a person to look at."""

_NUMBER = re.compile(r"(-[1-9][0-9]*)?")

_NO_SECOND_NAME = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOSPC, errno.EDQUOT}
)
"""The errors of a file system without hard links, or without room for a name."""


def list_damaged(files: Files, directory: Path) -> dict[SnapshotId, Path]:
    """The files in the directory that have a damaged snapshot's other name, in no order.

    Their size says nothing: a damaged file may be empty. A directory is not a snapshot.
    """
    damaged: dict[SnapshotId, Path] = {}
    for name in files.listdir(directory):
        own, suffix, number = name.partition(DAMAGED_SUFFIX)
        snapshot_id = SnapshotId.of(own) if suffix and _NUMBER.fullmatch(number) else None
        if snapshot_id is not None:
            status = files.stat(directory / name)
            if status is not None and not status.is_directory:
                damaged[snapshot_id] = directory / name
    return damaged


def rename_aside(files: Files, path: Path) -> None:
    """Give the file its other name instead of its own, durably; it may be gone already.

    Raises:
        FileOperationError: the disk failed.
    """
    if files.stat(path) is not None:
        aside = _freed(files, path)
        files.run("rename", path, files.calls.rename, str(path), str(aside))
        files.fsync_dir(path.parent)


def link_aside(files: Files, path: Path) -> None:
    """Give the file its other name beside its own, durably; it may be gone already.

    If the file system has no second names, the file keeps only its own.

    Raises:
        FileOperationError: the disk failed.
    """
    if files.stat(path) is None:
        return
    aside = _freed(files, path)
    try:
        files.calls.link(str(path), str(aside))
    except OSError as error:
        if error.errno in _NO_SECOND_NAME:
            return
        failure = FileOperationError("link", path, error.errno or errno.EIO)
        files.fail(failure)
        raise failure from error
    files.fsync_dir(path.parent)


def _freed(files: Files, path: Path) -> Path:
    """Return the other name after removing an older file of that name, perhaps the same file.

    A crash between the two names leaves both, and a rename of one onto the other does nothing.
    A directory of that name stays, and the file gets a numbered name.
    """
    aside, number = path.with_name(path.name + DAMAGED_SUFFIX), 1
    while (status := files.stat(aside)) is not None and status.is_directory:
        number += 1
        aside = path.with_name(f"{path.name}{DAMAGED_SUFFIX}-{number}")
    if status is not None:
        files.unlink(aside)
    return aside
