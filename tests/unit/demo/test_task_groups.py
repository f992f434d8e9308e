"""Coroutines beside each other: ends and failures."""

import asyncio

import pytest

from kraftquorum_demo.task_groups import run_together, run_with_background


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("background")


async def fail(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def test_what_runs_in_the_background_ends_with_the_script():
    ended: list[str] = []
    await run_with_background(asyncio.sleep(0.01), forever(ended), forever(ended))
    assert ended == ["background", "background"]


async def test_the_first_failure_ends_all_and_is_raised_as_it_is():
    ended: list[str] = []
    with pytest.raises(KeyError, match="planted"):
        await run_with_background(forever(ended), forever(ended), fail(KeyError("planted")))
    assert ended == ["background", "background"]
    with pytest.raises(KeyError, match="planted"):
        await run_together(forever(ended), run_together(fail(KeyError("planted"))))


async def test_a_failing_script_ends_the_background():
    ended: list[str] = []
    with pytest.raises(OSError, match="planted"):
        await run_with_background(fail(OSError("planted")), forever(ended))
    assert ended == ["background"]
