"""The usual record is decoded as any other is, only faster; a wrong one is refused alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError
from raftnode.logformat import batch as module
from raftnode.logformat.batch import (
    HEADER_BYTES,
    LogRecord,
    Record,
    encode_data_batch,
    iter_records,
    stamp,
)
from raftnode.logformat.encoding import varint
from raftnode.logformat.usual_record import read_usual_record

USUAL = "logformat.usual_record:read_usual_record"
SIZES = st.sampled_from([0, 1, 62, 63, 64, 127, 128, 1000, 4095, 4096, 8191, 8192, 20_000])
TEXTS = st.none() | st.binary(max_size=5) | SIZES.map(bytes)
HEADERS = st.just(()) | st.just((("name", b"value"),))
RECORDS = st.lists(st.builds(Record, TEXTS, TEXTS, HEADERS), min_size=1, max_size=20)


@contextmanager
def _without_usual_records() -> Iterator[None]:
    read = module.read_usual_record
    module.read_usual_record = lambda *_: None
    try:
        yield
    finally:
        module.read_usual_record = read


def _decoded(data: bytes) -> list[LogRecord] | str:
    try:
        return list(iter_records(data))
    except DecodeError as error:
        return str(error)


@given(records=RECORDS)
def test_records_are_the_same_by_both_ways(records: list[Record]):
    data = stamp(encode_data_batch(records, 7), Offset(100), Epoch(3))
    decoded = _decoded(data)
    assert [(record.key, record.value) for record in decoded] == [
        (record.key, record.value) for record in records
    ]
    with _without_usual_records():
        assert decoded == _decoded(data)


@given(records=RECORDS, draw=st.data())
def test_changed_bytes_give_the_same_by_both_ways(records: list[Record], draw: st.DataObject):
    data = bytearray(encode_data_batch(records, 7))
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(HEADER_BYTES, min(len(data) - 1, HEADER_BYTES + 200)))
        data[place] = draw.draw(st.integers(0, 255))
    decoded = _decoded(bytes(data))
    with _without_usual_records():
        assert decoded == _decoded(bytes(data))


def _record(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(len(body)) + body


KEY, VALUE = varint(1) + b"k", varint(1) + b"v"


@pytest.mark.without(USUAL, "or data[position] or data[position + 1]", "or data[position + 1]")
@pytest.mark.without(USUAL, "or data[position] or data[position + 1]", "or data[position]")
@pytest.mark.without(USUAL, "offset_delta != 2 * delta or", "")
@pytest.mark.without(USUAL, "if data[position] or", "if")
@pytest.mark.without(USUAL, "or position + 1 != end", "")
@pytest.mark.without(USUAL, "if length & 1 or", "if")
def test_whatever_is_unusual_or_wrong_is_left_to_the_other_way():
    usual = _record(b"\0\0", varint(5), KEY, VALUE, b"\0")
    assert read_usual_record(usual, 0, 5) == (b"k", b"v", len(usual))
    for other in (
        _record(b"\1\0", varint(5), KEY, VALUE, b"\0"),  # attributes
        _record(b"\0\2", varint(5), KEY, VALUE, b"\0"),  # a time of its own
        _record(b"\0\0", varint(4), KEY, VALUE, b"\0"),  # another number
        _record(b"\0\0", varint(5), KEY, VALUE, b"\2", b"\2h", b"\2v"),  # a header
        _record(b"\0\0", varint(5), KEY, VALUE, b"\0\0"),  # a byte behind it
        _record(b"\0\0", varint(5), varint(-2), VALUE, b"\0"),
        _record(b"\0\0", varint(5), KEY, varint(-2), b"\0"),
        bytes([usual[0] + 1]) + usual[1:],  # a negative length
        *(usual[:length] for length in range(len(usual))),
    ):
        assert read_usual_record(other, 0, 5) is None


def test_keys_values_and_numbers_up_to_two_bytes_are_usual():
    for key, value, delta in (
        (None, None, 0),
        (b"", b"", 63),
        (bytes(63), bytes(63), 64),
        (b"k", bytes(64), 8191),
        (b"k", bytes(8000), 1),
    ):
        parts = [varint(-1) if part is None else varint(len(part)) + part for part in (key, value)]
        record = _record(b"\0\0", varint(delta), *parts, b"\0")
        assert read_usual_record(b"before" + record, 6, delta) == (key, value, 6 + len(record))
