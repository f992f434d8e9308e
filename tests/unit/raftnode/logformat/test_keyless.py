"""Batches without keys: written as any other is, and no batch passes that a leader would not make."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from proofkit.badrequests.batches import NOW_MS, RECORDS_MAX, SECOND, SOUND, wrong_batches
from raftnode.core.records import Batch, RaftVersion
from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError
from raftnode.logformat.batch import (
    HEADER_BYTES,
    Record,
    decode_batches,
    encode_control_batch,
    encode_data_batch,
    encode_records,
    iter_headers,
    iter_records,
    read_header,
    stamp,
)
from raftnode.logformat.encoding import uvarint
from raftnode.logformat.keyless import (
    RECORD_BYTES_MAX,
    Sizes,
    encode_keyless_batch,
    keyless_sizes,
    place_finished_batch,
    read_finished_batch,
)

SIZES = "logformat.keyless:keyless_sizes"
READ = "logformat.keyless:read_finished_batch"
EDGES = [0, 1, 55, 56, 57, 58, 63, 64, 65, 127, 128, 8180, 8185, 8191, 8192, 20_000]
VALUES = st.lists(
    st.binary(max_size=5) | st.sampled_from(EDGES).map(bytes), min_size=1, max_size=20
)


def plain(values: Sequence[bytes]) -> bytes:
    return encode_data_batch([Record(None, value) for value in values], NOW_MS)


def sizes_of(data: bytes, position: int = 0) -> Sizes | None:
    return keyless_sizes(read_header(data, position), data, position)


@given(VALUES)
def test_values_are_encoded_as_records_without_keys_are(values: list[bytes]):
    data = encode_keyless_batch(values, NOW_MS)
    assert data == plain(values)
    sizes = [len(value) for value in values]
    assert sizes_of(data) == Sizes(max(sizes), sizes.index(max(sizes)), sum(sizes))
    assert len(data) <= HEADER_BYTES + sum(sizes) + RECORD_BYTES_MAX * len(values)
    finished = read_finished_batch(data, len(values))
    assert (finished.data, finished.record_count) == (data, len(values))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 10_000])
def test_offset_deltas_of_any_width_are_the_same_by_both_ways(count: int):
    values = [b"value"] * count
    data = encode_keyless_batch(values, NOW_MS)
    assert data == plain(values)
    assert sizes_of(data) == Sizes(5, 0, 5 * count)


@pytest.mark.parametrize("size", [1_048_570, 1_048_576, 2_000_000])
def test_large_values_are_the_same_by_both_ways(size: int):
    values = [b"small", bytes(size), b""]
    data = encode_keyless_batch(values, NOW_MS)
    assert data == plain(values)
    assert sizes_of(data) == Sizes(size, 1, size + 5)


def test_batches_are_looked_through_where_they_stand():
    keyless, keyed = plain([b"a", b"bc"]), encode_data_batch([Record(b"k", b"v")], NOW_MS)
    data = keyless + keyed + plain([b"d"])
    assert [keyless_sizes(header, data, position) for position, header in iter_headers(data)] == [
        Sizes(2, 1, 3),
        None,
        Sizes(1, 0, 1),
    ]


@pytest.mark.without(READ, "header.size != len(data)", "header.size > len(data)")
@pytest.mark.without(READ, "if header.is_control:", "if False:")
@pytest.mark.without(READ, "header.record_count > records_max", "False")
@pytest.mark.without(READ, "check_crc(header, data)", "pass")
@pytest.mark.without(READ, "!= data:", "== b'':")
@pytest.mark.without(SIZES, "or data[position - 1]", "")
@pytest.mark.without(SIZES, "if position == end", "if True")
def test_a_batch_with_one_thing_wrong_is_refused_with_the_reason():
    assert read_finished_batch(SOUND, RECORDS_MAX).record_count == 2
    for row in wrong_batches():
        with pytest.raises(DecodeError) as caught:
            read_finished_batch(row.data, RECORDS_MAX)
        assert row.reason in str(caught.value), row.what


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
def test_a_batch_that_is_cut_is_refused(size: int):
    with pytest.raises(DecodeError):
        read_finished_batch(SOUND[:size], RECORDS_MAX)


def test_a_control_batch_is_refused_by_name():
    data = encode_control_batch(
        Batch(Offset(0), Offset(0), Epoch(-1), b"", (RaftVersion(2),)), NOW_MS
    )
    with pytest.raises(DecodeError, match="a control batch"):
        read_finished_batch(data, RECORDS_MAX)


def mutated(draw: st.DataObject, data: bytes) -> bytes:
    """A batch whose records have some bytes replaced, removed or repeated, in a sound header."""
    records = data[HEADER_BYTES:]
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(0, min(len(records), 200)))
        removed = draw.draw(st.integers(0, 3))
        again = place if draw.draw(st.booleans()) else len(records)
        added = draw.draw(st.binary(max_size=2))
        records = records[:place] + added + records[place + removed :] + records[again:]
    return encode_records(records, draw.draw(st.integers(1, 21)), NOW_MS)


@given(values=VALUES, draw=st.data())
def test_what_passes_is_what_a_leader_would_have_encoded(values: list[bytes], draw: st.DataObject):
    data = mutated(draw, plain(values))
    try:
        finished = read_finished_batch(data, 100)
    except DecodeError:
        assert sizes_of(data) is None
        return
    passed = [entry.value or b"" for entry in iter_records(data)]
    assert plain(passed) == data
    assert finished.record_count == len(passed)
    assert finished.sizes.total_bytes == sum(map(len, passed))


@pytest.mark.without(
    "logformat.keyless:place_finished_batch", "timestamp_ms)", "timestamp_ms and 5)"
)
@given(VALUES)
def test_a_checked_batch_takes_the_leaders_time_and_place_and_keeps_its_records(
    values: list[bytes],
):
    finished = read_finished_batch(encode_keyless_batch(values, 5), 100)
    placed = place_finished_batch(finished, NOW_MS)
    assert placed == plain(values), "as if the leader had encoded the values"
    stamped = stamp(placed, Offset(40), Epoch(3))
    [batch] = decode_batches(stamped)
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (40, 39 + len(values), 3)
    read, size = read_batch(stamped, 0)
    assert size == len(stamped)
    assert [entry.value for entry in read.records] == values


def test_a_varint_of_many_bytes_is_no_size():
    data = encode_records(uvarint(1 << 40) + SECOND[1:], 1, NOW_MS)
    assert sizes_of(data) is None
