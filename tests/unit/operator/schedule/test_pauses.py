"""Pauses grow with failures, and differ between tasks that began together."""

from __future__ import annotations

import pytest

from kraftquorum_operator.schedule.pauses import JITTER, after_failures_s, jittered_s

PAUSES = "kraftquorum_operator.schedule.pauses"


@pytest.mark.without(f"{PAUSES}:after_failures_s", "failures - 1", "failures")
@pytest.mark.without(f"{PAUSES}:after_failures_s", "2**doublings", "1")
def test_each_failure_in_a_row_doubles_the_pause_up_to_the_longest() -> None:
    assert [after_failures_s(count, 1.0, 10.0) for count in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_the_pause_stays_a_number_after_any_count_of_failures() -> None:
    assert after_failures_s(100_000, 1.0, 60.0) == 60


@pytest.mark.without(f"{PAUSES}:after_failures_s", "max(first_s, longest_s)", "longest_s")
def test_no_pause_is_shorter_than_the_first() -> None:
    assert after_failures_s(3, 300.0, 120.0) == 300


@pytest.mark.without(f"{PAUSES}:jittered_s", "random.uniform(*JITTER)", "1.0")
def test_pauses_that_began_together_drift_apart() -> None:
    low, high = JITTER
    pauses = {jittered_s(10.0) for _ in range(100)}
    assert len(pauses) > 50
    assert all(10 * low <= pause_s <= 10 * high for pause_s in pauses)
