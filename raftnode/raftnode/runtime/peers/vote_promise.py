"""What a storage remembers of promises not to vote, so that a crash does not end them (S33).

Each start keeps still for as long as an earlier one may have promised (`recovery` tells the core).
So what a start promises itself is durable before it says a word; and less than before only once
the earlier promises are over.
"""

from __future__ import annotations

import asyncio

from raftnode.storage.directory.directory import DataDirectory


async def remember_promise(directory: DataDirectory, promise_ms: int) -> None:
    """Make durable for how long this start will promise, before it promises anything."""
    if promise_ms > directory.promised_ms:
        await asyncio.to_thread(directory.write_promise, promise_ms)


async def forget_promises(directory: DataDirectory, promise_ms: int) -> None:
    """Once all that earlier starts promised is over, remember this one's promise alone."""
    if promise_ms < directory.promised_ms:
        await asyncio.sleep(directory.promised_ms / 1000)
        await asyncio.to_thread(directory.write_promise, promise_ms)
