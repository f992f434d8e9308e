"""The Lease is renewed while the loop is busy, and not while it hangs."""

from __future__ import annotations

import asyncio
import time

import pytest

from kraftquorum_operator.clients.lease_thread import LeaseThread


class Lease:
    """Counts its renewals and its release."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.renewals: list[float] = []
        self.released = 0
        self.fails = fails
        self.may_renew = lambda: True

    async def run(self) -> None:
        while True:
            if self.may_renew():
                self.renewals.append(time.monotonic())
            await asyncio.sleep(0.01)
            if self.fails is not None:
                raise self.fails

    async def release(self) -> None:
        self.released += 1


async def started(lease: Lease) -> None:
    async with asyncio.timeout(60):
        while not lease.renewals:  # noqa: ASYNC110 - another thread adds them
            await asyncio.sleep(0.01)


async def test_it_is_renewed_while_the_loop_has_no_time() -> None:
    lease, closed = Lease(), list[bool]()

    async def close() -> None:
        closed.append(True)

    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(LeaseThread(lease, close).run())
        await started(lease)
        before = len(lease.renewals)
        time.sleep(1.0)  # noqa: ASYNC251 - the loop has no time for anything
        assert len(lease.renewals) > before
        assert lease.released == 0
        keeping.cancel()
    assert (lease.released, closed) == (1, [True])


@pytest.mark.without(
    "kraftquorum_operator.clients.lease_thread:LeaseThread.is_alive",
    "time.monotonic() - self._beat_s < self.stalled_s",
    "True",
)
async def test_it_is_not_renewed_for_a_loop_that_hangs() -> None:
    lease = Lease()
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(LeaseThread(lease, stalled_s=0.5).run())
        await started(lease)
        hung_s = time.monotonic()
        time.sleep(2.0)  # noqa: ASYNC251 - it hangs
        late = [at for at in lease.renewals if at > hung_s + 1.0]
        async with asyncio.timeout(60):
            while lease.renewals[-1] < hung_s + 2.0:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        keeping.cancel()
    assert late == []


class EndingLease(Lease):
    """Its keeping ends by itself."""

    async def run(self) -> None:
        self.renewals.append(time.monotonic())


async def test_a_keeping_that_ends_by_itself_ends_the_operator() -> None:
    lease = EndingLease()
    with pytest.raises(RuntimeError, match="no Lease is renewed"):
        await LeaseThread(lease).run()
    assert lease.released == 1


async def test_an_error_of_the_keeping_ends_the_operator() -> None:
    lease = Lease(RuntimeError("broken"))
    with pytest.raises(BaseExceptionGroup) as raised:
        await LeaseThread(lease).run()
    assert raised.value.subgroup(RuntimeError) is not None
    assert lease.released == 1
