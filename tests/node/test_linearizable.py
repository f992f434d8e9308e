"""Clients of real processes see one atomic map, though leaders are killed and stopped."""

from __future__ import annotations

import asyncio
import signal

import pytest

from proofkit.busyclients import busy_clients
from proofkit.linearizability import check
from proofkit.localquorum import LocalQuorum, eventually

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300), pytest.mark.rule("S11", "P43")]

ROUNDS = 3


async def test_history_is_linearizable_while_leaders_are_killed_and_stopped(quorum: LocalQuorum):
    await quorum.form(3)
    async with busy_clients(quorum.nodes[:3]) as clients:
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
    assert len(epochs) > 1
    assert clients.acknowledged > 50
    assert clients.read > 50
    violation = check(clients.history.all())
    assert violation is None, str(violation)
    print(f"{clients.acknowledged} writes, {clients.read} reads, epochs {sorted(epochs)}")  # noqa: T201
