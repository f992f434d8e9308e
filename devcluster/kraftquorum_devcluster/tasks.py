"""Background tasks that are held, and whose failures are logged, never lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from raftnode.runtime.process.tasks import Tasks

_log = structlog.get_logger(__name__)


class TaskSet:
    """The tasks of one part of the cluster; `cancel_all` ends them and waits.

    The one place of this package that starts a task. A task whose result the
    caller awaits belongs in an ``asyncio.TaskGroup`` instead.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks = Tasks(self._failed)

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start ``work``; its failure is logged under ``name``."""
        return self._tasks(work, name=f"{self._name}/{name}")

    def _failed(self, error: BaseException) -> None:
        _log.error("task failed", part=self._name, exc_info=error)

    async def cancel_all(self) -> None:
        """Cancel what still runs and wait until it is gone."""
        await self._tasks.cancel_all()
