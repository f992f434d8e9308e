"""Writes have one outcome each, whatever comes when."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from raftnode.api.errors import not_leader, refusal
from raftnode.api.model import Appended
from raftnode.api.service import CommittedRun, NewRecord
from raftnode.core.effects import AppendAccepted, Refused
from raftnode.core.events import AppendRequested
from raftnode.core.reasons.refusals import DiskFull, NotStartedInTime, NotTheLeader, Refusal
from raftnode.core.reasons.waits import Awaited
from raftnode.core.types import Epoch, Offset
from raftnode.errors import RequestError
from raftnode.logformat import (
    encode_keyless_batch,
    iter_records,
    read_finished_batch,
    read_header,
    stamp,
)
from raftnode.runtime import reason_sentences
from raftnode.runtime.process import clock
from raftnode.runtime.writes import appends as module
from raftnode.runtime.writes.appends import RECORD_OVERHEAD_BYTES, SLOW_FLUSH_S, Appends

EPOCH = Epoch(3)


class Core:
    """What stands around the appends: takes events, answers when the test says so."""

    def __init__(self, **settings: int) -> None:
        self.asked: list[AppendRequested] = []
        self.flushing = False
        self.flush_age_s = 1.0
        self.commits: list[float] = []
        self.end = 0
        self._ids = iter(range(1, 1000))
        limits = {"queue_bytes_max": 10_000, "batch_bytes_max": 1000, "linger_ms": 0} | settings
        self.appends = Appends(
            self.asked.append,
            lambda: next(self._ids),
            lambda refused: (
                not_leader(None, None)
                if refused.refusal is Refusal.NOT_LEADER
                else refusal(refused.refusal.value, reason_sentences.refusal(refused.reason))
            ),
            flushing_s=lambda: self.flush_age_s if self.flushing else None,
            on_commit=self.commits.append,
            **limits,
        )

    def write(
        self, *values: bytes, key: bytes | None = None, timeout_ms: int = 5000
    ) -> asyncio.Task[Appended]:
        records = [NewRecord(key, value) for value in values]
        return asyncio.get_running_loop().create_task(self.appends.append(records, timeout_ms))

    def accept(self, request: AppendRequested) -> None:
        last = self.end + request.record_count - 1
        self.appends.accepted(
            AppendAccepted(request.request_id, Offset(self.end), Offset(last), EPOCH)
        )
        self.end = last + 1


async def held(**settings: int) -> Core:
    """With a batch that is being flushed and that is not committed: the next ones wait."""
    core = Core(**settings)
    core.write(b"before")
    await turns()
    core.accept(core.asked.pop())
    core.flushing = True
    return core


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def error_of(task: asyncio.Task[Appended]) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        await task
    return caught.value.error, caught.value.outcome


def values_of(request: AppendRequested) -> list[bytes | None]:
    return [r.value for r in iter_records(stamp(request.data, Offset(0), EPOCH))]


async def test_writes_of_one_turn_share_a_batch_and_each_learns_its_own_offsets():
    core = Core()
    first, second = core.write(b"a", b"b"), core.write(b"c")
    await turns()
    [request] = core.asked
    assert values_of(request) == [b"a", b"b", b"c"]
    assert request.record_count == 3
    core.end = 40
    core.accept(request)
    core.appends.committed(Offset(43))
    assert await first == Appended(base_offset=40, last_offset=41, epoch=EPOCH)
    assert await second == Appended(base_offset=42, last_offset=42, epoch=EPOCH)
    assert len(core.commits) == 1
    assert core.appends.idle


COMMITTED = "runtime.writes.appends:Appends.committed"


@pytest.mark.rule("P43")
@pytest.mark.without(COMMITTED, "and self._appended[0].last_offset < high_watermark", "")
@pytest.mark.without(COMMITTED, "_appended[0].last_offset <", "_appended[0].writes[0].base <")
async def test_nothing_is_acknowledged_below_the_high_watermark_of_the_whole_batch():
    core = Core()
    write = core.write(b"a", b"b")
    await turns()
    core.accept(core.asked[0])
    core.appends.committed(Offset(1))
    await turns()
    assert not write.done()
    assert not core.appends.idle
    core.appends.committed(Offset(2))
    assert (await write).last_offset == 1


@pytest.mark.rule("P58")
@pytest.mark.without(COMMITTED, "self._on_commit(time.monotonic() - batch.appended_at)", "pass")
@pytest.mark.without(COMMITTED, "time.monotonic() - batch.appended_at", "0.5")
async def test_a_commit_takes_from_the_append_until_the_high_watermark_passes_the_batch(
    monkeypatch: pytest.MonkeyPatch,
):
    now_s = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s))
    core = Core()
    writes = [core.write(b"a", b"b")]
    await turns()
    now_s += 7  # in the queue, which is no part of it
    core.accept(core.asked.pop())
    now_s += 0.25
    writes.append(core.write(b"c"))
    await turns()
    core.accept(core.asked.pop())
    now_s += 1.5
    core.appends.committed(Offset(2))
    assert core.commits == [1.75]
    now_s += 2
    core.appends.committed(Offset(3))
    assert core.commits == [1.75, 3.5]
    assert [(await write).last_offset for write in writes] == [1, 2]


async def test_the_next_batch_fills_while_the_last_one_is_flushed():
    core = Core()
    writes = [core.write(b"1")]
    await turns()
    core.flushing = True
    core.accept(core.asked[0])
    writes += [core.write(b"2"), core.write(b"3")]
    await turns()
    assert len(core.asked) == 1
    core.flushing = False
    core.appends.pump()  # the driver does, at the flush's end
    assert values_of(core.asked[1]) == [b"2", b"3"]
    core.accept(core.asked[1])
    core.appends.committed(Offset(3))
    assert [(await write).base_offset for write in writes] == [0, 1, 2]


async def test_the_next_batch_does_not_wait_for_the_own_flush_once_the_others_have_committed():
    """A leader whose fsync takes a second: three batches are committed within one flush."""
    core = Core()
    core.flushing = True
    for number in range(3):
        write = core.write(b"%d" % number)
        await turns()
        assert len(core.asked) == number + 1, "nothing that was appended waits to be committed"
        core.accept(core.asked[number])
        following = core.write(b"held")
        await turns()
        assert len(core.asked) == number + 1, "the last batch is committed nowhere yet"
        assert core.appends.withdraw(next(iter(core.appends._queue)))
        following.cancel()
        core.appends.committed(Offset(core.end))
        assert (await write).base_offset == number


async def test_writes_that_wait_behind_a_flush_that_hangs_are_asked_for_once_leadership_is_lost():
    """The core refuses them at once; the end of the flush may never come."""
    core = await held()
    waiting = core.write(b"waits")
    await turns()
    assert core.asked == []
    core.appends.leadership_lost()
    await turns()
    [request] = core.asked
    core.appends.refused(Refused(request.request_id, NotTheLeader()))
    assert (await error_of(waiting))[1] == "not_done"
    assert core.appends.idle


async def test_a_commit_sends_what_has_gathered_meanwhile_though_the_flush_goes_on():
    core = Core()
    writes = [core.write(b"1")]
    await turns()
    core.flushing = True
    core.accept(core.asked[0])
    writes += [core.write(b"2"), core.write(b"3")]
    await turns()
    core.appends.committed(Offset(1))
    assert values_of(core.asked[1]) == [b"2", b"3"]
    core.accept(core.asked[1])
    core.appends.committed(Offset(3))
    assert [(await write).base_offset for write in writes] == [0, 1, 2]


async def test_a_quick_flush_is_waited_for_as_ever(looped_time):
    core = await held()
    core.flush_age_s = SLOW_FLUSH_S / 2
    first = core.write(b"1")
    await turns()
    core.appends.committed(Offset(1))
    await turns()
    assert core.asked == [], "it gathers more until the flush ends"
    second = core.write(b"2")
    await turns()
    core.flushing = False
    core.appends.pump()
    assert values_of(core.asked[0]) == [b"1", b"2"]
    core.accept(core.asked[0])
    core.appends.committed(Offset(3))
    assert [(await write).base_offset for write in (first, second)] == [1, 2]


async def test_a_flush_that_turns_out_to_be_slow_is_not_waited_for(looped_time):
    core = await held()
    core.flush_age_s = SLOW_FLUSH_S / 2
    write = core.write(b"1")
    await turns()
    core.appends.committed(Offset(1))
    await turns()
    assert core.asked == []
    core.flush_age_s = SLOW_FLUSH_S
    await looped_time(1000 * SLOW_FLUSH_S)
    assert values_of(core.asked[0]) == [b"1"]
    core.accept(core.asked[0])
    core.appends.committed(Offset(2))
    assert (await write).base_offset == 1


async def test_one_batch_is_asked_at_a_time():
    core = Core()
    core.write(b"1")
    await turns()
    second = core.write(b"2")
    await turns()
    core.appends.pump()
    assert len(core.asked) == 1
    core.appends.fail_all(refusal("SHUTTING_DOWN", "stop"))
    assert await error_of(second) == ("SHUTTING_DOWN", "not_done")


async def test_a_batch_ends_before_it_grows_too_large_but_one_write_always_fits():
    core = Core(batch_bytes_max=2 * (10 + RECORD_OVERHEAD_BYTES))
    for value in (b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 500):
        core.write(value)
    await turns()
    for request in range(3):
        core.accept(core.asked[request])
        core.appends.pump()
    assert [request.record_count for request in core.asked] == [2, 1, 1]
    core.appends.committed(Offset(4))


async def test_a_write_waits_for_more_only_as_long_as_linger_says(looped_time):
    await looped_time(0)  # from now on no time passes by itself
    core = Core(linger_ms=20)
    core.write(b"1")
    await turns()
    await looped_time(15)
    core.write(b"2")
    await turns()
    assert core.asked == []
    await looped_time(10)
    assert [request.record_count for request in core.asked] == [2]
    core.appends.leadership_lost()
    core.appends.fail_all(refusal("SHUTTING_DOWN", "stop"))


TAKEN = "runtime.writes.appends:Appends._taken"


@pytest.mark.without(TAKEN, "if is_open and not finished:", "if batches:")
@pytest.mark.without(TAKEN, "if is_open and not finished:", "if is_open:")
@pytest.mark.without(TAKEN, "is_open = not finished", "is_open = True")
@pytest.mark.without(TAKEN, "is_open = not finished", "is_open = False")
async def test_a_finished_batch_stays_one_between_the_writes_before_and_after_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(clock, "wall_ms", lambda: 777)
    core, outcomes = Core(), list[CommittedRun | RequestError]()
    core.end = 40
    for values in ([b"1"], [b"2"]):
        core.appends.submit([NewRecord(None, value) for value in values], outcomes.append)
    for values in ([b"3", b"4"], [b"5"]):
        batch = read_finished_batch(encode_keyless_batch(values, 5), 10)
        core.appends.submit_batch(batch, outcomes.append)
    for value in (b"6", b"7"):
        core.appends.submit([NewRecord(b"key", value)], outcomes.append)
    assert core.appends.pending == 6
    await turns()
    assert [values_of(request) for request in core.asked] == [
        [b"1", b"2"],
        [b"3", b"4"],
        [b"5"],
        [b"6", b"7"],
    ]
    assert [read_header(request.data).max_timestamp_ms for request in core.asked] == [777] * 4
    for request in core.asked:
        core.accept(request)
    core.appends.committed(Offset(44))
    assert outcomes == [
        CommittedRun(Offset(base), Offset(last), EPOCH)
        for base, last in ((40, 40), (41, 41), (42, 43))
    ]
    core.appends.leadership_lost()
    assert [outcome.error for outcome in outcomes[3:]] == ["LEADERSHIP_LOST"] * 3
    assert core.appends.idle


async def test_finished_batches_count_against_the_limits_of_queue_and_batch():
    core = await held(queue_bytes_max=2000, batch_bytes_max=1000)
    finished = read_finished_batch(encode_keyless_batch([b"x" * 600], 0), 10)
    outcomes = list[CommittedRun | RequestError]()
    for _ in range(2):
        core.appends.submit_batch(finished, outcomes.append)
    assert core.appends.queued_bytes == 2 * len(finished.data)
    with pytest.raises(RequestError, match="waiting to be written"):
        core.appends.submit_batch(
            read_finished_batch(encode_keyless_batch([b"x" * 800], 0), 10), outcomes.append
        )
    core.flushing = False
    core.appends.pump()
    assert len(core.asked) == 1, "both together are larger than a batch may be"
    core.appends.refused(Refused(next(iter(core.appends._asked)), NotTheLeader()))
    await turns()
    assert len(core.asked) == 2
    assert [outcome.error for outcome in outcomes] == ["NOT_LEADER"]
    write = next(iter(core.appends._asked.values())).writes[0]
    assert write.too_late(5).error == "TIMED_OUT"


async def test_a_full_queue_refuses_at_once_and_says_that_nothing_is_done():
    core = await held(queue_bytes_max=200)
    waiting = core.write(b"x" * 100)
    await turns()
    assert core.appends.queued_bytes == 100 + RECORD_OVERHEAD_BYTES
    assert await error_of(core.write(b"y" * 100)) == ("QUEUE_FULL", "not_done")
    core.flushing = False
    core.appends.pump()
    assert core.appends.queued_bytes == 0
    core.accept(core.asked[0])
    core.appends.committed(Offset(2))
    await waiting


async def test_one_write_always_fits_into_an_empty_queue():
    """Else the largest record that the API lets through would be refused for ever."""
    core = Core(queue_bytes_max=1000, batch_bytes_max=1000)
    write = core.write(b"x" * 1000)
    await turns()
    core.accept(core.asked[0])
    core.appends.committed(Offset(1))
    await write


async def test_a_write_whose_time_runs_out_in_the_queue_is_certainly_not_done():
    core = await held()
    write = core.write(b"late", timeout_ms=1)
    assert await error_of(write) == ("NOT_COMMITTED", "not_done")
    assert core.appends.queued_bytes == 0
    core.flushing = False
    core.appends.pump()
    assert core.asked == []
    core.appends.committed(Offset(1))
    assert core.appends.idle


async def test_a_write_whose_time_runs_out_later_may_be_done():
    core = Core()
    asked = core.write(b"1", timeout_ms=5)
    await turns()
    assert await error_of(asked) == ("TIMED_OUT", "unknown")
    core.accept(core.asked[0])
    core.appends.committed(Offset(1))  # no client listens any more; nothing breaks
    appended = core.write(b"2", timeout_ms=5)
    await turns()
    core.accept(core.asked[1])
    assert await error_of(appended) == ("TIMED_OUT", "unknown")
    core.appends.leadership_lost()
    assert core.appends.idle


async def test_a_write_committed_in_the_turn_of_its_time_out_is_done():
    core = Core()
    write = core.write(b"1", timeout_ms=5)
    await turns()
    core.accept(core.asked[0])

    def both() -> None:
        core.appends.committed(Offset(1))

    asyncio.get_running_loop().call_later(0.0049, both)
    try:
        done = await write
    except RequestError as error:
        assert error.outcome == "unknown"  # noqa: PT017 - either, but never `not_done`
    else:
        assert done.base_offset == 0


async def test_a_cancelled_write_leaves_the_queue_and_takes_no_other_with_it():
    core = await held()
    cancelled, kept = core.write(b"1"), core.write(b"2")
    await turns()
    cancelled.cancel()
    await turns()
    core.flushing = False
    core.appends.pump()
    assert values_of(core.asked[0]) == [b"2"]
    core.accept(core.asked[0])
    core.appends.committed(Offset(2))
    assert (await kept).base_offset == 1


async def test_a_write_cancelled_after_its_append_disturbs_no_other():
    core = Core()
    cancelled, kept = core.write(b"1"), core.write(b"2")
    await turns()
    cancelled.cancel()
    await turns()
    core.accept(core.asked[0])
    core.appends.committed(Offset(2))
    assert (await kept).base_offset == 1


async def test_a_refused_batch_is_not_done_and_the_next_follows():
    core = Core()
    write = core.write(b"1")
    await turns()
    later = core.write(b"2")
    await turns()
    assert core.appends.refused(Refused(core.asked[0].request_id, DiskFull()))
    assert await error_of(write) == ("STORAGE_FULL", "not_done")
    await turns()
    core.accept(core.asked[1])
    core.appends.committed(Offset(1))
    await later


async def test_a_refusal_of_another_request_belongs_to_no_write():
    core = Core()
    assert not core.appends.refused(Refused(77, NotStartedInTime(Awaited.LEADER)))


async def test_lost_leadership_leaves_appended_writes_open_and_refuses_the_rest():
    core = Core()
    appended = core.write(b"1")
    await turns()
    core.accept(core.asked[0])
    waiting = core.write(b"2")
    await turns()
    core.appends.pump()
    core.appends.leadership_lost()
    assert await error_of(appended) == ("LEADERSHIP_LOST", "unknown")
    core.appends.refused(Refused(core.asked[1].request_id, NotTheLeader()))
    assert await error_of(waiting) == ("NOT_LEADER", "not_done")
    core.appends.committed(Offset(5))  # another leader's, at the same offsets
    assert core.appends.idle


async def test_what_was_committed_before_leadership_was_lost_is_done():
    core = Core()
    first = core.write(b"1")
    await turns()
    core.accept(core.asked[0])
    core.appends.pump()
    second = core.write(b"2")
    await turns()
    core.accept(core.asked[1])
    core.appends.committed(Offset(1))
    core.appends.leadership_lost()
    assert (await first).base_offset == 0
    assert await error_of(second) == ("LEADERSHIP_LOST", "unknown")


async def test_when_the_node_stops_everybody_hears_what_is_true():
    core = Core()
    appended = core.write(b"1")
    await turns()
    core.accept(core.asked[0])
    core.appends.pump()
    asked = core.write(b"2")
    await turns()
    core.flushing = True
    queued = core.write(b"3")
    await turns()
    core.appends.fail_all(refusal("SHUTTING_DOWN", "stop"))
    assert await error_of(appended) == ("LEADERSHIP_LOST", "unknown")
    assert await error_of(asked) == ("LEADERSHIP_LOST", "unknown")
    assert await error_of(queued) == ("SHUTTING_DOWN", "not_done")
    assert core.appends.idle
    assert core.appends.queued_bytes == 0


async def test_records_that_make_no_batch_are_refused_and_block_no_other():
    """Were the request noted first, every later batch would wait for its answer for ever."""
    core = Core(batch_bytes_max=1)
    empty, good = core.write(), core.write(b"1")
    assert await error_of(empty) == ("INVALID_REQUEST", "not_done")
    await turns()
    core.accept(core.asked[0])
    core.appends.committed(Offset(1))
    await good


async def test_a_write_leaves_a_long_queue_as_quickly_as_a_short_one():
    core = Core(queue_bytes_max=1 << 30, batch_bytes_max=1 << 30)
    submit = core.appends.submit

    def done(_outcome: object) -> None:
        raise AssertionError("no write gets an outcome after its deadline")

    begun = [submit([NewRecord(b"key", None)], done) for _ in range(10_000)]
    await turns()
    assert len(core.asked) == 1
    queued = [submit([NewRecord(b"key", None)], done) for _ in range(10_000)]
    began_s = time.perf_counter()
    outcomes = [write.too_late(5).outcome for write in (*begun, *reversed(queued))]
    assert time.perf_counter() - began_s < 1
    assert outcomes == ["unknown"] * 10_000 + ["not_done"] * 10_000
    assert core.appends.queued_bytes == 0
    core.accept(core.asked[0])
    core.appends.committed(Offset(10_000))
    await turns()
    assert len(core.asked) == 1, "what was withdrawn is never written"
