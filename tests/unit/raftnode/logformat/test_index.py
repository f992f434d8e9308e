from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError
from raftnode.logformat.batch import BatchHeader
from raftnode.logformat.index import OffsetEntry, SegmentIndex, TimeEntry
from raftnode.storage.segments.index_cache import IndexCache

BASE = Offset(1000)


def header(base: int, count: int, size: int, timestamp_ms: int) -> BatchHeader:
    last = Offset(base + count - 1)
    return BatchHeader(
        Offset(base), last, Epoch(1), size, 0, False, timestamp_ms, timestamp_ms, count
    )


def made(
    sizes: list[int], times: list[int] | None = None
) -> tuple[SegmentIndex, list[BatchHeader]]:
    index, offset, position, seen = SegmentIndex(BASE), int(BASE), 0, []
    for number, size in enumerate(sizes):
        one = header(offset, 2, size, times[number] if times else 10 + number)
        index.note(one, position)
        seen.append(one)
        offset, position = offset + 2, position + size
    return index, seen


def test_entries_come_after_the_interval_and_point_to_the_start_of_a_batch() -> None:
    index, seen = made([3000, 3000, 3000, 3000, 3000])
    assert [index.entry(i) for i in range(len(index))] == [
        OffsetEntry(seen[2].last_offset, 6000),
        OffsetEntry(seen[4].last_offset, 12000),
    ]
    assert index.lookup(seen[2].base_offset) is None
    assert index.lookup(seen[2].last_offset) == OffsetEntry(seen[2].last_offset, 6000)
    assert index.lookup(seen[3].last_offset) == OffsetEntry(seen[2].last_offset, 6000)
    assert index.lookup(Offset(9999)) == OffsetEntry(seen[4].last_offset, 12000)


def test_files_have_kafkas_form() -> None:
    index, seen = made([5000, 5000, 10], [70, 50, 60])
    index.seal()
    second, last = seen[1].last_offset - BASE, seen[2].last_offset - BASE
    assert index.encoded_offsets() == struct.pack(">iiii", second, 5000, last, 10000)
    # The largest time up to the entry is the first batch's, and grows no more.
    assert index.encoded_times() == struct.pack(">qi", 70, seen[0].last_offset - BASE)


def test_a_full_segment_has_its_last_batch_in_the_index_once() -> None:
    index, seen = made([10, 10])
    index.seal()
    index.seal()
    assert [index.entry(i) for i in range(len(index))] == [OffsetEntry(seen[1].last_offset, 10)]
    empty = SegmentIndex(BASE)
    empty.seal()
    assert (len(empty), empty.last) == (0, None)


def test_batches_without_a_time_make_no_time_entry() -> None:
    index, _ = made([5000, 5000], [-1, -1])
    assert (len(index), index.time_entries) == (1, 0)


@given(st.lists(st.integers(1, 9000), max_size=40), st.integers(0, 90), st.data())
def test_what_is_cut_and_noted_again_is_what_was_never_cut(
    sizes: list[int], at: int, data: st.DataObject
) -> None:
    times = data.draw(st.lists(st.integers(0, 50), min_size=len(sizes), max_size=len(sizes)))
    whole, seen = made(sizes, times)
    cut = whole.cut(Offset(BASE + at))
    position = end = 0
    if cut.last is not None:
        last = next(one for one in seen if one.last_offset == cut.last.last_offset)
        cut.continue_after(last.size)
        position, end = cut.last.position + last.size, last.end_offset
    for one in seen:
        if one.base_offset >= max(end, int(BASE)):
            cut.note(one, position)
            position += one.size
    assert cut.encoded_offsets() == whole.encoded_offsets()
    assert cut.encoded_times() == whole.encoded_times()
    assert cut.largest == whole.largest


@given(st.lists(st.integers(1, 9000), max_size=40))
def test_what_is_read_from_the_files_is_what_was_written(sizes: list[int]) -> None:
    index, _ = made(sizes)
    again = SegmentIndex.decode(BASE, index.encoded_offsets(), index.encoded_times())
    assert again.encoded_offsets() == index.encoded_offsets()
    assert again.encoded_times() == index.encoded_times()
    assert again.last == index.last


@pytest.mark.parametrize(
    ("offsets", "times", "says"),
    [
        (b"123", b"", "not a whole number"),
        (b"", b"123", "not a whole number"),
        (struct.pack(">iiii", 1, 2, 1, 3), b"", "entry at byte 8: offset 1 after 1"),
        (struct.pack(">iiii", 1, 2, 2, 2), b"", "entry at byte 8: position 2 after 2"),
        (struct.pack(">ii", -1, 2), b"", "entry at byte 0: offset -1"),
        (b"", struct.pack(">qiqi", 5, 1, 5, 2), "entry at byte 12: timestamp 5 after 5"),
        (b"", struct.pack(">qiqi", 5, 1, 6, 1), "entry at byte 12: offset 1 after 1"),
    ],
)
def test_entries_that_make_no_sense_are_refused_or_left_out(
    offsets: bytes, times: bytes, says: str
) -> None:
    with pytest.raises(DecodeError, match=says):
        SegmentIndex.decode(BASE, offsets, times)
    torn = SegmentIndex.decode(BASE, offsets, times, torn=True)
    assert len(torn) + torn.time_entries <= 1


def test_times_beyond_32_bits_come_back() -> None:
    index, seen = made([5000, 5000], [1, 1_700_000_000_123])
    again = SegmentIndex.decode(BASE, b"", index.encoded_times())
    assert again.time_entry(0) == TimeEntry(1_700_000_000_123, seen[1].last_offset)


def test_the_cache_keeps_what_was_read_last(tmp_path) -> None:
    loads: list[str] = []
    cache = IndexCache(limit=2)

    def get(name: str) -> None:
        def load() -> SegmentIndex:
            loads.append(name)
            return SegmentIndex(BASE)

        cache.get(tmp_path / name, load)

    for name in "abacab":
        get(name)
    assert loads == ["a", "b", "c", "b"]
    cache.drop(tmp_path / "b")
    get("b")
    assert loads[-1] == "b"
