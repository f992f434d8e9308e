"""What a leader knows of a replica: acknowledgements and catch-up rounds (S10, S13)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.replication.progress import Progress
from raftnode.core.types import Offset

pytestmark = pytest.mark.rule("P37")


def fetched(progress: Progress, acknowledged: int, log_end: int, now_ms: int) -> None:
    progress.last_fetch_ms = now_ms
    progress.fetched(Offset(acknowledged), Offset(log_end), now_ms)


@given(st.lists(st.integers(0, 100)))
def test_acknowledged_never_falls(offsets: list[int]):
    progress, most = Progress(), -1
    for now_ms, offset in enumerate(offsets):
        fetched(progress, offset, 100, now_ms)
        most = max(most, offset)
        assert progress.acknowledged == most


@pytest.mark.rule("S13")
@pytest.mark.without(
    "core.replication.progress:Progress.fetched",
    "if self.acknowledged >= self.round_target:",
    "if self.acknowledged >= log_end:",
)
def test_round_ends_at_the_log_end_of_its_beginning():
    """S13: a replica that is always a little behind a moving end keeps up all the same."""
    progress = Progress()
    for step in range(20):
        fetched(progress, step * 10, step * 10 + 10, step * 100)
    assert progress.round_ms is not None
    assert progress.round_ms <= 200
    assert progress.is_caught_up(1900, 2000, 1000)


def test_replica_that_falls_behind_is_not_caught_up():
    progress = Progress()
    fetched(progress, 10, 10, 0)
    fetched(progress, 10, 10, 100)
    assert progress.is_caught_up(200, 2000, 1000)
    for now_ms in range(200, 1500, 100):
        fetched(progress, 10, 10_000, now_ms)
    assert not progress.is_caught_up(1500, 2000, 1000)


def test_silent_replica_is_not_caught_up():
    progress = Progress()
    fetched(progress, 10, 10, 0)
    fetched(progress, 10, 10, 100)
    assert progress.is_caught_up(2100, 2000, 1000)
    assert not progress.is_caught_up(2101, 2000, 1000)


def test_replica_that_never_fetched_and_a_fenced_one_are_not_caught_up():
    progress = Progress()
    assert not progress.is_caught_up(0, 2000, 1000)
    fetched(progress, 10, 10, 0)
    fetched(progress, 10, 10, 0)
    progress.fenced = True
    assert not progress.is_caught_up(0, 2000, 1000)


@pytest.mark.without(
    "core.replication.progress:Progress.is_caught_up", "self.round_ms > round_max_ms or ", ""
)
@pytest.mark.rule("S13")
def test_boundaries_of_being_caught_up():
    """A round that takes exactly the limit is short enough; one unit more is not."""
    progress = Progress()
    fetched(progress, 10, 10, 500)
    assert progress.last_caught_up_ms == 500
    fetched(progress, 10, 11, 600)
    assert progress.last_caught_up_ms == 500, "the end has moved on"
    fetched(progress, 11, 11, 1600)
    assert progress.last_caught_up_ms == 1600
    assert progress.round_ms == 1000
    assert progress.is_caught_up(1600, 2000, 1000)
    assert not progress.is_caught_up(1600, 2000, 999)
    fetched(progress, 11, 20, 1700)
    assert progress.round_started_ms is not None
    limit = progress.round_started_ms + 1000
    assert progress.is_caught_up(limit, 2000, 1000)
    behind = progress.acknowledged < progress.round_target
    assert progress.is_caught_up(limit + 1, 2000, 1000) is not behind


def test_replica_in_its_first_round_is_not_caught_up():
    """However near it is: how long a round takes is not known yet."""
    progress = Progress()
    fetched(progress, 9, 10, 0)
    assert (progress.round_ms, progress.round_started_ms) == (None, 0)
    assert not progress.is_caught_up(1, 2000, 1000)


@pytest.mark.rule("P26", "P60")
def test_replica_that_is_always_a_little_behind_was_caught_up_lately():
    """Under steady writes no Fetch finds the log's end, only the end that the last one was told.

    Its time is that of the Fetch for which the leader had just as much, and never goes back.
    """
    progress = Progress()
    fetched(progress, 10, 10, 0)
    for step in range(1, 50):
        fetched(progress, 10 * step, 10 * step + 10, 100 * step)
        assert progress.last_caught_up_ms == 100 * (step - 1)
    fetched(progress, 490, 900, 6000)
    assert progress.last_caught_up_ms == 4800, "no Fetch has brought what there was at 4900"
    fetched(progress, 500, 900, 7000)
    assert progress.last_caught_up_ms == 4900
    fetched(progress, 900, 900, 7500)
    assert progress.last_caught_up_ms == 7500
