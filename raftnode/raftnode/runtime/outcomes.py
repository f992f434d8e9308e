"""Wait for the one outcome of a request whose deadline its client keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from raftnode.api.service import Waiting
from raftnode.errors import RequestError

T = TypeVar("T")


async def outcome_of(
    submit: Callable[[Callable[[T | RequestError], None]], Waiting], timeout_ms: int
) -> T:
    """Submit a request and wait for its outcome, until the deadline.

    Raises:
        RequestError: the outcome is an error, or the deadline has passed.
    """
    future: asyncio.Future[T | RequestError] = asyncio.get_running_loop().create_future()

    def done(outcome: T | RequestError) -> None:
        if not future.done():  # not in the very turn in which the time ran out
            future.set_result(outcome)

    waiting = submit(done)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            outcome = await future
    except TimeoutError:
        if future.done() and not future.cancelled():
            outcome = future.result()
        else:
            outcome = waiting.too_late(timeout_ms)
    except asyncio.CancelledError:
        waiting.forget()
        raise
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome
