from __future__ import annotations

import contextlib
import random
import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from raftnode.core.records import Batch, FormationCompleted, RaftVersion
from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError
from raftnode.logformat.batch import (
    HEADER_BYTES,
    MAX_OFFSET,
    Record,
    decode_batches,
    encode_control_batch,
    encode_data_batch,
    iter_records,
    read_header,
    stamp,
)
from raftnode.logformat.encoding import varint

pytestmark = pytest.mark.rule("P45")

BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), BYTES), max_size=3
).map(tuple)
RECORDS = st.lists(st.builds(Record, BYTES, BYTES, HEADERS), min_size=1, max_size=8)
CONTROL = Batch(Offset(7), Offset(8), Epoch(3), b"", (RaftVersion(2), FormationCompleted()))


def data(base: int = 0, epoch: int = 0, count: int = 2) -> bytes:
    return stamp(encode_data_batch([Record(b"k", b"v")] * count, 1000), Offset(base), Epoch(epoch))


def with_crc(batch: bytes) -> bytes:
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


@given(RECORDS, st.integers(0, 1 << 62), st.integers(0, 1 << 30), st.integers(0, 1 << 50))
def test_records_come_back_with_their_place(
    records: list[Record], base: int, epoch: int, now: int
) -> None:
    encoded = stamp(encode_data_batch(records, now), Offset(base), Epoch(epoch))
    (batch,) = decode_batches(encoded)
    assert batch == Batch(Offset(base), Offset(base + len(records) - 1), Epoch(epoch), encoded)
    for place, (record, found) in enumerate(zip(records, iter_records(encoded), strict=True)):
        assert found == (
            base + place,
            epoch,
            now,
            record.key,
            record.value,
            record.headers,
            None,
            False,
        )


@pytest.mark.without(
    "logformat.batch:encode_data_batch",
    "for data in (record.key, record.value):",
    "for data in (record.key, record.key):",
)
def test_kio_reads_what_we_write() -> None:
    encoded = encode_data_batch([Record(b"k", None, (("h", b"x"),)), Record(None, b"v")], 5000)
    batch, size = read_batch(encoded, 0)
    assert size == len(encoded)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.last_offset_delta) == (0, -1, 1)
    assert [(r.key, r.value) for r in batch.records] == [(b"k", None), (None, b"v")]
    assert batch.records[0].headers[0].value == b"x"
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)


@pytest.mark.without("logformat.batch:stamp", "_EPOCH.pack(epoch)", "_EPOCH.pack(0)")
def test_stamping_changes_the_place_and_keeps_the_checksum() -> None:
    plain = encode_data_batch([Record(b"k", b"v")], 1)
    stamped = stamp(memoryview(plain), Offset(99), Epoch(4))
    assert (stamped[8:12], stamped[16:]) == (plain[8:12], plain[16:])
    header = read_header(stamped)
    assert (header.base_offset, header.epoch, header.size) == (99, 4, len(plain))


def test_control_batches_come_back_with_their_records() -> None:
    encoded = encode_control_batch(CONTROL, 77)
    assert encoded[21:23] == b"\0\x20"
    (batch,) = decode_batches(encoded)
    assert batch.control == CONTROL.control
    assert batch.data == encoded
    assert [(r.offset, r.control, r.is_control, r.timestamp_ms) for r in iter_records(encoded)] == [
        (7, RaftVersion(2), True, 77),
        (8, FormationCompleted(), True, 77),
    ]


def test_a_control_record_of_unknown_type_is_still_no_data() -> None:
    encoded = bytearray(
        encode_control_batch(Batch(Offset(0), Offset(0), Epoch(1), b"", (RaftVersion(2),)), 1)
    )
    at = encoded.index(b"\0\0\x03\xe8")
    encoded[at + 2 : at + 4] = b"\0\6"
    (record,) = iter_records(with_crc(bytes(encoded)))
    assert record.is_control
    assert record.control is None
    assert decode_batches(with_crc(bytes(encoded)))[0].control == ()


def test_several_batches_keep_their_own_bytes() -> None:
    first, second = data(0, 1), data(2, 3, 1)
    batches = decode_batches(memoryview(first + second))
    assert [batch.data for batch in batches] == [first, second]
    assert len(list(iter_records(first + second))) == 3


def test_a_partial_tail_is_left_out_only_when_allowed() -> None:
    whole, second = data(), data(2)
    for cut in (1, HEADER_BYTES - 1, HEADER_BYTES, len(second) - 1):
        partial = whole + second[:cut]
        assert decode_batches(partial, allow_partial_tail=True) == decode_batches(whole)
        with pytest.raises(DecodeError, match=f"byte {len(whole)}"):
            decode_batches(partial)


