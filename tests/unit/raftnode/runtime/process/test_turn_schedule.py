"""Turns are taken soon or in time, one for all that wanted it, and none after the wait ended."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from raftnode.runtime.process.turn_schedule import TurnSchedule

LONG_S = 30.0


class Turns:
    """Counts its turns, and returns what the test has written down."""

    def __init__(self, *results: str | Exception | None) -> None:
        self.results = list(results)
        self.taken = 0
        self.schedule = TurnSchedule[str](self.take)

    def take(self) -> str | None:
        self.taken += 1
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result


async def test_many_wishes_are_one_turn_and_a_result_ends_the_wait() -> None:
    turns = Turns(None, "barrier")
    waiting = asyncio.get_running_loop().create_task(turns.schedule.until_result())
    await asyncio.sleep(0)
    for _ in range(3):
        turns.schedule.want()
    await asyncio.sleep(0)
    assert turns.taken == 1
    turns.schedule.want()
    assert await waiting == "barrier"
    turns.schedule.want()
    turns.schedule.want_within(0)
    await asyncio.sleep(0.01)
    assert turns.taken == 2


async def test_an_error_ends_the_wait() -> None:
    turns = Turns(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await turns.schedule.until_result()


async def test_a_turn_is_taken_in_time_and_an_earlier_time_stays() -> None:
    turns = Turns(None, "in time")
    waiting = asyncio.get_running_loop().create_task(turns.schedule.until_result())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    turns.schedule.want_within(LONG_S)
    turns.schedule.want_within(0.005)
    turns.schedule.want_within(LONG_S)
    async with asyncio.timeout(LONG_S / 2):
        assert await waiting == "in time"


async def test_the_end_takes_no_further_turn() -> None:
    turns = Turns()
    waiting = asyncio.get_running_loop().create_task(turns.schedule.until_result())
    await asyncio.sleep(0)
    turns.schedule.end()
    assert await waiting is None
    assert turns.taken == 0


@pytest.mark.without(
    "runtime.process.turn_schedule:TurnSchedule._take_timed", "self.want()", "self._take()"
)
async def test_what_came_while_the_loop_stood_still_is_heard_before_the_turn_that_was_due() -> None:
    """A turn at once makes this fail: a leader in time would be missed after each pause."""
    loop, turns = asyncio.get_running_loop(), Turns()
    turns_before: list[int] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def arrived() -> None:
            loop.remove_reader(ours)
            # As a task that waits for a frame, which runs in the next round.
            loop.call_soon(lambda: turns_before.append(turns.taken))

        loop.add_reader(ours, arrived)
        waiting = loop.create_task(turns.schedule.until_result())
        while turns.taken == 0:  # noqa: ASYNC110 - the turn that begins each wait
            await asyncio.sleep(0)
        turns.schedule.want_within(0.02)
        theirs.send(b"x")
        time.sleep(0.05)  # noqa: ASYNC251 - the loop stands still
        while turns.taken == 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
    turns.schedule.end()
    assert await waiting is None
    assert turns_before == [1], "the turn came after what was there"
