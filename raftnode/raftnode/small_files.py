"""Small files that others replace: reads them, where what could block for ever is refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_small_file(path: Path, max_bytes: int) -> bytes:
    """Read the first bytes of a regular file.

    Args:
        path: of the file; links are followed.
        max_bytes: the most that is read; a file may have more.

    Raises:
        OSError: it cannot be read, or it is a FIFO or a device, which may never end.
    """
    # A FIFO opens at once with O_NONBLOCK, and without it when another process writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    finally:
        os.close(descriptor)


def stamp_of_file(path: Path) -> tuple[int, ...] | None:
    """What changes when a file changes, or the link that leads to it; None: it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
