"""Pauses that end early."""

from __future__ import annotations

from kraftquorum_operator.schedule.wake_ups import Wakeups


async def test_a_pause_ends_at_once_when_something_changed_even_before_it() -> None:
    wakeups = Wakeups()
    assert not await wakeups.pause("n", "q", 0.01)
    wakeups.wake("n", "q")
    wakeups.wake("n", "other")
    assert await wakeups.pause("n", "q", 60)
    assert not await wakeups.pause("n", "q", 0.01)
    wakeups.forget("n", "q")
