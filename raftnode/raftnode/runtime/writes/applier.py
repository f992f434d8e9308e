"""Applies the committed log to the key-value store, and lets readers wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import islice

from raftnode.api.errors import refusal
from raftnode.api.service import CommittedRecord, CommittedRecords
from raftnode.api.turns import Turns
from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.errors import RequestError
from raftnode.logformat.batch import iter_records
from raftnode.runtime.disk.log_reads import LogReader
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.log.log import Log, OffsetOutsideError

_CHUNK_BYTES = 256 * 1024
"""How many bytes are read in one go."""

_TURN_RECORDS = 256
"""How many records are applied in one go, in a few milliseconds; then other tasks have a turn."""

CLIENT_READS = 4
"""How many of the clients' reads of a cold log go on at once; one that hangs delays no other."""

READ_RECORDS_MAX = 2048
"""How many records an answer has at most, however small: each costs the loop some ten
microseconds."""

READ_BYTES_MAX = 1 << 20
"""How many bytes an answer has at most, however many are asked for; a larger record comes alone."""


def _trimmed(offset: Offset, start: Offset) -> RequestError:
    return refusal(
        "OFFSET_OUT_OF_RANGE",
        f"offset {offset} is below the log start {start}: those records were trimmed, a "
        f"snapshot covers them. Read on from offset {start}; the key-value store (GET "
        "/v1/kv) holds the newest value of each key",
    )


class Applier:
    """Follows the applicable offset: committed, and durable here (S10)."""

    def __init__(self, log: Log, kv: KeyValueStore | None = None) -> None:
        self._log = log
        self._own = LogReader(log, "apply")
        self._clients = LogReader(log, "read", CLIENT_READS)
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
        self.turns = Turns()
        """The turns of the whole node: code that makes an answer from records takes a turn, too."""

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
        data = await self._own.read(start, _CHUNK_BYTES, self.applicable)
        self._in_batch = True
        for number, record in enumerate(iter_records(data), start=1):
            if record.is_control:
                self.kv.skip(record.offset, record.offset)
            else:
                self.kv.apply(record.offset, record.key, record.value, epoch=record.epoch)
            self.last_timestamp_ms = record.timestamp_ms
            if number % _TURN_RECORDS == 0:
                await asyncio.sleep(0)
        self._in_batch = False
        self.applied_bytes += len(data)

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

    async def wait_applied(self, offset: Offset, *, timeout_ms: float) -> bool:
        """Wait until the store has everything below `offset`; False: not in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.kv.next_offset < offset:
                    await self._wait()
        except TimeoutError:
            return False
        return True

    async def read(self, offset: Offset, *, max_bytes: int, max_wait_ms: int) -> CommittedRecords:
        """Read committed records; at the end of the log, wait for new ones.

        Raises:
            RequestError: OFFSET_OUT_OF_RANGE below the log start.
        """
        if offset < self._log.start_offset:
            raise _trimmed(offset, self._log.start_offset)
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                while self.applicable <= offset:
                    await self._wait()
        except TimeoutError:
            pass
        try:
            data = b""
            if offset < self.applicable:
                size = min(max_bytes, READ_BYTES_MAX)
                data = await self._clients.read(offset, size, self.applicable)
        except OffsetOutsideError as error:  # trimmed while it waited
            raise _trimmed(offset, error.start_offset) from None
        async with self.turns.turn():
            records = tuple(islice(_records(offset, data), READ_RECORDS_MAX))
        following = Offset(records[-1].offset + 1) if records else offset
        return CommittedRecords(records, following, self.high_watermark, self._log.start_offset)

    def close(self) -> None:
        """Begin no further read and wait for the reads under way; blocks."""
        self._own.close()
        self._clients.close()


def _records(offset: Offset, data: bytes) -> Iterator[CommittedRecord]:
    for record in iter_records(data):
        if record.offset >= offset:
            yield CommittedRecord(
                record.offset,
                record.epoch,
                record.timestamp_ms,
                None if record.is_control else record.key,
                None if record.is_control else record.value,
                record.control,
            )
