"""Writers beside something else that blocks: a test of the operator, on a quorum of its own.

They run on an event loop in a thread; `finish` ends them, reads everything back and judges.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aiohttp.abc import AbstractResolver

from raftnode.client import QuorumClient
from raftnode.core.types import Endpoint

from .plan import Plan
from .readback import read_back
from .record import Outcome, Record, Stall
from .report import Control, control_records
from .stage import NoDns
from .verify import Verdict, compare
from .writers import Writers

_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """What the writers saw, held against what is there.

    Attributes:
        acknowledged: Writes that were acknowledged.
        unknown: Writes whose outcome is unknown.
        stall: The longest stretch without an acknowledgement.
        verdict: Lost, doubled and so on, and the differences in words.
        controls: The control records of the log.
    """

    acknowledged: int
    unknown: int
    stall: Stall
    verdict: Verdict
    controls: tuple[Control, ...]

    def __str__(self) -> str:
        """The figures in a line."""
        verdict = self.verdict
        return (
            f"acknowledged={self.acknowledged} unknown={self.unknown} lost={verdict.lost} "
            f"duplicated={verdict.duplicated} out_of_order={verdict.out_of_order} "
            f"longest_write_stall_s={self.stall.seconds:.2f}"
        )


class BackgroundWriters:
    """Writes from `start` to `finish`.

    Args:
        endpoints: Nodes to begin with; they lead to the leader.
        hosts_file: The file with their names.
        plan: How much is written.
        resolver: Resolves the names that the file lacks.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        hosts_file: Path | None,
        plan: Plan,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._hosts_file = hosts_file
        self._resolver = resolver or NoDns()
        self._plan = plan
        self._record = Record()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writers")
        self._began_s = time.monotonic()
        self._result: Account | BaseException | None = None

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged so far."""
        return self._record.count(Outcome.ACKNOWLEDGED)

    def start(self) -> Self:
        """Begin to write. Duty of the caller: `finish`, also after a failure."""
        self._thread.start()
        return self

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

    async def _write(self) -> Account:
        try:
            return await self._write_and_judge()
        finally:
            await self._resolver.close()  # the client leaves it open: it did not make it

    async def _write_and_judge(self) -> Account:
        client = QuorumClient(self._endpoints, hosts_file=self._hosts_file, resolver=self._resolver)
        async with client:
            writers = Writers(client, self._record, self._plan, self._clock)
            async with asyncio.TaskGroup() as group:
                group.create_task(writers.write_on())
                writers.begin()
                await asyncio.to_thread(self._stop.wait)
                await writers.end()
            self._record.close(self._clock())
            async with asyncio.timeout(self._plan.read_s):
                stored = await read_back(client)
        return Account(
            acknowledged=self._record.count(Outcome.ACKNOWLEDGED),
            unknown=self._record.count(Outcome.UNKNOWN),
            stall=self._record.longest_stall(self._clock()),
            verdict=compare(self._record.writes, stored.log, stored.kv),
            controls=tuple(control_records(stored.log)),
        )
