"""Our load generator, a process of its own: `python -m kraftquorum_bench.loadprocess`.

Standard input has two lines: an `Errand`, then `go`. It prints `ready` once it is connected, and at
the end a `LoadResult`. So what counts the processor time of servers need not count its start.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from itertools import count

from kraftquorum_bench.callers import ATTEMPT_ERRORS, Caller, open_caller, pause_after_error
from kraftquorum_bench.loads import Errand, LoadResult
from kraftquorum_bench.rounds import quantile


class _Clients:
    """All clients of an errand."""

    def __init__(self, errand: Errand, caller: Caller) -> None:
        self._errand, self._caller = errand, caller
        self._numbers = count() if errand.total is None else iter(range(errand.total))
        self.taken_s: list[float] = []
        self.answered_at_s: list[float] = []
        self.errors = 0

    async def run(self, client: int, end_s: float) -> None:
        """Call until the time is over or all is done; an operation that has begun is ended."""
        for number in self._numbers:
            began_s = time.monotonic()
            if began_s >= end_s:
                return
            try:
                await self._caller(client, number)
            except ATTEMPT_ERRORS:
                self.errors += 1
                if not self._errand.keeps_on:
                    raise
                await pause_after_error()
                continue
            answered_at_s = time.monotonic()
            self.taken_s.append(answered_at_s - began_s)
            if self._errand.timeline:
                self.answered_at_s.append(answered_at_s)


async def run_clients(errand: Errand, caller: Caller) -> LoadResult:
    """Let the clients of an errand call.

    Raises:
        ValueError: nothing was answered.
        ExceptionGroup: an operation failed and the errand does not keep on.
    """
    clients = _Clients(errand, caller)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for client in range(errand.load.clients):
            group.create_task(clients.run(client, began_s + errand.seconds))
    seconds, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    ordered = sorted(clients.taken_s)
    return LoadResult(
        operations=len(ordered),
        errors=clients.errors,
        seconds=seconds,
        p50_ms=quantile(ordered, 0.5) * 1000,
        p99_ms=quantile(ordered, 0.99) * 1000,
        client_cpu_us=cpu_s * 1e6,
        answered_at_s=tuple(clients.answered_at_s),
    )


async def serve() -> None:
    """Do the errand of standard input."""
    errand = Errand.model_validate_json(sys.stdin.readline())
    async with AsyncExitStack() as stack:
        caller = await open_caller(errand, stack)
        if errand.total is None and not errand.keeps_on:
            await caller(0, 0)  # finds the leader, opens the session
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        result = await run_clients(errand, caller)
    print(result.model_dump_json(), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
