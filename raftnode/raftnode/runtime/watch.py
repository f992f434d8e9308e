"""Looks after the disk on a timer: is it still there (S4), and is there room (S30)?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from raftnode.storage.directory import DataDirectory
from raftnode.storage.log import Log


async def watch_storage(
    directory: DataDirectory,
    log: Log,
    path: Path,
    *,
    interval_ms: int,
    reserve_bytes: int,
    on_space: Callable[[bool], None],
) -> None:
    """Check for ever; a failure ends the task, and with it the process.

    Args:
        directory: whose identity is checked.
        log: likewise, its open file.
        path: where free space is asked for.
        interval_ms: between two checks.
        reserve_bytes: less than this free is low; it is well again at twice as much.
        on_space: told when low begins (True) and ends (False).

    Raises:
        StorageLostError: the directory is not the one that was opened.
    """
    low = False
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await asyncio.to_thread(_check, directory, log)
        free = await asyncio.to_thread(_free_bytes, path)
        if free < reserve_bytes if not low else free > 2 * reserve_bytes:
            low = not low
            on_space(low)


def _check(directory: DataDirectory, log: Log) -> None:
    directory.check_identity()
    log.check_identity()


def _free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
