"""Linearizable reads: all reads that wait share one confirmation of the leader.

A read may answer once a majority, or the lease, has confirmed this leader after the read came
(S11), and once the store holds all that was committed by then. A confirmation that begins after
several reads came serves all of them: so the node asks for one at a time, and the reads that
come meanwhile form the group of the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from raftnode.api.errors import refusal
from raftnode.api.model import TIMEOUT_MS_MAX
from raftnode.api.service import ReadDone
from raftnode.core.types import Offset
from raftnode.errors import RequestError
from raftnode.runtime.outcomes import outcome_of


class Confirm(Protocol):
    """Asks the core to confirm that this node leads."""

    async def __call__(self, timeout_ms: int) -> Offset:
        """Return the high watermark of a confirmation that begins after this call.

        Raises:
            RequestError: NOT_LEADER, NOT_CONFIRMED, SHUTTING_DOWN.
        """
        ...


class AppliedStore(Protocol):
    """The part of the applier that reads wait for."""

    def is_applied(self, offset: Offset) -> bool:
        """Whether the store has everything below `offset`."""
        ...

    async def wait_applied(self, offset: Offset, *, timeout_ms: float) -> bool:
        """Wait until the store has everything below `offset`; False: not in time."""
        ...


Spawn = Callable[..., asyncio.Task[None]]
"""Starts and holds a task: `raftnode.runtime.process.tasks.Tasks`."""


@dataclass(slots=True, eq=False)
class WaitingRead:
    """A read that waits for its confirmation: `raftnode.api.service.Waiting`.

    Invariant: `done` is called at most once, and not after `too_late` or `forget`.
    """

    done: ReadDone | None
    group: _Group

    def settle(self, outcome: Offset | RequestError) -> None:
        """Let the client read, or report why it may not."""
        done, self.done = self.done, None
        if done is not None:
            done(outcome)

    def too_late(self, timeout_ms: int) -> RequestError:
        """Stop waiting at the deadline; return the error for the client."""
        self.forget()
        return refusal("NOT_CONFIRMED", f"not confirmed and applied within {timeout_ms} ms")

    def forget(self) -> None:
        """Stop waiting, because the client has gone."""
        if self.done is not None:
            self.done = None
            self.group.remove(self)


@dataclass(slots=True, eq=False)
class _Group:
    """The reads that one confirmation serves."""

    reads: dict[WaitingRead, None] = field(default_factory=dict["WaitingRead", None])
    """Those that still wait, in the order in which they came."""
    task: asyncio.Task[None] | None = None

    def remove(self, read: WaitingRead) -> None:
        """Forget a read that waits no longer; without any, the confirmation serves no purpose.

        A confirmation may take minutes, and a client may give up many reads in that time.
        """
        self.reads.pop(read, None)
        if not self.reads and self.task is not None:
            self.task.cancel()

    def settle(self, outcome: Offset | RequestError) -> None:
        """Settle all reads that still wait."""
        self.task = None  # a client that leaves in its own call cancels nothing
        reads, self.reads = self.reads, {}
        for read in reads:
            read.settle(outcome)


class ReadBarrier:
    """Groups the reads and settles each group.

    Args:
        confirm: asks the core.
        store: what must hold the committed records.
        spawn: starts tasks.
    """

    def __init__(self, confirm: Confirm, store: AppliedStore, spawn: Spawn) -> None:
        self._confirm = confirm
        self._store = store
        self._spawn = spawn
        self._next: _Group | None = None
        self._confirming = False
        self.groups = 0
        """How many confirmations were asked for."""

    def submit(self, done: ReadDone) -> WaitingRead:
        """Add a read to the next group; `done` is called in a later turn of the loop."""
        group = self._next
        if group is None:
            group = self._next = _Group()
            if not self._confirming:
                # In a later turn: all reads of this turn share the confirmation.
                self._begin()
        read = WaitingRead(done, group)
        group.reads[read] = None
        return read

    def _begin(self) -> None:
        self._confirming = True
        self._start(self._confirm_next())

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        return self._spawn(work, name="read-barrier")

    async def _confirm_next(self) -> None:
        """Confirm one group; then begin the next one, if any reads came meanwhile."""
        group, self._next = self._next, None
        assert group is not None, "begun for it"  # noqa: S101
        group.task = asyncio.current_task()
        self.groups += 1
        try:
            if not group.reads:
                return
            offset = await self._confirm(TIMEOUT_MS_MAX)  # no read may wait longer
        except RequestError as error:
            group.settle(error)
            return
        finally:
            self._confirming = False
            if self._next is not None:
                self._begin()
        if self._store.is_applied(offset):
            group.settle(offset)
        else:
            group.task = self._start(self._settle_applied(group, offset))

    async def _settle_applied(self, group: _Group, offset: Offset) -> None:
        if await self._store.wait_applied(offset, timeout_ms=TIMEOUT_MS_MAX):
            group.settle(offset)
        else:
            group.settle(refusal("NOT_CONFIRMED", f"the store was not applied up to {offset}"))

    async def wait(self, timeout_ms: int) -> Offset:
        """Wait until a read may answer; return the high watermark of the confirmation.

        Raises:
            RequestError: NOT_LEADER, NOT_CONFIRMED, SHUTTING_DOWN.
        """
        return await outcome_of(self.submit, timeout_ms)
