"""Keeps the Lease on a thread with an event loop of its own.

A renewal then never waits for reconciliations: with hundreds of quorums their loop is seconds
behind at times, and an operator that only has much to do would lose the Lease. It is not kept for
an operator that hangs: the thread renews nothing while the loop of the reconciliations shows no
life.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

BEAT_S = 1.0
STALLED_S = 30.0
"""A loop that shows no life for this long hangs."""

RELEASE_S = 2.0
"""How long the release of the Lease may take."""


class KeptLease(Protocol):
    """What is kept."""

    may_renew: Callable[[], bool]
    """Asked before each renewal."""

    async def run(self) -> None:
        """Take or renew it, for ever."""
        ...

    async def release(self) -> None:
        """Release it."""
        ...


async def _nothing() -> None:
    return


@dataclass(slots=True)
class LeaseThread:
    """Keeps a Lease while `run` runs.

    Attributes:
        lease: used on the thread alone, but for `held`.
        close: closes the Lease's own connections, on the thread.
        stalled_s: how long the caller's loop may show no life.
    """

    lease: KeptLease
    close: Callable[[], Awaitable[None]] = _nothing
    stalled_s: float = STALLED_S
    _beat_s: float = field(default_factory=time.monotonic)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    _stopped: bool = False

    async def run(self) -> None:
        """Keep the Lease until cancelled, then release it.

        Raises:
            Exception: what ended the keeping, if not the caller.
            RuntimeError: the keeping ended without a reason.
        """
        self.lease.may_renew = self.is_alive
        self._beat_s = time.monotonic()
        failures: list[BaseException] = []

        def keep() -> None:
            try:
                asyncio.run(self._keep())
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                failures.append(error)

        thread = threading.Thread(target=keep, name="lease", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                self._beat_s = time.monotonic()
                await asyncio.sleep(min(BEAT_S, self.stalled_s / 4))
        finally:
            self._stopped = True
            if self._loop is not None:
                with suppress(RuntimeError):  # it has ended by itself
                    self._loop.call_soon_threadsafe(self._stop.set)
            end_s = time.monotonic() + 2 * RELEASE_S
            while thread.is_alive() and time.monotonic() < end_s:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
        if failures:
            raise failures[0]
        msg = "the thread of the Lease has ended, and no Lease is renewed"
        raise RuntimeError(msg)

    def is_alive(self) -> bool:
        """Whether the caller's loop shows life."""
        return time.monotonic() - self._beat_s < self.stalled_s

    async def _keep(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopped:
            return
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.lease.run())
            stopping = group.create_task(self._stop.wait())
            try:
                await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                running.cancel()
                stopping.cancel()
                with suppress(TimeoutError):
                    async with asyncio.timeout(RELEASE_S):
                        await self.lease.release()
                await self.close()
