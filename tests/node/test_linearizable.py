"""Clients of real processes see one atomic map, though leaders are killed and stopped."""

from __future__ import annotations

import asyncio
import random
import signal
import time

import pytest

from raftnode.client import QuorumClient
from raftnode.client.errors import ClientError, NotDoneError, OutcomeUnknownError
from raftnode.testing.linearizability import History, check
from raftnode.testing.localquorum import LocalQuorum, eventually

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300), pytest.mark.rule("S11", "P43")]

KEYS = ("a", "b", "c")
CLIENTS = 6
ROUNDS = 3


class Clients:
    """Each writes values that nobody else writes, and reads, until told to stop."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self.quorum = quorum
        self.history: History[bytes] = History()
        self.stopped = False
        self.acknowledged = self.read = 0

    async def run(self, name: str) -> None:
        rng = random.Random(name)
        endpoints = [node.api for node in self.quorum.nodes[:3]]
        rng.shuffle(endpoints)
        number = 0
        async with QuorumClient(endpoints, timeout_ms=8000) as client:
            while not self.stopped:
                number += 1
                key = rng.choice(KEYS)
                if rng.random() < 0.5:
                    await self.put(client, name, key, f"{name}-{number}".encode())
                else:
                    await self.get(client, name, key)
                await asyncio.sleep(rng.random() * 0.02)

    async def put(self, client: QuorumClient, name: str, key: str, value: bytes) -> None:
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

    async def get(self, client: QuorumClient, name: str, key: str) -> None:
        call = self.history.called(key.encode(), time.monotonic(), is_write=False, client=name)
        try:
            entry = await client.get(key)
        except ClientError:
            self.history.failed(call)
            return
        value = None if entry is None else entry.value
        self.history.returned(call, time.monotonic(), value=value)
        self.read += 1


async def test_history_is_linearizable_while_leaders_are_killed_and_stopped(quorum: LocalQuorum):
    await quorum.form(3)
    clients = Clients(quorum)
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(clients.run(f"client-{at}")) for at in range(CLIENTS)]
    try:
        epochs = {(await quorum.describe()).epoch}
        for _ in range(ROUNDS):
            await asyncio.sleep(1)
            leader = await quorum.leader()
            leader.kill()
            successor = await quorum.leader()
            assert successor is not leader
            await asyncio.sleep(1)
            leader.start()
            await quorum.wait_running([leader])
            # A leader that slept through its own fall must not answer from memory.
            successor.signal(signal.SIGSTOP)
            await asyncio.sleep(4)
            successor.signal(signal.SIGCONT)
            await asyncio.sleep(1)
            epochs.add((await eventually(quorum.describe, what="a leader")).epoch)
    finally:
        clients.stopped = True
        await asyncio.gather(*tasks)
    assert len(epochs) > 1
    assert clients.acknowledged > 50
    assert clients.read > 50
    violation = check(clients.history.all())
    assert violation is None, str(violation)
    print(f"{clients.acknowledged} writes, {clients.read} reads, epochs {sorted(epochs)}")  # noqa: T201
