"""What is reported durable is durable, at most one fsync is under way, none follows a failure."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.unit.raftnode.runtime.conftest import LONG_S

from proofkit.faultdisk import Fault
from raftnode.core.events import LogFlushed
from raftnode.core.log_index import LogIndex
from raftnode.core.records import Batch
from raftnode.core.types import Offset
from raftnode.errors import StorageFailedError
from raftnode.runtime.writes.flusher import Flusher


@dataclass
class Around:
    """A flusher with an index that hears of flushes only when the test says so."""

    storage: object
    index: LogIndex = field(default_factory=LogIndex)
    flushed: list[LogFlushed] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    flusher: Flusher = None

    def __post_init__(self) -> None:
        self.flusher = Flusher(
            self.storage.log,
            self.index,
            on_flushed=self.flushed.append,
            on_error=self.errors.append,
            on_seconds=self.seconds.append,
        )

    def append(self, batch: Batch) -> None:
        self.index.append(batch)
        self.storage.log.append([batch])

    def hear(self) -> None:
        """As the core does."""
        for event in self.flushed:
            if event.truncations == self.index.truncations:
                self.index.durable_end = max(self.index.durable_end, event.end_offset)

    async def settle(self) -> None:
        while self.flusher.in_flight:  # noqa: ASYNC110 - what is waited for is a thread
            await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.fixture
async def around(storage):
    made = Around(storage)
    yield made
    made.flusher.stop()


class Gate:
    """Holds the fsync thread until opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: object) -> None:
        self._open = threading.Event()
        flush: Callable[[], Offset] = log.flush

        def gated() -> Offset:
            assert self._open.wait(LONG_S)
            return flush()

        monkeypatch.setattr(log, "flush", gated)

    def open(self) -> None:
        self._open.set()


async def test_nothing_is_flushed_without_need(around):
    around.flusher.flush_if_needed()
    assert not around.flusher.in_flight


async def test_one_batch_costs_one_flush_even_before_the_core_hears_of_it(around):
    around.append(around.storage.batch(b"1"))
    around.flusher.flush_if_needed()
    await around.settle()
    assert around.flushed == [LogFlushed(Offset(1), 0)]
    assert len(around.seconds) == 1
    around.flusher.flush_if_needed()
    assert not around.flusher.in_flight
    around.hear()
    assert around.index.durable_end == 1


async def test_what_comes_during_a_flush_is_covered_by_the_next(around, monkeypatch):
    gate = Gate(monkeypatch, around.storage.log)
    around.append(around.storage.batch(b"1"))
    around.flusher.flush_if_needed()
    around.append(around.storage.batch(b"2"))
    around.flusher.flush_if_needed()
    assert around.flusher.in_flight
    gate.open()
    await around.settle()
    ends = [event.end_offset for event in around.flushed]
    assert ends[0] >= 1  # the second may be in it but need not be told
    assert ends[-1] == 2
    assert around.storage.log.flushed_offset == 2


@pytest.mark.rule("P44")
@pytest.mark.without(
    "runtime.writes.flusher:Flusher._note_outcome",
    "LogFlushed(Offset(min(outcome, covers.end_offset)), covers.truncations)",
    "LogFlushed(Offset(min(outcome, covers.end_offset)), self._index.truncations)",
)
async def test_a_flush_that_a_truncation_overtook_says_nothing_of_what_is_written_after_it(
    around, monkeypatch
):
    gate = Gate(monkeypatch, around.storage.log)
    around.append(around.storage.batch(b"1", b"2"))
    around.flusher.flush_if_needed()
    around.index.truncate(Offset(0))
    gate.open()
    await around.settle()
    around.hear()
    assert around.index.durable_end == 0


async def test_a_flush_between_a_truncation_and_its_storage_never_passes_the_new_end(around):
    """The core has truncated, the storage not yet: the storage's end is one that will go."""
    around.append(around.storage.batch(b"1"))
    around.append(around.storage.batch(b"2", b"3"))
    around.index.truncate(Offset(1))
    around.flusher.flush_if_needed()
    await around.settle()
    assert around.flushed == [LogFlushed(Offset(1), 1)]
    around.storage.log.truncate(Offset(1))
    around.append(around.storage.batch(b"new"))
    around.hear()
    assert around.index.durable_end == 1  # not 2: that record was never synced


