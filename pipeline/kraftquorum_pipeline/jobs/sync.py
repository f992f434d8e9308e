"""Syncs files and directories, so that they survive a power cut on this machine's disks."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from kraftquorum_pipeline.errors import UnreachableError

_KNOWS_NONE = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
"""The errors of a file system that cannot sync directories."""


def sync_tree(top: Path) -> None:
    """Sync a directory and all files and directories in it.

    Raises:
        UnreachableError: the disk reports an error.
    """
    with _named(top):
        for place, _, files in os.walk(top, topdown=False):
            for name in files:
                # Spark removes its oldest files in the checkpoint meanwhile.
                with suppress(FileNotFoundError):
                    _sync(Path(place, name))
            _sync(Path(place))


def sync_entry(path: Path) -> None:
    """Sync the entry of a path: the directories above it, each of which may be new.

    The directories above its file system are left out: they existed before.

    Raises:
        UnreachableError: the disk reports an error.
    """
    with _named(path):
        for place in path.parents:
            try:
                _sync(place)
            except PermissionError:
                return  # this run has not made it
            if os.path.ismount(place):
                return


@contextmanager
def _named(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise UnreachableError(str(path), f"cannot fsync: {error.strerror or error}") from None


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _KNOWS_NONE or not path.is_dir():
            raise
    finally:
        os.close(fd)
