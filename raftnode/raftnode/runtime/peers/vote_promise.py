"""The storage's memory of promises not to vote, so that a crash does not end them (S33).

Each start does not vote for as long as an earlier start may have promised (`recovery` tells the
core). So a start makes its own promise durable before it sends any message. It stores a shorter
promise than before only once the earlier promises are over.
"""

from __future__ import annotations

import asyncio

from raftnode.storage.directory.directory import DataDirectory


async def remember_promise(directory: DataDirectory, promise_ms: int) -> None:
    """Make durable for how long this start will promise, before it promises anything."""
    if promise_ms > directory.promised_ms:
        await asyncio.to_thread(directory.write_promise, promise_ms)


async def forget_promises(directory: DataDirectory, promise_ms: int) -> None:
    """Remember only this start's promise, once all promises of earlier starts are over."""
    if promise_ms < directory.promised_ms:
        await asyncio.sleep(directory.promised_ms / 1000)
        await asyncio.to_thread(directory.write_promise, promise_ms)
