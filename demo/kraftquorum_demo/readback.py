"""Reads everything back through the client: the whole log and the whole store."""

from dataclasses import dataclass

from raftnode.client import ListingEntry, LogRecord, QuorumClient

_PAGE_BYTES = 2 << 20
_PAGE_KEYS = 1000
_ASK_MS = 60_000
"""For each call, an election in the middle of it included."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What was read.

    Attributes:
        log: Every committed record from offset 0 on.
        kv: Every entry of the store.
        high_watermark: How far a majority confirmed the log to be committed.
    """

    log: tuple[LogRecord, ...]
    kv: tuple[ListingEntry, ...]
    high_watermark: int


async def read_back(client: QuorumClient) -> ReadBack:
    """Read the log up to a confirmed high watermark, and the store linearizably.

    No one may write meanwhile.

    Raises:
        ClientError: the quorum could not be read.
    """
    quorum = await client.describe_quorum(confirmed=True, timeout_ms=_ASK_MS)
    log: list[LogRecord] = []
    offset = 0
    while offset < quorum.high_watermark:
        page = await client.read(offset, max_bytes=_PAGE_BYTES, max_wait_ms=500, timeout_ms=_ASK_MS)
        log += page.records
        offset = page.next_offset
    kv: list[ListingEntry] = []
    after: str | None = None
    while True:
        listing = await client.list(after=after, limit=_PAGE_KEYS, timeout_ms=_ASK_MS)
        kv += listing.entries
        after = listing.next
        if after is None:
            return ReadBack(tuple(log), tuple(kv), quorum.high_watermark)
