"""Reads that wait share a confirmation, and no read takes one that began before it came."""

from __future__ import annotations

import asyncio
import gc

import pytest

from raftnode.api.errors import not_leader
from raftnode.core.types import Offset
from raftnode.errors import RequestError
from raftnode.runtime.process.tasks import Tasks
from raftnode.runtime.read_barrier import ReadBarrier, WaitingRead

LONG_MS = 60_000


class Node:
    """Confirms when the test says so, and has applied what the test says."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Offset]] = []
        self.applied = 100
        self.grown = asyncio.Event()
        self.failures: list[BaseException] = []
        self.barrier = ReadBarrier(self.confirm, self, Tasks(self.failures.append))

    async def confirm(self, timeout_ms: int) -> Offset:
        del timeout_ms
        future: asyncio.Future[Offset] = asyncio.get_running_loop().create_future()
        self.asked.append(future)
        return await future

    def is_applied(self, offset: Offset) -> bool:
        return self.applied >= offset

    async def wait_applied(self, offset: Offset, *, timeout_ms: float) -> bool:
        del timeout_ms
        while not self.is_applied(offset):
            await self.grown.wait()
        return True

    def read(self, timeout_ms: int = LONG_MS) -> asyncio.Task[Offset]:
        return asyncio.get_running_loop().create_task(self.barrier.wait(timeout_ms))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def node() -> Node:
    return Node()


async def test_reads_that_come_together_share_one_confirmation(node: Node):
    reads = [node.read() for _ in range(50)]
    await turns()
    assert len(node.asked) == 1
    node.asked[0].set_result(Offset(7))
    assert await asyncio.gather(*reads) == [7] * 50
    assert node.barrier.groups == 1


@pytest.mark.rule("S11")
@pytest.mark.without(
    "runtime.read_barrier:ReadBarrier._confirm_next",
    "group, self._next = self._next, None",
    "group = self._next",
)
async def test_a_read_that_comes_during_a_confirmation_waits_for_the_next_one(node: Node):
    first = node.read()
    await turns()
    second, third = node.read(), node.read()
    await turns()
    assert len(node.asked) == 1, "one confirmation is under way at a time"
    node.asked[0].set_result(Offset(7))
    assert await first == 7
    await turns()
    assert not second.done(), "the first confirmation began before this read came"
    assert len(node.asked) == 2
    node.asked[1].set_result(Offset(9))
    assert await asyncio.gather(second, third) == [9, 9]


async def test_no_read_answers_before_the_store_has_what_was_confirmed(node: Node):
    read = node.read()
    await turns()
    node.asked[0].set_result(Offset(101))
    await turns()
    assert not read.done()
    later = node.read()
    await turns()
    assert len(node.asked) == 2, "the next confirmation does not wait for the store"
    node.applied = 101
    node.grown.set()
    assert await read == 101
    node.asked[1].set_result(Offset(101))
    assert await later == 101


async def test_a_refusal_reaches_all_reads_of_the_group_and_no_other(node: Node):
    reads = [node.read(), node.read()]
    await turns()
    other = node.read()
    await turns()
    node.asked[0].set_exception(not_leader(None, None))
    for read in reads:
        with pytest.raises(RequestError, match="not the leader"):
            await read
    await turns()
    node.asked[1].set_result(Offset(3))
    assert await other == 3


async def test_a_confirmation_without_a_waiting_read_gives_way_to_the_next(node: Node):
    reads = [node.read(timeout_ms=20), node.read(timeout_ms=20)]
    await turns()
    other = node.read()
    for read in reads:
        with pytest.raises(RequestError) as caught:
            await read
        assert (caught.value.error, caught.value.outcome) == ("NOT_CONFIRMED", "not_done")
    await turns()
    assert node.asked[0].cancelled(), "no read waits for it"
    assert len(node.asked) == 2
    node.asked[1].set_result(Offset(4))
    assert await other == 4
    assert not node.failures


async def test_a_client_that_leaves_takes_no_other_read_with_it(node: Node):
    gone, left = node.read(), node.read()
    await turns()
    gone.cancel()
    await turns()
    assert not node.asked[0].cancelled()
    node.asked[0].set_result(Offset(5))
    assert await left == 5
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_a_read_that_was_given_up_is_held_no_longer(node: Node):
    """A leader without its majority confirms nothing, while a client asks again and again."""
    first = node.read()
    await turns()
    for _ in range(100):
        node.barrier.submit(pytest.fail).forget()
    gc.collect()
    assert sum(isinstance(thing, WaitingRead) for thing in gc.get_objects()) == 1
    node.asked[0].set_result(Offset(7))
    assert await first == 7
