"""Giving a damaged snapshot another name, so that nothing of it is lost.

Its content may be the only one of its kind, and a read that failed may succeed tomorrow. So a
file that is replaced by a whole one of the same name gets a second name first: there is no
moment without a file under the snapshot's own name. What lives here: the names. What must not:
which snapshot is damaged, and when it may lose its own.
"""

from __future__ import annotations

import errno
from pathlib import Path

from raftnode.storage.files import FileOperationError, Files

DAMAGED_SUFFIX = ".damaged"
"""Added to the name of a snapshot that was found damaged, for a person to look at."""

_NO_SECOND_NAME = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOSPC, errno.EDQUOT}
)
"""A file system without hard links, or without room for a name."""


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

    Where the file system has no second names it keeps its own alone.

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
    """The other name; an older one that has it goes, which may be the same file.

    A crash between the two names leaves both, and a rename of one onto the other does nothing.
    """
    aside = path.with_name(path.name + DAMAGED_SUFFIX)
    if files.stat(aside) is not None:
        files.unlink(aside)
    return aside
