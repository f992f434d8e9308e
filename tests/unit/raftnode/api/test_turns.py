"""However many clients ask for much at once, the node's own work has its turns between."""

import asyncio
import contextlib
import itertools

import pytest

from raftnode.api import turns as module
from raftnode.api.turns import REST_AFTER_S, Turns
from raftnode.errors import RequestError


class Clock:
    """Goes on only when a task works or sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        made.slept.append(seconds)
        made.now_s += seconds
        await sleep(0)

    monkeypatch.setattr(module.time, "monotonic", made.monotonic)
    monkeypatch.setattr(module.asyncio, "sleep", note)
    return made


async def test_between_two_turns_everybody_else_has_one():
    turns, order = Turns(), list[str]()

    async def ask(name: str) -> None:
        async with turns.turn():
            order.append(name)

    async def work() -> None:
        for _ in range(40):
            order.append("work")
            await asyncio.sleep(0)

    await asyncio.gather(work(), *(ask(name) for name in "abcde"))
    asked = [place for place, name in enumerate(order) if name != "work"]
    assert len(asked) == 5
    assert all(later > earlier + 1 for earlier, later in itertools.pairwise(asked))


async def test_after_a_long_turn_the_next_waits_for_as_long(clock: Clock):
    turns = Turns()
    async with turns.turn():
        clock.now_s += 0.03
    assert clock.slept == [0], "a task that is alone waits for nothing"
    async with turns.turn():
        pass
    assert clock.slept[1] == pytest.approx(0.03)
    clock.now_s += 1
    async with turns.turn():
        pass
    assert clock.slept[2] == 0, "a rest that is over is over"


async def test_short_turns_are_added_up(clock: Clock):
    turns, short_s = Turns(), REST_AFTER_S / 4
    for _ in range(4):
        async with turns.turn():
            clock.now_s += short_s
    assert clock.slept == [0, 0, 0, 0]
    async with turns.turn():
        pass
    assert clock.slept[4] == pytest.approx(REST_AFTER_S)


async def test_a_turn_that_fails_or_is_given_up_ends_like_any(clock: Clock):
    turns = Turns()
    with contextlib.suppress(RequestError):
        async with turns.turn():
            clock.now_s += 0.5
            raise RequestError("OFFSET_OUT_OF_RANGE", "trimmed", status=404)
    waiting = asyncio.get_running_loop().create_task(_enter(turns))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with turns.turn():
        pass
    assert clock.slept[-1] == pytest.approx(0.5), "its work counts all the same"


async def _enter(turns: Turns) -> None:
    async with turns.turn():
        pass
