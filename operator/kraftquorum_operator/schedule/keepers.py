"""One task for each quorum, which reconciles it until its resource is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

RETRY_S = 2.0
"""Pause after an error in the program, before the quorum is reconciled again."""

STOP_S = 2.0
"""How long tasks may take to finish a step when they are to stop."""


class Stopping:
    """Whether the tasks are to stop: true once it is set."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Have the tasks stop after the step that they are at."""
        self._is_set = True

    def __bool__(self) -> bool:
        return self._is_set


Keep = Callable[[str, str, str, Stopping], Awaitable[None]]
"""Reconciles a quorum, by namespace, name and UID, until it is gone or the task is to stop."""


class Keepers:
    """The tasks. A quorum that is deleted keeps its task until the resource is gone."""

    def __init__(self, keep: Keep, retry_s: float = RETRY_S, stop_s: float = STOP_S) -> None:
        self._keep = keep
        self._retry_s = retry_s
        self._stop_s = stop_s
        self._stopping = Stopping()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, namespace: str, name: str, uid: str) -> None:
        """Begin to reconcile a quorum; nothing happens if its task runs."""
        if uid in self._tasks or self._stopping:
            return
        # Not a task group: the end of one task is none of the others'.
        task = asyncio.create_task(  # noqa: TID251
            self._keep_on(namespace, name, uid), name=f"quorum {namespace}/{name}"
        )
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._tasks.pop(uid, None))

    async def stop(self) -> None:
        """Let all tasks finish their step, and cancel those that take too long."""
        self._stopping.set()
        tasks = list(self._tasks.values())
        if not tasks:
            return
        _, running = await asyncio.wait(tasks, timeout=self._stop_s)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _keep_on(self, namespace: str, name: str, uid: str) -> None:
        while not self._stopping:
            try:
                await self._keep(namespace, name, uid, self._stopping)
            except Exception:
                log.exception("reconcile_failed", namespace=namespace, quorum=name)
                await asyncio.sleep(self._retry_s)
            else:
                return
