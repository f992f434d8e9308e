"""Writers beside something else that blocks: a test of the operator, on a quorum of its own.

They run on an event loop in a thread; `finish` ends them, reads everything back and judges.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aiohttp.abc import AbstractResolver

from raftnode.client import Credentials, QuorumClient
from raftnode.core.types import Endpoint

from .environment import NoDns
from .plan import Plan
from .readback import read_back
from .record import Outcome, Record, Stall
from .report import Control, control_records
from .verify import Verdict, compare
from .writers import Writers

_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """What the writers saw, held against what is there.

    Attributes:
        acknowledged: Writes that were acknowledged.
        unknown: Writes whose outcome is unknown.
        refused: Writes that failed and were certainly not done.
        stall: The longest stretch without an acknowledgement.
        verdict: Lost, doubled and so on, and the differences in words.
        controls: The control records of the log.
    """

    acknowledged: int
    unknown: int
    refused: int
    stall: Stall
    verdict: Verdict
    controls: tuple[Control, ...]

    @property
    def elections(self) -> int:
        """How often another leader, or the same again, was elected after the first."""
        return sum(control.kind == "LeaderChange" for control in self.controls) - 1

    def __str__(self) -> str:
        """The figures in a line."""
        verdict = self.verdict
        return (
            f"acknowledged={self.acknowledged} unknown={self.unknown} refused={self.refused} "
            f"lost={verdict.lost} duplicated={verdict.duplicated} "
            f"out_of_order={verdict.out_of_order} "
            f"longest_write_stall_s={self.stall.seconds:.2f}"
        )


class BackgroundWriters:
    """Writes from `start` to `finish`.

    Args:
        endpoints: Nodes to begin with; they lead to the leader.
        hosts_file: The file with their names.
        plan: How much is written.
        resolver: Resolves the names that the file lacks.
        credentials: Of the client.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        hosts_file: Path | None,
        plan: Plan,
        resolver: AbstractResolver | None = None,
        credentials: Credentials = Credentials(),  # noqa: B008 - frozen
    ) -> None:
        self._endpoints = endpoints
        self._hosts_file = hosts_file
        self._resolver = resolver or NoDns()
        self._credentials = credentials
        self._plan = plan
        self._record = Record()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writers")
        self._begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writers: Writers | None = None
        self._clients = AsyncExitStack()
        self._began_s = time.monotonic()
        self._result: Account | BaseException | None = None

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged so far."""
        return self._record.count(Outcome.ACKNOWLEDGED)

    def start(self) -> Self:
        """Begin to write. Duty of the caller: `finish`, also after a failure."""
        self._thread.start()
        self._begun.wait(_STOP_S)
        return self

    def switch(self, credentials: Credentials) -> None:
        """Write with other credentials from now on, as clients that are restarted with them.

        Raises:
            ClientError: the credentials cannot be used.
        """
        assert self._loop is not None, "call start first"  # noqa: S101
        asyncio.run_coroutine_threadsafe(self._switch(credentials), self._loop).result(_STOP_S)

    async def _switch(self, credentials: Credentials) -> None:
        assert self._writers is not None  # noqa: S101 - `_began` was awaited
        self._writers.client = await self._clients.enter_async_context(self._open(credentials))

    def finish(self) -> Account:
        """End the writers, read everything back, compare.

        Raises:
            ClientError: the quorum could not be read.
        """
        self._stop.set()
        self._thread.join(_STOP_S + self._plan.read_s)
        match self._result:
            case Account() as account:
                return account
            case BaseException() as error:
                raise error
            case None:
                raise TimeoutError("the writers did not end")

    def _run(self) -> None:
        try:
            self._result = asyncio.run(self._write())
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._result = error

    def _clock(self) -> float:
        return time.monotonic() - self._began_s

    def _open(self, credentials: Credentials) -> QuorumClient:
        return QuorumClient(
            self._endpoints,
            hosts_file=self._hosts_file,
            resolver=self._resolver,
            credentials=credentials,
        )

    async def _write(self) -> Account:
        try:
            return await self._write_and_judge()
        finally:
            await self._resolver.close()  # the client leaves it open: it did not make it

    async def _write_and_judge(self) -> Account:
        async with self._clients:
            client = await self._clients.enter_async_context(self._open(self._credentials))
            writers = Writers(client, self._record, self._plan, self._clock)
            self._writers, self._loop = writers, asyncio.get_running_loop()
            async with asyncio.TaskGroup() as group:
                group.create_task(writers.write_on())
                writers.begin()
                self._begun.set()
                await asyncio.to_thread(self._stop.wait)
                await writers.end()
            self._record.close(self._clock())
            async with asyncio.timeout(self._plan.read_s):
                stored = await read_back(writers.client)
        return Account(
            acknowledged=self._record.count(Outcome.ACKNOWLEDGED),
            unknown=self._record.count(Outcome.UNKNOWN),
            refused=self._record.count(Outcome.REFUSED),
            stall=self._record.longest_stall(self._clock()),
            verdict=compare(self._record.writes, stored.log, stored.kv),
            controls=tuple(control_records(stored.log)),
        )
