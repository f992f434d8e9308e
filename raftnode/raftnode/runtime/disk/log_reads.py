"""Reads the log without keeping the event loop waiting for the disk.

Recent batches are in memory; threads read the others. A read that hangs delays only its own
callers, and other readers of its kind once all threads hang.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from raftnode.core.types import Offset
from raftnode.storage.log.log import Log


class LogReader:
    """The reader for one kind of callers, which share its threads.

    Args:
        log: the log that is read.
        name: of the threads.
        threads: how many reads of a cold log go on at once.
    """

    def __init__(self, log: Log, name: str, threads: int = 1) -> None:
        self.log = log
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def read(self, start_offset: Offset, max_bytes: int, end_offset: Offset) -> bytes:
        """As `Log.read`; awaits nothing if the batches are recent.

        Raises:
            OffsetOutsideError: `start_offset` is not in the log.
            StorageError: the disk failed or holds something else.
        """
        recent = self.log.recent(start_offset, max_bytes, end_offset)
        if recent is not None:
            return recent
        return await self.read_cold(start_offset, max_bytes, end_offset)

    def read_cold(
        self, start_offset: Offset, max_bytes: int, end_offset: Offset
    ) -> asyncio.Future[bytes]:
        """Begin a read in a thread."""
        return asyncio.get_running_loop().run_in_executor(
            self._threads, self.log.read, start_offset, max_bytes, end_offset
        )

    def close(self) -> None:
        """Begin no further read and wait for the threads; blocks."""
        self._threads.shutdown(wait=True, cancel_futures=True)
