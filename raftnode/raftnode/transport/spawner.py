"""How the transport starts tasks: through the owner that holds and watches them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol


class TaskSpawner(Protocol):
    """Starts a task, holds it, and learns of its failure.

    The transport cancels the tasks that it started when it closes; an exception
    out of one of them is a defect.
    """

    def __call__(self, coroutine: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Start `coroutine` on the running loop."""
        ...
