"""A signal reaches the other thread, once, whether it came before the wait or during it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from raftnode.runtime.process.thread_signal import ThreadSignal

LONG_S = 30.0


@pytest.fixture
def signal() -> Iterator[ThreadSignal]:
    made = ThreadSignal()
    yield made
    made.close()


def test_a_signal_before_the_wait_is_not_lost(signal: ThreadSignal) -> None:
    signal.notify()
    signal.notify()
    signal.wait()
    signal.notify()
    signal.wait()


def test_a_signal_ends_the_wait_of_another_thread(signal: ThreadSignal) -> None:
    thread = threading.Thread(target=signal.wait, daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    signal.notify()
    thread.join(LONG_S)
    assert not thread.is_alive()


async def test_the_loop_receives_the_signals_of_another_thread_until_its_callback_is_removed(
    signal: ThreadSignal,
) -> None:
    loop, calls = asyncio.get_running_loop(), []
    again = asyncio.Event()

    def receive() -> None:
        calls.append(threading.current_thread())
        again.set()

    signal.add_callback(loop, receive)
    for _ in range(2):
        again.clear()
        await asyncio.to_thread(signal.notify)
        async with asyncio.timeout(LONG_S):
            await again.wait()
    assert calls == [threading.current_thread()] * 2
    signal.remove_callback(loop)
    signal.notify()
    await asyncio.sleep(0.01)
    assert len(calls) == 2
