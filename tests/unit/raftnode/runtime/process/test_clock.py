"""The core's clock counts the time that the machine slept."""

from __future__ import annotations

import time

import pytest

from raftnode.runtime.process import clock


@pytest.mark.rule("S33")
@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="Linux has such a clock")
def test_it_is_the_clock_that_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times_ns = {time.CLOCK_BOOTTIME: 7_999_999, time.CLOCK_MONOTONIC: 5_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", lambda which: times_ns[which])
    assert clock.now_ms() == 7
