"""A ring reaches the other thread, once, whether it came before the wait or during it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from raftnode.runtime.process.bell import Bell

LONG_S = 30.0


@pytest.fixture
def bell() -> Iterator[Bell]:
    made = Bell()
    yield made
    made.close()


def test_a_ring_before_the_wait_is_not_lost(bell: Bell) -> None:
    bell.ring()
    bell.ring()
    bell.wait()
    bell.ring()
    bell.wait()


def test_a_ring_ends_the_wait_of_another_thread(bell: Bell) -> None:
    thread = threading.Thread(target=bell.wait, daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    bell.ring()
    thread.join(LONG_S)
    assert not thread.is_alive()


async def test_the_loop_hears_the_rings_of_another_thread_until_it_listens_no_more(
    bell: Bell,
) -> None:
    loop, heard = asyncio.get_running_loop(), []
    again = asyncio.Event()

    def hear() -> None:
        heard.append(threading.current_thread())
        again.set()

    bell.tell(loop, hear)
    for _ in range(2):
        again.clear()
        await asyncio.to_thread(bell.ring)
        async with asyncio.timeout(LONG_S):
            await again.wait()
    assert heard == [threading.current_thread()] * 2
    bell.tell_no_more(loop)
    bell.ring()
    await asyncio.sleep(0.01)
    assert len(heard) == 2
