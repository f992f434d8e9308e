"""Clients read what is committed and durable here; readers that wait leave no trace."""

import asyncio
import contextlib
import itertools
import threading

import pytest
from tests.unit.raftnode.runtime.conftest import LONG_MS

from raftnode.core.types import Offset
from raftnode.errors import RequestError
from raftnode.runtime import committed_reads as module
from raftnode.runtime.committed_reads import CommittedReads
from raftnode.runtime.writes.applier import Applier


@pytest.fixture
async def applier(storage):
    made = Applier(storage.log)
    task = asyncio.get_running_loop().create_task(made.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def reads(applier, storage):
    return CommittedReads(storage.log, applier, barrier=None)


async def test_a_read_waits_for_news_and_returns_it(reads, applier, storage):
    reading = asyncio.get_running_loop().create_task(
        reads.read(Offset(0), max_bytes=1000, max_wait_ms=LONG_MS)
    )
    await asyncio.sleep(0)
    storage.append(b"news")
    applier.committed(Offset(1), Offset(1))
    found = await reading
    assert [record.value for record in found.records] == [b"news"]
    assert (found.next_offset, found.high_watermark, found.log_start_offset) == (1, 1, 0)


async def test_only_a_read_that_has_to_wait_says_that_it_waits(applier, storage):
    waited = []
    reads = CommittedReads(storage.log, applier, barrier=None, on_wait=waited.append)
    await reads.read(Offset(0), max_bytes=1000, max_wait_ms=0)
    await reads.read(Offset(0), max_bytes=1000, max_wait_ms=1)
    await reads.wait_readable(Offset(0), max_wait_ms=1)
    assert waited == [0, 0]
    storage.append(b"news")
    applier.committed(Offset(1), Offset(1))
    await reads.read(Offset(0), max_bytes=1000, max_wait_ms=LONG_MS)
    await reads.wait_readable(Offset(0), max_wait_ms=LONG_MS)
    assert waited == [0, 0]


async def test_a_read_without_news_comes_back_empty_in_time(reads):
    found = await reads.read(Offset(0), max_bytes=1000, max_wait_ms=1)
    assert found.records == ()
    assert found.next_offset == 0


@pytest.mark.without(
    "storage.log.recent_batches:RecentBatches.read", "and self._ends[end] <= end_offset", ""
)
async def test_a_read_shows_nothing_that_is_not_applicable(reads, applier, storage):
    storage.append(b"1")
    storage.append(b"2")
    applier.committed(Offset(2), Offset(1))
    found = await reads.read(Offset(0), max_bytes=1000, max_wait_ms=0)
    assert [record.value for record in found.records] == [b"1"]
    beyond = await reads.read(Offset(1), max_bytes=1000, max_wait_ms=0)
    assert beyond.records == ()
    assert beyond.next_offset == 1


async def test_a_read_begins_within_a_batch_and_ends_after_so_many_records(
    reads, applier, storage, monkeypatch
):
    monkeypatch.setattr(module, "READ_RECORDS_MAX", 3)
    storage.append(*(b"%d" % number for number in range(10)))
    applier.committed(Offset(10), Offset(10))
    found = await reads.read(Offset(4), max_bytes=1_000_000, max_wait_ms=0)
    assert [record.offset for record in found.records] == [4, 5, 6]
    assert found.next_offset == 7


async def test_a_read_brings_so_many_bytes_at_most_however_many_are_asked_for(
    reads, applier, storage, monkeypatch
):
    monkeypatch.setattr(module, "READ_BYTES_MAX", 3000)
    for _ in range(10):
        storage.append(b"x" * 1000)
    applier.committed(Offset(10), Offset(10))
    found = await reads.read(Offset(0), max_bytes=16 << 20, max_wait_ms=0)
    assert [record.offset for record in found.records] == [0, 1]
    less = await reads.read(Offset(2), max_bytes=1, max_wait_ms=0)
    assert [record.offset for record in less.records] == [2]


async def test_readers_have_their_records_one_after_the_other(reads, applier, storage):
    """A few dozen that ask at once do not keep the loop from its other work."""
    storage.append(b"x")
    applier.committed(Offset(1), Offset(1))
    await applier.wait_applied(Offset(1), timeout_ms=LONG_MS)
    order = []

    async def read():
        await reads.read(Offset(0), max_bytes=1000, max_wait_ms=0)
        order.append("read")

    async def work():
        for _ in range(60):
            order.append("work")
            await asyncio.sleep(0)

    await asyncio.gather(work(), *(read() for _ in range(5)))
    reads = [place for place, name in enumerate(order) if name == "read"]
    assert len(reads) == 5
    assert all(later > earlier + 1 for earlier, later in itertools.pairwise(reads))


async def test_a_read_below_the_log_start_is_refused(reads):
    with pytest.raises(RequestError) as caught:
        await reads.read(Offset(-1), max_bytes=1, max_wait_ms=0)
    assert caught.value.error == "OFFSET_OUT_OF_RANGE"


async def test_waiters_whose_time_ran_out_or_who_left_are_forgotten(reads, applier):
    """A quiet quorum wakes no task, and clients poll it all day."""
    await asyncio.sleep(0)
    before = len(applier._waiters)
    for _ in range(20):
        await reads.read(Offset(0), max_bytes=1, max_wait_ms=0)
        await applier.wait_applied(Offset(1), timeout_ms=0)
    gone = asyncio.get_running_loop().create_task(
        reads.read(Offset(0), max_bytes=1, max_wait_ms=60_000)
    )
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert len(applier._waiters) == before == 1


async def test_a_read_of_a_cold_log_that_hangs_keeps_neither_the_loop_nor_the_store_waiting(
    reads, applier, storage, monkeypatch
):
    storage.append(b"cold", key=None)
    storage.log._recent.clear()
    storage.append(b"recent")
    go_on, read = threading.Event(), storage.log.read

    def held(start, max_bytes, end):
        assert threading.current_thread() is not threading.main_thread()
        assert go_on.wait(LONG_MS / 1000)
        return read(start, max_bytes, end)

    monkeypatch.setattr(storage.log, "read", held)
    applier.committed(Offset(2), Offset(2))
    hung = asyncio.get_running_loop().create_task(
        reads.read(Offset(0), max_bytes=1000, max_wait_ms=0)
    )
    try:
        recent = await reads.read(Offset(1), max_bytes=1000, max_wait_ms=0)
        assert [record.value for record in recent.records] == [b"recent"]
        assert not hung.done()
        assert applier.kv.next_offset == 0, "its own read hangs as well, and it alone waits"
    finally:
        go_on.set()
    assert [record.value for record in (await hung).records] == [b"cold", b"recent"]
    assert await applier.wait_applied(Offset(2), timeout_ms=LONG_MS)
