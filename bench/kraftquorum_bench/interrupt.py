"""The end of a run by Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")

CANCEL_AGAIN_S = 20.0
"""The processes of a run end within this time after an interrupt."""


async def until_interrupted(work: Coroutine[object, object, Result]) -> Result:
    """Run until the end, or until Ctrl-C or SIGTERM cancels it.

    A library may lose a cancellation that comes while it connects, so it is repeated.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def end() -> None:
        task.cancel()
        loop.call_later(CANCEL_AGAIN_S, end)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    return await work
