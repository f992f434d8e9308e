"""Starts tasks, holds a reference to each, and reports when a task fails.

No other module of the node calls asyncio's own task functions: a task without a reference may
vanish, and the failure of a task that is not watched goes unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Tasks:
    """A set of running tasks; the first failure is reported once."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, coroutine: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Start a task; `on_failure` gets an exception out of it."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def cancel_all(self) -> None:
        """Cancel all running tasks and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