@pytest.mark.parametrize(
    ("second", "problem"),
    [(data(3, 5), "base offset 3, expected 2"), (data(2, 4), "epoch 4 after 5")],
)
def test_batches_that_do_not_follow_each_other_are_refused(second: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_batches(data(0, 5) + second)


HEADER_FIELDS = {
    "base offset": (0, ">q", -1),
    "last possible offset": (0, ">q", MAX_OFFSET - 1),
    "length": (8, ">i", 40),
    "negative length": (8, ">i", -1),
    "epoch": (12, ">i", -2),
    "magic": (16, ">b", 1),
    "compressed": (21, ">h", 1),
    "transactional": (21, ">h", 0x10),
    "delta": (23, ">i", -1),
    "count": (57, ">i", 3),
}


@pytest.mark.parametrize("field", HEADER_FIELDS)
def test_headers_that_cannot_be_are_refused(field: str) -> None:
    at, form, value = HEADER_FIELDS[field]
    encoded = bytearray(data())
    struct.pack_into(form, encoded, at, value)
    with pytest.raises(DecodeError, match="impossible header"):
        decode_batches(with_crc(bytes(encoded)))


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_under_the_checksum_is_found(bit: int) -> None:
    encoded = data()
    for byte in range(16, len(encoded)):
        rotten = bytearray(encoded)
        rotten[byte] ^= 1 << bit
        with pytest.raises(DecodeError):
            decode_batches(bytes(rotten))


def batch_of(body: bytes, count: int = 1) -> bytes:
    encoded = bytearray(encode_data_batch([Record(None, None)] * count, 0)[:HEADER_BYTES] + body)
    struct.pack_into(">i", encoded, 8, len(encoded) - 12)
    return with_crc(bytes(encoded))


def framed(body: bytes) -> bytes:
    return varint(len(body)) + body


GOOD = b"\0\0\0\1\1\0"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (framed(GOOD) + b"x", "after the last record"),
        (framed(GOOD)[:-1], "record of 6 bytes"),
        (varint(-1), "record of -1 bytes"),
        (framed(b"\1" + GOOD[1:]), "attributes"),
        (framed(b"\0\0\2\1\1\0"), "offset delta 1, expected 0"),
        (framed(b"\0\0\0\3\1\0"), "negative length"),
        (framed(b"\0\0\0\1\1\1"), "headers"),
        (framed(b"\0\0\0\1\1\x7e"), "headers"),
        (framed(b"\0\0\0\1\1\2\1\1"), "without a name"),
        (framed(b"\0\0\0\1\1\2\2\xff\1"), "not UTF-8"),
        (framed(GOOD + b"xx"), "record ends here"),
        (framed(b"\0" + b"\xff" * 10 + b"\1\0\1\1\0"), "longer than 64 bits"),
        (framed(b"\0\0\xff\xff\xff\xff\x7f\1\1\0"), "longer than 32 bits"),
    ],
)
def test_records_that_are_not_well_formed_are_refused(body: bytes, problem: str) -> None:
    assert decode_batches(batch_of(framed(GOOD)))
    with pytest.raises(DecodeError, match=problem):
        list(iter_records(batch_of(body)))


@settings(max_examples=300)
@given(st.data())
def test_mutated_batches_raise_decode_error_or_nothing(draw: st.DataObject) -> None:
    rng = random.Random(draw.draw(st.integers(0, 1 << 32)))
    source = bytearray(rng.choice([data(), encode_control_batch(CONTROL, 1), data() + data(2)]))
    for _ in range(rng.randint(1, 4)):
        source[rng.randrange(len(source))] = rng.randrange(256)
    if rng.random() < 0.3:
        del source[rng.randrange(len(source)) :]
    for candidate in (bytes(source), with_crc(bytes(source)) if len(source) > 21 else b""):
        for partial in (False, True):
            with contextlib.suppress(DecodeError):
                decode_batches(candidate, allow_partial_tail=partial)
        with contextlib.suppress(DecodeError):
            list(iter_records(candidate))


@given(st.binary(max_size=200))
def test_random_bytes_raise_decode_error_or_nothing(noise: bytes) -> None:
    for candidate in (noise, batch_of(noise)):
        try:
            decode_batches(candidate)
            list(iter_records(candidate))
        except DecodeError:
            pass


def test_batches_without_records_are_not_made() -> None:
    with pytest.raises(ValueError, match="without records"):
        encode_data_batch([], 0)
    with pytest.raises(ValueError, match="control records"):
        encode_control_batch(Batch(Offset(0), Offset(1), Epoch(0), b"", (RaftVersion(1),)), 0)
