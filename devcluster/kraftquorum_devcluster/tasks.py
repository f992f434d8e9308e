"""Background tasks that are held, and whose failures are logged, never lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class TaskSet:
    """Holds tasks until they end; `cancel_all` ends them and waits.

    The one place of this package that starts a task. A task whose result the
    caller awaits belongs in an ``asyncio.TaskGroup`` instead.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start ``work``; its failure is logged under ``name``."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task failed", task=task.get_name(), exc_info=error)

    async def cancel_all(self) -> None:
        """Cancel what still runs and wait until it is gone."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
