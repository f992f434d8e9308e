"""Who reconciles next, where there are more quorums than places."""

from __future__ import annotations

import asyncio

import pytest

from kraftquorum_operator.schedule.turns import URGENT_IN_A_ROW, Turns


async def order_of(turns: Turns, wanted: list[tuple[str, bool]]) -> list[str]:
    """The order in which quorums, urgent or not, get the one place that was taken when they came."""
    order: list[str] = []

    async def look(name: str, *, urgent: bool) -> None:
        async with turns.turn(name, urgent=urgent):
            order.append(name)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group, turns.turn("first"):
        for name, urgent in wanted:
            group.create_task(look(name, urgent=urgent))
            await asyncio.sleep(0)
    return order


@pytest.mark.without(
    "kraftquorum_operator.schedule.turns:_Places.release",
    "first = self._urgent and",
    "first = not self._others and",
)
async def test_a_broken_quorum_comes_before_those_at_rest() -> None:
    wanted = [("a", False), ("b", False), ("broken", True)]
    assert await order_of(Turns(at_once=1), wanted) == ["broken", "a", "b"]


async def test_quorums_at_rest_are_looked_at_however_many_are_broken() -> None:
    wanted = [("rest", False), *((f"b{n}", True) for n in range(2 * URGENT_IN_A_ROW))]
    order = await order_of(Turns(at_once=1), wanted)
    assert order.index("rest") == URGENT_IN_A_ROW


async def test_a_wait_that_is_cancelled_costs_no_place() -> None:
    turns = Turns(at_once=1)

    async def look() -> None:
        async with turns.turn("cancelled"):
            raise AssertionError

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        async with turns.turn("first"):
            waiting, late = group.create_task(look()), group.create_task(look())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
        late.cancel()  # it has got the place, and has not run yet
    assert await order_of(turns, [("next", False)]) == ["next"]
