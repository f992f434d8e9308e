"""Time-outs that count only time in which this process could have received an answer.

An operator that was stopped, or whose machine or event loop is overloaded, receives every answer
late because of itself. By the wall clock it would consider healthy replicas silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

SLICE_S = 0.1
"""Between two readings of the clock; any longer slice is a delay of this process."""


@asynccontextmanager
async def attended(seconds: float) -> AsyncGenerator[None]:
    """Limit what is awaited inside to so much of this process's own time.

    Raises:
        TimeoutError: it took longer and was cancelled.
    """
    loop = asyncio.get_running_loop()
    left_s = seconds

    def next_slice() -> asyncio.TimerHandle:
        return loop.call_later(min(left_s, SLICE_S), look)

    def look() -> None:
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
