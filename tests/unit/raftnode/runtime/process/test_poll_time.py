"""Only time in the selector is idle."""

from __future__ import annotations

import asyncio
import time

import pytest

from raftnode.runtime.process.poll_time import make_loop, waited_s

pytestmark = pytest.mark.rule("P58")


async def waited_during_a_wait_and_a_block() -> tuple[float, float]:
    before = waited_s()
    assert before is not None
    await asyncio.sleep(0.3)
    between = waited_s()
    assert between is not None
    time.sleep(0.3)  # noqa: ASYNC251 - a blocked call, which uses no processor time
    after = waited_s()
    assert after is not None
    return between - before, after - between


def test_waiting_is_idle_and_a_blocked_call_is_not():
    with asyncio.Runner(loop_factory=make_loop) as runner:
        waiting, blocked = runner.run(waited_during_a_wait_and_a_block())
    assert waiting > 0.15
    assert blocked == 0


def test_wait_under_way_counts():
    async def look_from_another_thread() -> float:
        loop = asyncio.get_running_loop()
        before = waited_s()

        def look() -> float:
            time.sleep(0.3)

            async def now() -> float | None:
                return waited_s()

            return asyncio.run_coroutine_threadsafe(now(), loop).result() or 0

        return await asyncio.to_thread(look) - (before or 0)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(look_from_another_thread()) > 0.15


async def test_loop_of_another_maker_is_not_measured():
    assert waited_s() is None
