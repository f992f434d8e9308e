"""The room on the log's disk, with the reserved room that the log can give back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from raftnode.errors import StorageLostError
from raftnode.storage.files import free_bytes_in
from raftnode.storage.log.log import Log


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """The bytes of a disk that are free for a program without privileges, and its whole size."""

    free_bytes: int
    size_bytes: int


def make_room(path: Path, wanted_bytes: int, log: Log) -> DiskRoom:
    """Measure the free room; if it is too little, let the log give room back and measure again.

    It may block.

    Raises:
        StorageLostError: the path cannot be reached.
        StorageError: the disk failed.
    """
    room = _look(path)
    if room.free_bytes < wanted_bytes and log.give_back():
        room = _look(path)
    return room


def _look(path: Path) -> DiskRoom:
    try:
        status = os.statvfs(path)
    except OSError as error:
        raise StorageLostError(f"{path} cannot be reached: {error}") from error
    return DiskRoom(free_bytes_in(status), status.f_blocks * status.f_frsize)
