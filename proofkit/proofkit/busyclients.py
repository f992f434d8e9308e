"""Clients that write and read a few keys of a real quorum continuously, and record each operation.

`linearizability.check` judges their history. The times of the answers show how long writes and
reads stopped.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

from proofkit.linearizability import History, Operation
from proofkit.localquorum import LocalNode
from raftnode.client import QuorumClient
from raftnode.client.errors import ClientError, NotDoneError, OutcomeUnknownError

KEYS = ("a", "b", "c")
CLIENTS = 6
_PAUSE_S = 0.02
_TIMEOUT_MS = 8000


class BusyClients:
    """Each client writes unique values and reads, until the test stops it."""

    def __init__(self, nodes: Sequence[LocalNode]) -> None:
        self._nodes = nodes
        self.history: History[bytes] = History()
        self.stopped = False
        self.acknowledged = self.read = 0

    async def run(self, name: str) -> None:
        """Run one client."""
        rng = random.Random(name)
        endpoints = [node.api for node in self._nodes]
        rng.shuffle(endpoints)
        number = 0
        async with QuorumClient(endpoints, timeout_ms=_TIMEOUT_MS) as client:
            while not self.stopped:
                number += 1
                key = rng.choice(KEYS)
                if rng.random() < 0.5:
                    await self._put(client, name, key, f"{name}-{number}".encode())
                else:
                    await self._get(client, name, key)
                await asyncio.sleep(rng.random() * _PAUSE_S)

    async def _put(self, client: QuorumClient, name: str, key: str, value: bytes) -> None:
        call = self.history.called(
            key.encode(), time.monotonic(), is_write=True, value=value, client=name
        )
        try:
            await client.put(key, value)
        except OutcomeUnknownError:
            return
        except NotDoneError:
            self.history.failed(call)
            return
        self.history.returned(call, time.monotonic())
        self.acknowledged += 1

    async def _get(self, client: QuorumClient, name: str, key: str) -> None:
        call = self.history.called(key.encode(), time.monotonic(), is_write=False, client=name)
        try:
            entry = await client.get(key)
        except ClientError:
            self.history.failed(call)
            return
        value = None if entry is None else entry.value
        self.history.returned(call, time.monotonic(), value=value)
        self.read += 1

    def answered(self, *, writes: bool, called_after: float) -> list[Operation[bytes]]:
        """Return the answered writes or reads that began after a time."""
        return [
            operation
            for operation in self.history.operations
            if operation.is_write == writes and operation.called_at >= called_after
        ]

    def longest_wait(self, *, writes: bool, since: float) -> float:
        """Return the longest time between two answers since a time, in seconds."""
        times = sorted(
            operation.returned_at
            for operation in self.history.operations
            if operation.is_write == writes and operation.returned_at >= since
        )
        return max((after - before for before, after in pairwise([since, *times])), default=0.0)


@asynccontextmanager
async def busy_clients(nodes: Sequence[LocalNode]) -> AsyncGenerator[BusyClients]:
    """Run clients until the end of the block."""
    clients = BusyClients(nodes)
    async with asyncio.TaskGroup() as group:
        for at in range(CLIENTS):
            group.create_task(clients.run(f"client-{at}"))
        try:
            yield clients
        finally:
            clients.stopped = True
