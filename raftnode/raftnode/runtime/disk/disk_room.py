"""How much room the log's disk has, with what the log can give back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from raftnode.errors import StorageLostError
from raftnode.storage.files import free_bytes_in
from raftnode.storage.log.log import Log


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """What is free on a disk for a program without privileges, and its whole size."""

    free_bytes: int
    size_bytes: int


def make_room(path: Path, wanted_bytes: int, log: Log) -> DiskRoom:
    """Look how much is free; if less than is wanted, once the log has given back what it reserved.

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
