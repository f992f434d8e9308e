"""The clients that write: each write is sent once, and its outcome is put into the account.

`raftnode.client` sends a write again only when it is certain that it was not done, so
that an unknown outcome stays unknown, here as in the account.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping

from raftnode.client import NotDoneError, OutcomeUnknownError, QuorumClient

from .plan import Plan
from .record import Outcome, Record, Write
from .task_groups import run_together

_KEYS_PER_WRITER = 40
_RAW_EVERY = 4

Clock = Callable[[], float]


class Writers:
    """All writers of the demo on one client.

    Args:
        client: An open client.
        record: The account that is kept.
        plan: How much.
        clock: Seconds since the demo began.

    Attributes:
        client: That of the next write.
    """

    def __init__(self, client: QuorumClient, record: Record, plan: Plan, clock: Clock) -> None:
        self.client = client
        self._record = record
        self._plan = plan
        self._clock = clock
        self._begun = asyncio.Event()
        self._stopped = asyncio.Event()
        self._ended = asyncio.Event()

    def begin(self) -> None:
        """Let `write_on` write."""
        self._begun.set()

    async def end(self) -> None:
        """Let every writer end after its write, and wait for that."""
        self._stopped.set()
        if self._begun.is_set():
            await self._ended.wait()

    async def write_on(self) -> None:
        """Write unique numbered values, several writers at once, from `begin` to `end`."""
        await self._begun.wait()
        await run_together(*(self._writer(f"w{number}") for number in range(self._plan.writers)))
        self._ended.set()

    async def _writer(self, name: str) -> None:
        pause_s = self._plan.writers / self._plan.writes_per_s
        number = 0
        while not self._stopped.is_set():
            due_s = self._clock() + pause_s
            value = numbered_value(name, number, self._plan.value_bytes)
            if number % _RAW_EVERY == _RAW_EVERY - 1:
                await self.write(name, None, value)
            else:
                await self.write(name, f"demo/{name}/{number % _KEYS_PER_WRITER:02d}", value)
            number += 1
            # A stall is not made up for: the rate after it is the rate before it.
            await self._pause(due_s - self._clock())

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()
            except TimeoutError:
                pass

    async def load(self, files: Mapping[str, bytes]) -> None:
        """Write every file once under its key; one that was refused is written again."""
        waiting = deque(files.items())

        async def loader(name: str) -> None:
            while waiting:
                key, value = waiting.popleft()
                write = await self.write(name, key, value)
                if write.outcome is Outcome.REFUSED:
                    waiting.append((key, value))

        await run_together(*(loader(f"load{number}") for number in range(self._plan.loaders)))

    async def write(self, writer: str, key: str | None, value: bytes) -> Write:
        """Send one write and note what becomes of it."""
        timeout_ms = self._plan.write_timeout_ms
        write = self._record.begin(writer, key, value, self._clock())
        try:
            if key is None:
                answer = await self.client.append([value], timeout_ms=timeout_ms)
            else:
                answer = await self.client.put(key, value, timeout_ms=timeout_ms)
        except NotDoneError as error:
            self._record.refuse(write, str(error), self._clock())
        except OutcomeUnknownError as error:
            self._record.lose_sight(write, str(error), self._clock())
        else:
            self._record.acknowledge(write, answer.base_offset, self._clock())
        return write


def numbered_value(writer: str, number: int, size: int) -> bytes:
    """A value that no other write has, the same each time: a number and noise after it."""
    head = f"{writer} {number:07d} ".encode()
    return head + random.Random(head).randbytes(max(0, size - len(head)))
