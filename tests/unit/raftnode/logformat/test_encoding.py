from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.errors import DecodeError
from raftnode.logformat.encoding import Reader, compact_string, tagged_fields, uvarint, varint


def reader(data: bytes) -> Reader:
    return Reader(data, 0, len(data), "test")


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varint_comes_back_for_all_of_64_bits(value: int) -> None:
    assert reader(varint(value)).varint(64) == value


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_varint_comes_back_for_all_of_32_bits(value: int) -> None:
    assert reader(varint(value)).varint() == value


@pytest.mark.parametrize(
    ("bits", "data"),
    [(32, uvarint(1 << 32)), (64, uvarint(1 << 64)), (32, b"\x80" * 5 + b"\1"), (64, b"\xff" * 11)],
)
def test_varint_that_overflows_is_refused(bits: int, data: bytes) -> None:
    with pytest.raises(DecodeError, match=f"longer than {bits} bits"):
        reader(data).uvarint(bits)


def test_zigzag_is_kafkas() -> None:
    assert [varint(v) for v in (0, -1, 1, -2, 63, -64, 64)] == [
        b"\0",
        b"\1",
        b"\2",
        b"\3",
        b"\x7e",
        b"\x7f",
        b"\x80\1",
    ]


def test_reading_past_the_end_names_what_and_where() -> None:
    r = reader(b"ab")
    r.take(1)
    with pytest.raises(DecodeError, match="test: 2 bytes expected, 1 left at byte 1"):
        r.int16()


@pytest.mark.parametrize(
    "read",
    [
        lambda: reader(b"\0").compact_string(),
        lambda: reader(b"\0").compact_array_length(),
        lambda: reader(b"\2\xff").compact_string(),
        lambda: reader(varint(-2)).nullable_bytes(),
        lambda: reader(b"\2\1\0\1\0").tagged_fields(),
        lambda: reader(b"\2\1\0\0\0").tagged_fields(),
        lambda: reader(b"").uuid(),
    ],
)
def test_impossible_values_are_refused(read: object) -> None:
    assert callable(read)
    with pytest.raises(DecodeError):
        read()


def test_null_bytes_and_tagged_fields() -> None:
    assert reader(varint(-1)).nullable_bytes() is None
    assert reader(tagged_fields({7: b"x", 2: b""})).tagged_fields() == {2: b"", 7: b"x"}
    assert reader(compact_string("zürich")).compact_string() == "zürich"
