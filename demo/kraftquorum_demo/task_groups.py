"""Runs coroutines beside each other, and raises what the first to fail raised."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast


async def run_with_background(
    script: Coroutine[Any, Any, None], *background: Coroutine[Any, Any, None]
) -> None:
    """Run a script to its end, and beside it what never ends by itself.

    What runs in the background is cancelled at the script's end. Whichever fails first
    ends all, and its failure is raised as it is, not in a group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in background]
            await script
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


async def run_together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all to their ends; the first failure ends the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    return first