@pytest.mark.rule("P44")
@pytest.mark.without("runtime.writes.flusher:Flusher._fail", "self._stopped = True", "pass")
async def test_a_failed_flush_is_reported_once_and_never_retried(around):
    around.append(around.storage.batch(b"1"))
    around.storage.disk.faults.append(Fault("fdatasync"))
    around.flusher.flush_if_needed()
    await around.settle()
    assert [type(error).__mro__[1] for error in around.errors] == [StorageFailedError]
    assert around.flushed == []
    around.flusher.flush_if_needed()
    assert not around.flusher.in_flight
    with pytest.raises(StorageFailedError):
        around.storage.log.flush()


def broken(*_: object) -> None:
    raise BrokenError


class BrokenError(Exception):
    pass


def check_reported(around: Around) -> None:
    assert [type(error) for error in around.errors] == [BrokenError]
    assert not around.flusher.in_flight
    around.append(around.storage.batch(b"2"))
    around.flusher.flush_if_needed()
    assert not around.flusher.in_flight


@pytest.mark.parametrize(("signal", "operation"), [("_done", "notify"), ("_wanted", "wait")])
@pytest.mark.without(
    "runtime.writes.flusher:Flusher._run",
    "self._loop.call_soon_threadsafe(self._fail, error)",
    "pass",
)
async def test_an_error_of_the_thread_outside_a_flush_is_reported(
    storage, monkeypatch, signal, operation
):
    """A thread that ended unseen would leave a leader that never commits again."""
    around = Around(storage)
    around.append(around.storage.batch(b"1"))
    monkeypatch.setattr(getattr(around.flusher, signal), operation, broken)
    around.flusher.flush_if_needed()
    await asyncio.to_thread(around.flusher._thread.join)
    await asyncio.sleep(0)
    around.flusher.stop()
    await asyncio.sleep(0)
    check_reported(around)


@pytest.mark.parametrize("callback", ["_on_flushed", "_on_seconds"])
@pytest.mark.without("runtime.writes.flusher:Flusher._hear", "self._fail(error)", "raise")
async def test_an_error_on_the_loop_after_a_flush_is_reported(around, monkeypatch, callback):
    """asyncio would log it and go on, with records that count as not durable for ever."""
    around.append(around.storage.batch(b"1"))
    monkeypatch.setattr(around.flusher, callback, broken)
    around.flusher.flush_if_needed()
    await around.settle()
    check_reported(around)


async def test_after_stop_nothing_is_reported(around, monkeypatch):
    gate = Gate(monkeypatch, around.storage.log)
    around.append(around.storage.batch(b"1"))
    around.flusher.flush_if_needed()
    gate.open()
    await asyncio.to_thread(around.flusher.stop)
    await asyncio.sleep(0.01)
    assert around.flushed == []
    around.append(around.storage.batch(b"2"))
    around.flusher.flush_if_needed()
    assert not around.flusher.in_flight


async def test_what_the_storage_does_not_have_yet_is_not_flushed_again_and_again(
    around, monkeypatch
):
    """The core has appended, and the append waits behind another effect for the disk."""
    around.append(around.storage.batch(b"1"))
    second = around.storage.batch(b"2")
    around.index.append(second)
    calls = 0
    flush = around.storage.log.flush

    def counted() -> Offset:
        nonlocal calls
        calls += 1
        return flush()

    monkeypatch.setattr(around.storage.log, "flush", counted)
    around.flusher.flush_if_needed()
    for _ in range(20):
        await around.settle()
    assert (calls, len(around.flushed)) == (1, 1)
    around.storage.log.append([second])
    around.flusher.flush_if_needed()
    await around.settle()
    assert around.flushed[-1].end_offset == 2
