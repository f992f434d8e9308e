"""The Lease on a fake API and a fake clock."""

from __future__ import annotations

import asyncio
import copy

import pytest

from kraftquorum_operator.clients.lease import Lease
from kraftquorum_operator.errors import ConflictError


class FakeKube:
    """One Lease object with optimistic concurrency."""

    def __init__(self) -> None:
        self.body: dict | None = None
        self.version = 0

    async def get(self, kind: str, namespace: str, name: str) -> dict | None:
        return copy.deepcopy(self.body)

    async def create(self, body: dict) -> dict:
        if self.body is not None:
            raise ConflictError(409, "AlreadyExists", "there")
        return self._write(body)

    async def replace(self, body: dict) -> dict:
        if body["metadata"].get("resourceVersion") != self.body["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "changed")
        return self._write(body)

    def _write(self, body: dict) -> dict:
        self.version += 1
        self.body = copy.deepcopy(body)
        self.body["metadata"]["resourceVersion"] = str(self.version)
        return self.body


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def world() -> tuple[FakeKube, Clock]:
    return FakeKube(), Clock()


def lease(world: tuple[FakeKube, Clock], identity: str) -> Lease:
    kube, clock = world
    return Lease(kube, namespace="n", name="l", identity=identity, duration_s=10, clock=clock)


@pytest.mark.rule("S26")
@pytest.mark.without(
    "kraftquorum_operator.clients.lease:Lease.step",
    "and not self._is_expired(spec, holder)",
    "and False",
)
@pytest.mark.without(
    "kraftquorum_operator.clients.lease:Lease._is_expired", "> duration_s", "> 100 * duration_s"
)
async def test_the_first_takes_it_and_the_second_waits_for_its_end(world) -> None:
    first, second = lease(world, "a"), lease(world, "b")
    await first.step()
    await second.step()
    assert (first.held, second.held) == (True, False)
    world[1].now = 9.0
    await second.step()
    assert not second.held
    world[1].now = 10.5
    assert not first.held, "by its own clock, without asking the API server"
    await second.step()
    assert second.held
    await first.step()
    assert not first.held


async def test_a_renewal_starts_the_wait_of_others_again(world) -> None:
    first, second = lease(world, "a"), lease(world, "b")
    await first.step()
    await second.step()
    world[1].now = 6.0
    await first.step()
    world[1].now = 11.0
    await second.step()
    assert (first.held, second.held) == (True, False)


@pytest.mark.rule("S26")
@pytest.mark.without(
    "kraftquorum_operator.clients.lease:Lease.held",
    "return self._clock() < self._held_until",
    "return self._held_until > 0",
)
async def test_an_operator_that_was_stopped_holds_nothing_when_it_wakes(world) -> None:
    first = lease(world, "a")
    await first.step()
    world[1].now = 1_000.0
    assert not first.held


async def test_losing_the_race_for_it_is_no_holding(world) -> None:
    kube, _ = world
    first, second = lease(world, "a"), lease(world, "b")
    await first.step()
    await first.release()
    stale = copy.deepcopy(kube.body)
    await second.step()
    kube_get = kube.get

    async def old(*_: str) -> dict:
        return stale

    kube.get = old
    await first.step()
    kube.get = kube_get
    assert (first.held, second.held) == (False, True)


async def test_a_released_lease_is_taken_at_once(world) -> None:
    first, second = lease(world, "a"), lease(world, "b")
    await first.step()
    await first.release()
    await second.step()
    assert (first.held, second.held) == (False, True)
    assert world[0].body["spec"]["leaseTransitions"] == 2


async def test_a_request_that_is_cancelled_beneath_it_does_not_end_the_keeping(world) -> None:
    """As kopf does, when it ends to be started again, to a host's resolution under way."""
    kube, clock = world
    keeper = Lease(kube, namespace="n", name="l", identity="a", duration_s=0.08, clock=clock)
    get, asked = kube.get, asyncio.Event()

    async def slow(*of: str) -> dict | None:
        if not asked.is_set():
            asked.set()
            await asyncio.shield(resolution)
        return await get(*of)

    kube.get = slow
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        resolution = group.create_task(asyncio.Event().wait())
        running = group.create_task(keeper.run())
        await asked.wait()
        resolution.cancel()
        while not keeper.held:
            assert not running.done()
            await asyncio.sleep(0.01)
        running.cancel()
    assert running.cancelled(), "it still ends when it is told to"


@pytest.mark.without(
    "kraftquorum_operator.clients.lease:Lease.step",
    "own is not None and self.held and await self._take(started, own)",
    "False",
)
async def test_a_renewal_reads_nothing(world) -> None:
    kube, clock = world
    first = lease(world, "a")
    await first.step()

    async def refuse(*_: str) -> dict:
        raise AssertionError("read")

    kube_get, kube.get = kube.get, refuse
    failure = ""
    for clock.now in (2.5, 5.0, 7.5):
        try:
            await first.step()
        except AssertionError as error:
            failure = str(error)
    kube.get = kube_get
    assert failure == ""
    clock.now = 17.0
    assert first.held


async def test_a_lease_that_another_client_wrote_meanwhile_is_read_again(world) -> None:
    kube, clock = world
    first, second = lease(world, "a"), lease(world, "b")
    await first.step()
    await kube.replace(kube.body)
    clock.now = 5.0
    await first.step()
    clock.now = 14.0
    assert first.held, "it was only annotated"
    clock.now = 20.0
    await second.step()
    clock.now = 31.0
    await second.step()
    assert second.held
    await first.step()
    assert not first.held
