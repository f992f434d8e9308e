"""The summary of an export: what follows what, without Spark."""

from __future__ import annotations

import pytest

from kraftquorum_pipeline.errors import CorruptError
from kraftquorum_pipeline.jobs.export import Export, Exported


def batch(number, start, end, *, again=False, **rows):
    return Exported(number, rows or {"data": end - start}, start, end, 0, 10, 1.0, again)


def test_batches_that_follow_each_other_add_up():
    summary = Export("here", "c", 300)
    summary.add(batch(0, 0, 100))
    summary.add(batch(1, 100, 250, data=149, corrupt=1))
    assert (summary.start, summary.end, summary.batches) == (0, 250, 2)
    assert (summary.rows, summary.bytes) == ({"data": 249, "corrupt": 1}, 20)


def test_a_gap_between_batches_is_an_error_with_its_offset():
    summary = Export("here", "c", 300)
    summary.add(batch(0, 0, 100))
    with pytest.raises(CorruptError, match="here at offset 100: batch 1 begins with offset 120"):
        summary.add(batch(1, 120, 200))


def test_a_batch_that_this_run_has_moved_already_counts_once():
    summary = Export("here", "c", 300)
    summary.add(batch(0, 0, 100))
    summary.add(batch(0, 0, 100, again=True))
    assert (summary.end, summary.batches, summary.rows) == (100, 1, {"data": 100})
