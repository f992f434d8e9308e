"""The sum is that of the batches above the high watermark, whatever the order of events."""

from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.replication.uncommitted_batches import Uncommitted
from raftnode.core.types import Offset


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100), st.integers(0, 60))))
def test_size_is_that_of_the_batches_above_the_high_watermark(steps: list[tuple[int, int, int]]):
    counted, batches, end, high_watermark = Uncommitted(), list[tuple[int, int]](), 0, 0
    for records, size, committed in steps:
        end += records
        counted.appended(Offset(end), size)
        batches.append((end, size))
        high_watermark = max(high_watermark, min(committed, end))
        counted.committed(Offset(high_watermark))
        assert counted.size == sum(size for at, size in batches if at > high_watermark)


def test_room_is_up_to_the_limit_and_for_one_batch_at_least():
    counted = Uncommitted()
    assert counted.has_room(1000, 10)
    counted.appended(Offset(1), 4)
    assert counted.has_room(6, 10)
    assert not counted.has_room(7, 10)
