"""Batches without keys: written as any other is, and no batch passes that a leader would not make."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

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
from raftnode.logformat.encoding import uvarint, varint
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
NOW_MS = 1_700_000_000_000
EDGES = [0, 1, 55, 56, 57, 58, 63, 64, 65, 127, 128, 8180, 8185, 8191, 8192, 20_000]
VALUES = st.lists(
    st.binary(max_size=5) | st.sampled_from(EDGES).map(bytes), min_size=1, max_size=20
)


def plain(values: Sequence[bytes]) -> bytes:
    return encode_data_batch([Record(None, value) for value in values], NOW_MS)


def with_crc(batch: bytes) -> bytes:
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


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


def record(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(len(body)) + body


def batch_of(*records: bytes, count: int | None = None) -> bytes:
    joined = b"".join(records)
    return encode_records(joined, len(records) if count is None else count, NOW_MS)


def changed(field: str, place: int, value: int) -> bytes:
    data = bytearray(plain([b"a", b"b"]))
    struct.pack_into(field, data, place, value)
    return with_crc(bytes(data))


def huge(place: int) -> bytes:
    """A varint of five bytes, all ones, at a place of a sound record."""
    sound = record(b"\0\0", varint(0), b"\1", varint(1), b"v", b"\0")
    return batch_of(sound[:place] + b"\xff\xff\xff\xff\x0f" + sound[place + 1 :])


NO_KEY, VALUE = b"\1", varint(1) + b"v"
SOUND = record(b"\0\0", varint(0), NO_KEY, VALUE, b"\0")
CONTROL = encode_control_batch(
    Batch(Offset(0), Offset(0), Epoch(-1), b"", (RaftVersion(2),)), NOW_MS
)

HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the header is cut short"),
    "a header cut short": (plain([b"v"])[: HEADER_BYTES - 1], "the header is cut short"),
    "records cut short": (plain([b"v"])[:-1], "it has 68"),
    "trailing bytes": (plain([b"v"]) + b"\0", "it has 70"),
    "a second batch": (plain([b"v"]) * 2, "it has 138"),
    "a length below the header's": (changed(">i", 8, 40), "impossible header"),
    "a negative length": (changed(">i", 8, -1), "impossible header"),
    "a huge length": (changed(">i", 8, 2**31 - 1), "says that it has 2147483659"),
    "magic 1": (changed(">b", 16, 1), "magic 1"),
    "magic 3": (changed(">b", 16, 3), "magic 3"),
    "a wrong checksum": (plain([b"v"])[:-2] + b"w\0", "checksum"),
    "a control batch": (CONTROL, "a control batch"),
    "the bit of control": (changed(">h", 21, 0x20), "a control batch"),
    "the bit of transactions": (changed(">h", 21, 0x10), "attributes 0x10"),
    "the bit of log-append time": (changed(">h", 21, 0x08), "attributes 0x8"),
    "the bit of a delete horizon": (changed(">h", 21, 0x40), "attributes 0x40"),
    "an unknown bit": (changed(">h", 21, -0x8000), "impossible header"),
    "gzip": (changed(">h", 21, 1), "attributes 0x1"),
    "snappy": (changed(">h", 21, 2), "attributes 0x2"),
    "lz4": (changed(">h", 21, 3), "attributes 0x3"),
    "zstd": (changed(">h", 21, 4), "attributes 0x4"),
    "a negative last offset delta": (changed(">i", 23, -1), "last offset delta -1"),
    "a last offset delta that is no count": (changed(">i", 23, 2), "last offset delta 2"),
    "fewer records than counted": (batch_of(SOUND, count=2), "byte 69"),
    "more records than counted": (
        batch_of(SOUND, record(b"\0\0", varint(1), NO_KEY, VALUE, b"\0"), count=1),
        "8 bytes after the last record",
    ),
    "too many records": (plain([b""] * 4), "4 records; expected 1 to 3"),
    "a huge count": (batch_of(SOUND, count=2**31 - 1), "2147483647 records"),
    "a base offset": (changed(">q", 0, 5), "base offset"),
    "a negative base offset": (changed(">q", 0, -1), "impossible header"),
    "a leader epoch": (changed(">i", 12, 7), "leader epoch"),
    "a leader epoch below none": (changed(">i", 12, -2), "impossible header"),
    "a maximal timestamp of its own": (changed(">q", 35, NOW_MS + 1), "maximal timestamp"),
    "a producer id": (changed(">q", 43, 9), "producer"),
    "a producer epoch": (changed(">h", 51, 0), "producer"),
    "a sequence": (changed(">i", 53, 0), "producer"),
    "a key": (encode_data_batch([Record(b"k", b"v")], NOW_MS), "record 0 has a key"),
    "an empty key": (encode_data_batch([Record(b"", b"v")], NOW_MS), "record 0 has a key"),
    "a key after none": (
        encode_data_batch([Record(None, b"v"), Record(b"k", b"v")], NOW_MS),
        "record 1 has a key",
    ),
    "a delete": (encode_data_batch([Record(b"k", None)], NOW_MS), "record 0 has a key"),
    "no value": (encode_data_batch([Record(None, None)], NOW_MS), "record 0 has no value"),
    "record headers": (
        encode_data_batch([Record(None, b"v", (("name", b"value"),))], NOW_MS),
        "record 0 has headers",
    ),
    "record headers without a name": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, VALUE, varint(1), NO_KEY, varint(0))),
        "without a name",
    ),
    "record headers that are not UTF-8": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, VALUE, varint(1), varint(1), b"\xff", NO_KEY)),
        "not UTF-8",
    ),
    "more record headers than bytes": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, VALUE, varint(50))),
        "50 headers",
    ),
    "a negative number of record headers": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, VALUE, varint(-1))),
        "-1 headers",
    ),
    "record attributes": (
        batch_of(record(b"\1\0", varint(0), NO_KEY, VALUE, b"\0")),
        "record attributes 0x1",
    ),
    "a time of a record": (
        batch_of(record(b"\0", varint(1), varint(0), NO_KEY, VALUE, b"\0")),
        "a time of its own",
    ),
    "a negative time of a record": (
        batch_of(record(b"\0", varint(-1), varint(0), NO_KEY, VALUE, b"\0")),
        "a time of its own",
    ),
    "an offset delta that is skipped": (
        batch_of(record(b"\0\0", varint(1), NO_KEY, VALUE, b"\0")),
        "offset delta 1, expected 0",
    ),
    "an offset delta twice": (batch_of(SOUND, SOUND), "offset delta 0, expected 1"),
    "a negative offset delta": (
        batch_of(record(b"\0\0", varint(-1), NO_KEY, VALUE, b"\0")),
        "offset delta -1",
    ),
    "a record of no bytes": (batch_of(varint(0)), "record"),
    "a negative length of a record": (batch_of(varint(-5) + SOUND[1:]), "record of -5 bytes"),
    "a record that ends in the next": (
        batch_of(bytes([SOUND[0] + 2]) + SOUND[1:], SOUND),
        "record ends here",
    ),
    "a record that ends before its parts": (
        batch_of(bytes([SOUND[0] - 2]) + SOUND[1:]),
        "0 headers",
    ),
    "a record past the batch's end": (batch_of(varint(100) + SOUND[1:]), "record of 100 bytes"),
    "a value past the record's end": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, varint(100), b"v", b"\0")),
        "100 bytes expected",
    ),
    "a negative length of a value": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, varint(-2), b"v", b"\0")),
        "negative length -2",
    ),
    "a huge length of a record": (huge(0), "record of"),
    "a huge time of a record": (huge(2), "record"),
    "a huge offset delta": (huge(3), "record"),
    "a huge length of a key": (huge(4), "record"),
    "a huge length of a value": (huge(5), "record"),
    "a varint without an end": (batch_of(b"\xff" * 40), "varint longer than 32 bits"),
    "a length that is not as short as possible": (
        batch_of(bytes([SOUND[0] | 0x80, 0]) + SOUND[1:]),
        "as shortly as possible",
    ),
    "an offset delta that is not as short as possible": (
        batch_of(record(b"\0\0", b"\x80\0", NO_KEY, VALUE, b"\0")),
        "as shortly as possible",
    ),
    "a missing key that is not as short as possible": (
        batch_of(record(b"\0\0", varint(0), b"\x81\0", VALUE, b"\0")),
        "as shortly as possible",
    ),
    "a value's length that is not as short as possible": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, b"\x82\0v", b"\0")),
        "as shortly as possible",
    ),
    "a number of headers that is not as short as possible": (
        batch_of(record(b"\0\0", varint(0), NO_KEY, VALUE, b"\x80\0")),
        "as shortly as possible",
    ),
}


@pytest.mark.without(READ, "header.size != len(data)", "header.size > len(data)")
@pytest.mark.without(READ, "if header.is_control:", "if False:")
@pytest.mark.without(READ, "header.record_count > records_max", "False")
@pytest.mark.without(READ, "check_crc(header, data)", "pass")
@pytest.mark.without(READ, "!= data:", "== b'':")
@pytest.mark.without(SIZES, "or data[position - 1]", "")
@pytest.mark.without(SIZES, "if position == end", "if True")
def test_a_batch_with_one_thing_wrong_is_refused_with_the_reason():
    for name, (data, says) in HOSTILE.items():
        with pytest.raises(DecodeError) as caught:
            read_finished_batch(data, 3 if name == "too many records" else 10)
        assert says in str(caught.value), name


def test_a_batch_without_records_is_refused():
    data = bytearray(plain([b"v"])[:HEADER_BYTES])
    struct.pack_into(">i", data, 8, HEADER_BYTES - 12)
    for count, delta in ((0, -1), (0, 0), (-1, -2)):
        struct.pack_into(">i", data, 23, delta)
        struct.pack_into(">i", data, 57, count)
        with pytest.raises(DecodeError, match="impossible header"):
            read_finished_batch(with_crc(bytes(data)), 10)


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
    assert sizes_of(batch_of(uvarint(1 << 40) + SOUND[1:])) is None
