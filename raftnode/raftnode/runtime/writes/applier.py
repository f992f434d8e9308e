"""Applies the committed log to the key-value store, and lets others wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import islice

from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.logformat.batch import BatchHeader, iter_batch, iter_headers
from raftnode.logformat.keyless import keyless_sizes
from raftnode.runtime.disk.log_reads import LogReader
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.log.log import Log

_CHUNK_BYTES = 256 * 1024
"""How many bytes are read in one go."""

_TURN_RECORDS = 256
"""After how many records, applied in a few milliseconds, other tasks have a turn."""

_KEYLESS_RECORDS = range(8, 4097)
"""How many records a batch has that is looked through in one go, in a few milliseconds at most: for
fewer it does not pay."""


class Applier:
    """Follows the applicable offset: committed, and durable here (S10)."""

    def __init__(self, log: Log, kv: KeyValueStore | None = None) -> None:
        self._reader = LogReader(log, "apply")
        self.kv = KeyValueStore() if kv is None else kv
        self.applied_bytes = 0
        """Bytes of the log that this process has applied."""
        self.last_timestamp_ms = -1
        """The timestamp of the last record applied; -1: none by this process."""
        self._in_batch = False
        self._applying = asyncio.Lock()
        self.high_watermark = FIRST_OFFSET
        self.applicable = FIRST_OFFSET
        self._waiters: set[asyncio.Future[None]] = set()

    def committed(self, high_watermark: Offset, applicable: Offset) -> None:
        """Note how far the log is committed; `run` does the rest."""
        self.high_watermark, self.applicable = high_watermark, applicable
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        try:
            await future
        finally:
            # On an idle quorum nothing wakes the waiters whose time ran out.
            self._waiters.discard(future)

    async def run(self) -> None:
        """Apply committed records for ever."""
        while True:
            while self.kv.next_offset >= self.applicable:
                await self._wait()
            async with self._applying:
                await self._apply_some()
            self._wake()
            await asyncio.sleep(0)

    async def _apply_some(self) -> None:
        start = self.kv.next_offset
        if start >= self.applicable:
            return  # another state was put in place while this waited
        data = await self._reader.read(start, _CHUNK_BYTES, self.applicable)
        self._in_batch = True
        applied = 0
        for step in self._apply_steps(data):
            applied += step
            if applied >= _TURN_RECORDS:
                applied = 0
                await asyncio.sleep(0)
        self._in_batch = False
        self.applied_bytes += len(data)

    def _apply_steps(self, data: bytes) -> Iterator[int]:
        """Apply batches; stop after each without keys, and after `_TURN_RECORDS` of the others.

        Yields:
            How many records were applied.
        """
        for position, header in iter_headers(data):
            if _is_keyless(header, data, position):
                # Nothing for the store, and no record is decoded.
                self.kv.skip(header.base_offset, header.last_offset)
                self.last_timestamp_ms = header.base_timestamp_ms
                yield header.record_count
                continue
            records = iter_batch(header, data[position : position + header.size])
            while turn := tuple(islice(records, _TURN_RECORDS)):
                self.kv.apply_all(turn)
                self.last_timestamp_ms = turn[-1].timestamp_ms
                yield len(turn)

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """Pause applying, and reading for it, until the end of the block."""
        async with self._applying:
            yield

    def replace(self, kv: KeyValueStore) -> None:
        """Go on from another state; only while `paused`."""
        self.kv = kv
        self._wake()

    async def between_batches(self) -> None:
        """Return when the store stands between two batches, which lasts until the next await."""
        while self._in_batch:
            await self._wait()

    def is_applied(self, offset: Offset) -> bool:
        """Whether the store has everything below `offset`."""
        return self.kv.next_offset >= offset

    async def wait_applied(self, offset: Offset, *, timeout_ms: float) -> bool:
        """Wait until the store has everything below `offset`; False: not in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self.is_applied(offset):
                    await self._wait()
        except TimeoutError:
            return False
        return True

    async def wait_applicable(self, offset: Offset, *, timeout_ms: float) -> Offset:
        """Wait until the record at `offset` is applicable, or until the time is over.

        Returns:
            The applicable offset then; at most `offset`: not in time.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while self.applicable <= offset:
                    await self._wait()
        return self.applicable

    def close(self) -> None:
        """Begin no further read and wait for the read under way; blocks."""
        self._reader.close()


def _is_keyless(header: BatchHeader, data: bytes, position: int) -> bool:
    return (
        header.record_count in _KEYLESS_RECORDS
        and keyless_sizes(header, data, position) is not None
    )
