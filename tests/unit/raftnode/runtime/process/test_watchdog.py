"""What hangs is seen from a thread of its own, and what only stood still with all else is not."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.unit.raftnode.runtime.conftest import LONG_S, until

from raftnode.errors import ExitCode
from raftnode.runtime.disk.calls_in_flight import InFlight, Operation, WatchedCalls
from raftnode.runtime.process.watchdog import Stall, Stalls, Watchdog
from raftnode.storage.files import Files, OsCalls

TICK_S = 0.25
SYNC = Operation("fdatasync", "log")


def looked(*looks: tuple[float, tuple[Operation, ...], bool]) -> Stalls:
    stalls = Stalls(TICK_S)
    for now_s, operations, turned in looks:
        stalls.look(now_s, operations, loop_turned=turned)
    return stalls


def test_an_operation_is_measured_from_the_look_that_saw_it_first():
    stalls = looked((0, (), True), (0.25, (SYNC,), True), (0.5, (SYNC,), True))
    assert stalls.storage_s == 0.25
    stalls.look(0.75, (), loop_turned=True)
    assert stalls.storage_s == 0
    assert stalls.worst is None


def test_many_short_operations_are_no_stall():
    stalls = Stalls(TICK_S)
    for number in range(100):
        stalls.look(number * TICK_S, (Operation("fdatasync", "log"),), loop_turned=True)
    assert stalls.worst is None


def test_a_process_that_was_stopped_for_a_minute_has_not_waited_for_its_disk():
    stalls = looked((0, (SYNC,), True), (0.25, (SYNC,), False), (60.25, (SYNC,), False))
    worst = stalls.worst
    assert worst is not None
    assert worst.seconds <= 0.25 + 2 * TICK_S


def test_a_loop_that_waits_for_the_disk_is_a_stall_of_the_disk():
    looks = [(number * TICK_S, (SYNC,), number == 0) for number in range(10)]
    worst = looked(*looks).worst
    assert worst is not None
    assert (worst.code, "fdatasync of log" in str(worst)) == (ExitCode.STORAGE_STALLED, True)


def test_a_loop_that_does_not_turn_is_named_though_a_short_operation_is_under_way():
    looks = [(number * TICK_S, (), number == 0) for number in range(40)]
    stalls = looked(*looks, (10.0, (SYNC,), False), (10.25, (SYNC,), False))
    worst = stalls.worst
    assert worst is not None
    assert (worst.code, worst.seconds >= 9) == (ExitCode.LOOP_STALLED, True)


def test_an_operation_is_in_flight_until_it_returns_or_raises(tmp_path):
    in_flight, seen = InFlight(), list[str]()

    class Calls(OsCalls):
        def fdatasync(self, fd: int) -> None:
            seen.extend(str(one) for one in in_flight.now())
            raise OSError(5, "broken")

    files = Files(WatchedCalls(Calls(), in_flight))
    file = files.open(tmp_path / "log", create=True)
    file.pwrite(b"some", 0)
    assert file.pread(4, 0) == b"some"
    assert file.stat().size == 4
    with pytest.raises(Exception, match="Input/output error"):
        file.fdatasync()
    assert seen == [f"fdatasync of {tmp_path / 'log'}"]
    assert in_flight.now() == ()


async def test_a_call_that_hangs_is_told_by_liveness_before_it_ends_the_process():
    ended, hung = list[Stall](), threading.Event()
    told: list[bool] = []
    watchdog = Watchdog(
        600, lambda stall: (told.append(watchdog.stall is not None), ended.append(stall))
    )
    watchdog.attach(asyncio.get_running_loop())
    watchdog.start()
    hanging = threading.Thread(target=watchdog.in_flight.run, args=(SYNC, hung.wait, LONG_S))
    hanging.start()
    try:
        await until(lambda: watchdog.stall is not None)
        await until(lambda: bool(ended))
    finally:
        hung.set()
        hanging.join()
        watchdog.stop()
    assert ended[0].code is ExitCode.STORAGE_STALLED
    assert told == [True]
    assert ended[0].seconds >= 0.6


async def test_a_blocked_loop_ends_the_process():
    blocked = threading.Event()
    ended: list[Stall] = []

    def end(stall: Stall) -> None:
        ended.append(stall)
        blocked.set()

    watchdog = Watchdog(500, end)
    watchdog.attach(asyncio.get_running_loop())
    watchdog.start()
    await asyncio.sleep(0.05)
    assert blocked.wait(LONG_S), "nothing ends a loop that is blocked"
    watchdog.stop()
    assert ended[0].code is ExitCode.LOOP_STALLED


async def test_without_a_limit_nothing_ends_and_liveness_says_nothing():
    ended: list[Stall] = []
    watchdog, hung = Watchdog(0, ended.append), threading.Event()
    watchdog.start()
    hanging = threading.Thread(target=watchdog.in_flight.run, args=(SYNC, hung.wait, LONG_S))
    hanging.start()
    try:
        await until(lambda: watchdog.storage_s > 0.3)
    finally:
        hung.set()
        hanging.join()
        watchdog.stop()
    assert watchdog.stall is None
    assert not ended
