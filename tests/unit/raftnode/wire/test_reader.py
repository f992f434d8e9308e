"""A peer's bytes are read within their bounds, or refused."""

from __future__ import annotations

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.types import NodeId, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.wire.reader import Reader, replica_key


def reader(data: bytes) -> Reader:
    return Reader(memoryview(data))


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


@given(st.integers(0, 2**32 - 1))
def test_every_varint_of_32_bits_comes_back(value: int):
    found = reader(uvarint(value) + b"\x07")
    assert found.uvarint() == value
    assert found.remaining == 1


@pytest.mark.parametrize(
    "data", [uvarint(2**32), b"\xff" * 5, b"\x80" * 6, b"\x80\x80\x80\x80\x10", b"\x80", b""]
)
def test_longer_and_cut_varints_are_refused(data: bytes):
    with pytest.raises(DecodeError):
        reader(data).uvarint()


def test_integers_are_big_endian_and_as_wide_as_they_say():
    data = reader(bytes.fromhex("ff fffe fffe fffffffd fffffffffffffffc 00 01"))
    assert (data.u8(), data.u16(), data.i16(), data.i32(), data.i64()) == (255, 65534, -2, -3, -4)
    assert (data.boolean(), data.boolean()) == (False, True)
    data.finish()


@pytest.mark.parametrize("method", ["u8", "u16", "i16", "i32", "i64", "uuid_bytes", "boolean"])
def test_nothing_is_read_past_the_end(method: str):
    with pytest.raises(DecodeError, match="ends after 0 bytes"):
        getattr(reader(b""), method)()


def test_a_failed_read_leaves_its_place():
    found = reader(b"abc")
    with pytest.raises(DecodeError):
        found.raw(4)
    assert found.raw(3) == b"abc"


def test_only_0_and_1_are_booleans():
    with pytest.raises(DecodeError, match="not a boolean: 2"):
        reader(b"\x02").boolean()


def test_compact_text_is_null_empty_or_utf8():
    assert reader(b"\x00").compact_text() is None
    assert reader(b"\x01").compact_text() == ""
    assert reader(b"\x03\xc3\xbc").compact_text() == "ü"
    with pytest.raises(DecodeError, match="not UTF-8"):
        reader(b"\x02\xff").compact_text()
    with pytest.raises(DecodeError, match="expected"):
        reader(b"\x05ab").compact_bytes()


def test_an_array_that_cannot_be_there_is_refused_before_it_is_read():
    assert len(reader(b"\x00").array(4)) == 0
    assert len(reader(b"\x03" + bytes(8)).array(4)) == 2
    with pytest.raises(DecodeError, match="array of 2 items in 7 bytes"):
        reader(b"\x03" + bytes(7)).array(4)
    with pytest.raises(DecodeError, match="array of 4294967294 items"):
        reader(uvarint(2**32 - 1)).array(1)


@pytest.mark.parametrize("data", [b"\x00", b"\x01", b"\x03"])
def test_where_one_is_expected_there_is_one(data: bytes):
    reader(b"\x02").exactly_one("topics")
    with pytest.raises(DecodeError, match="topics, expected exactly one"):
        reader(data).exactly_one("topics")


def test_tags_are_given_in_order_and_unknown_ones_are_skipped():
    data = b"\x02\x00\x01a\x05\x02bc" + b"!"
    assert [(tag, field.raw(field.remaining)) for tag, field in reader(data).tags()] == [
        (0, b"a"),
        (5, b"bc"),
    ]
    found = reader(data)
    found.skip_tags()
    assert found.raw(1) == b"!"


@pytest.mark.parametrize(
    "data", [b"\x02\x01\x00\x01\x00", b"\x02\x01\x00\x00\x00", b"\x01\x00\x02a"]
)
def test_tags_that_repeat_fall_or_are_cut_are_refused(data: bytes):
    with pytest.raises(DecodeError):
        reader(data).skip_tags()


def test_bytes_after_the_end_are_refused():
    with pytest.raises(DecodeError, match="1 bytes after the end"):
        reader(b"a").finish()


@pytest.mark.rule("S5")
@pytest.mark.parametrize(("node_id", "raw"), [(-1, bytes(15) + b"\x01"), (3, bytes(16))])
def test_an_identity_is_whole(node_id: int, raw: bytes):
    """S5: neither a negative id nor the UUID that stands for none."""
    with pytest.raises(DecodeError, match="not a replica"):
        replica_key(node_id, raw)
    assert replica_key(3, bytes(15) + b"\x01") == ReplicaKey(NodeId(3), uuid.UUID(int=1))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes):
    for method in ("compact_text", "compact_bytes", "skip_tags", "uvarint"):
        with contextlib.suppress(DecodeError):
            getattr(reader(data), method)()
