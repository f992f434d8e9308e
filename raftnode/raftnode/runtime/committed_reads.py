"""Reads of clients: the committed log in pages, and the key-value store as far as it is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from raftnode.api.errors import refusal
from raftnode.api.service import CommittedRecord, CommittedRecords
from raftnode.api.turns import Turns
from raftnode.core.types import Offset
from raftnode.errors import RequestError
from raftnode.logformat.batch import iter_records
from raftnode.runtime.disk.log_reads import LogReader
from raftnode.runtime.read_barrier import ReadBarrier
from raftnode.runtime.writes.applier import Applier
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.log.log import Log, OffsetOutsideError

COLD_READS_MAX = 4
"""How many reads of a cold log go on at once; one that hangs delays no other."""

READ_RECORDS_MAX = 2048
"""How many records an answer has at most, however small: each costs the loop some ten
microseconds."""

READ_BYTES_MAX = 1 << 20
"""How many bytes an answer has at most, however many are asked for; a larger record comes alone."""


class CommittedReads:
    """Serves what is committed and durable here (S10); nothing else is shown to a client.

    Args:
        log: has the records.
        applier: knows how far they are committed, and has the store.
        barrier: makes reads of the store linearizable.
        on_wait: called with the offset that a client begins to wait for.
    """

    def __init__(
        self,
        log: Log,
        applier: Applier,
        barrier: ReadBarrier,
        on_wait: Callable[[Offset], None] = lambda _: None,
    ) -> None:
        self.barrier = barrier
        self._log = log
        self._applier = applier
        self._on_wait = on_wait
        self._reader = LogReader(log, "read", COLD_READS_MAX)
        self.turns = Turns()
        """The turns of the whole node: code that makes an answer from records takes a turn, too."""

    @property
    def kv(self) -> KeyValueStore:
        """The key-value store as far as it is applied."""
        return self._applier.kv

    async def wait_readable(self, offset: Offset, *, max_wait_ms: int) -> None:
        """Wait until there is a committed record at the offset, or for so long."""
        await self._wait(offset, max_wait_ms)

    async def read(self, offset: Offset, *, max_bytes: int, max_wait_ms: int) -> CommittedRecords:
        """Read committed records; at the end of the log, wait for new ones.

        Raises:
            RequestError: OFFSET_OUT_OF_RANGE below the log start.
        """
        if offset < self._log.start_offset:
            raise _trimmed(offset, self._log.start_offset)
        end = await self._wait(offset, max_wait_ms)
        try:
            data = b""
            if offset < end:
                data = await self._reader.read(offset, min(max_bytes, READ_BYTES_MAX), end)
        except OffsetOutsideError as error:  # trimmed while it waited
            raise _trimmed(offset, error.start_offset) from None
        async with self.turns.turn():
            records = tuple(islice(_records(offset, data), READ_RECORDS_MAX))
        following = Offset(records[-1].offset + 1) if records else offset
        return CommittedRecords(
            records, following, self._applier.high_watermark, self._log.start_offset
        )

    async def _wait(self, offset: Offset, max_wait_ms: int) -> Offset:
        if max_wait_ms and self._applier.applicable <= offset:
            self._on_wait(offset)
        return await self._applier.wait_applicable(offset, timeout_ms=max_wait_ms)

    def close(self) -> None:
        """Begin no further read and wait for the reads under way; blocks."""
        self._reader.close()


def _trimmed(offset: Offset, start: Offset) -> RequestError:
    return refusal(
        "OFFSET_OUT_OF_RANGE",
        f"offset {offset} is below the log start {start}: those records were trimmed, a "
        f"snapshot covers them. Read on from offset {start}; the key-value store (GET "
        "/v1/kv) holds the newest value of each key",
    )


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
