"""Requests start a few in a turn of the loop, holder by holder; large answers wait for room."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from raftnode.limits.answers import HOLDER, UnreadAnswers
from raftnode.limits.starts import FairStarts


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_turn_starts_a_few_and_each_holder_gets_its_own() -> None:
    starts, began, in_turn, turn = FairStarts(2, turn_s=60), list[str](), Counter[int](), 0

    async def request(holder: str) -> None:
        await starts.start(holder)
        began.append(holder)
        in_turn[turn] += 1

    async with asyncio.TaskGroup() as group:
        for holder in ("a", "a", "a", "a", "a", "a", "b"):
            group.create_task(request(holder))
        while len(began) < 7:
            turn += 1
            await asyncio.sleep(0)
    assert began == ["a", "a", "a", "b", "a", "a", "a"]
    assert max(in_turn.values()) == 2
    assert not starts.waits


async def test_a_long_turn_starts_nothing_more() -> None:
    starts, began = FairStarts(10, turn_s=0), list[int]()

    async def request(number: int) -> None:
        await starts.start("a")
        began.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(request(number))
        await turns(1)
        assert began == []
    assert began == [0, 1, 2]


async def test_a_client_that_has_gone_takes_no_place_of_a_turn() -> None:
    starts, began = FairStarts(1, turn_s=60), list[str]()

    async def request(name: str) -> None:
        await starts.start("a")
        began.append(name)

    tasks = [asyncio.get_running_loop().create_task(request(name)) for name in "abc"]
    await turns(1)
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert began == ["a", "c"]


async def test_large_answers_are_made_while_there_is_room_and_holder_by_holder() -> None:
    answers, made = UnreadAnswers(100), list[str]()

    async def answer(holder: str) -> None:
        HOLDER.set(holder)
        await answers.room()
        answers.add(60)
        made.append(holder)

    async with asyncio.TaskGroup() as group:
        for holder in ("a", "a", "a", "a", "b"):
            group.create_task(answer(holder))
        await turns(3)
        assert (made, answers.total, answers.waits) == (["a", "a"], 120, True)
        answers.measured(120)
        await turns(3)
        assert len(made) == 2
        answers.measured(50)
        await turns(4)
        assert made[2:] in (["a"], ["a", "b"])
        answers.measured(0)
        await turns(6)
        answers.measured(0)
    assert sorted(made) == ["a", "a", "a", "a", "b"]
    assert made.index("b") < 4


@pytest.mark.parametrize("gone", [0, 1])
async def test_a_reader_that_has_gone_keeps_no_other_waiting(gone: int) -> None:
    answers = UnreadAnswers(10)
    answers.add(10)
    tasks = [asyncio.get_running_loop().create_task(answers.room()) for _ in range(2)]
    await turns(1)
    tasks[gone].cancel()
    answers.measured(0)
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [gone == 0, gone == 1]
