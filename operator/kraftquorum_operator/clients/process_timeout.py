"""Timeouts that count only time in which this process could have received an answer.

An operator that was stopped, or whose machine or event loop is overloaded, receives every answer
late because of itself. By the wall clock it would consider healthy replicas silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

SLICE_S = 0.1
"""Time between two checks; the process itself causes the delay of a longer slice."""


@asynccontextmanager
async def process_timeout(seconds: float) -> AsyncGenerator[None]:
    """Limit the body to this much of the process's own time.

    Raises:
        TimeoutError: it took longer and was cancelled.
    """
    loop = asyncio.get_running_loop()
    left_s = seconds

    def next_slice() -> asyncio.TimerHandle:
        return loop.call_later(min(left_s, SLICE_S), check)

    def check() -> None:
        nonlocal left_s, timer
        left_s -= min(left_s, SLICE_S)
        if left_s > 0:
            timer = next_slice()
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = next_slice()
        try:
            yield
        finally:
            timer.cancel()
