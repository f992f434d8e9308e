"""Checks the disk on a timer: its identity (S4) and its free space (S30).

The log gives back reserved space before a disk counts as low, and before a low disk stays low.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from raftnode.runtime.disk.disk_room import DiskRoom, make_room
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log


async def watch_storage(
    directory: DataDirectory,
    log: Log,
    path: Path,
    *,
    interval_ms: int,
    reserve_bytes: int,
    on_space: Callable[[bool], None],
    on_full: Callable[[bool], None] = lambda _full: None,
    on_usage: Callable[[int, int], None] = lambda _free, _size: None,
) -> None:
    """Check until cancelled; a failure ends the task, and with it the process.

    Args:
        directory: the directory whose identity is checked.
        log: the log whose open file is checked.
        path: where the free space is measured.
        interval_ms: between two checks.
        reserve_bytes: fewer free bytes are low; twice as many end that.
        on_space: called when low begins (True) and ends (False).
        on_full: called likewise when less than a quarter of the reserve is free, until half is.
        on_usage: called with the disk's free bytes and its size at each check.

    Raises:
        StorageLostError: the directory is not the one that was opened.
    """
    low = full = False
    loop = asyncio.get_running_loop()
    # A thread of its own: in the common pool the check would wait for lookups of names.
    thread = ThreadPoolExecutor(1, thread_name_prefix="storage-watch")
    try:
        while True:
            await asyncio.sleep((interval_ms / 4 if low else interval_ms) / 1000)
            wanted_bytes = 2 * reserve_bytes + 1 if low else reserve_bytes
            room = await loop.run_in_executor(thread, _check, directory, log, path, wanted_bytes)
            free = room.free_bytes
            on_usage(free, room.size_bytes)
            if low != (free < wanted_bytes):
                low = not low
                on_space(low)
            if free < reserve_bytes // 4 if not full else free > reserve_bytes // 2:
                full = not full
                on_full(full)
    finally:
        thread.shutdown(wait=False)


def _check(directory: DataDirectory, log: Log, path: Path, wanted_bytes: int) -> DiskRoom:
    directory.check_identity()
    log.check_identity()
    return make_room(path, wanted_bytes, log)
