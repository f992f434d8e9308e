"""The faults of a client's finished batch (APPEND_BATCH), each refused with INVALID_REQUEST.

Each row is a batch in which one thing is wrong, with the right checksum unless that is the fault.
The first record is large enough for the operation; the fault is in the second or in the head.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import crc32c

from raftnode.core.records import Batch, RaftVersion
from raftnode.core.types import Epoch, Offset
from raftnode.logformat import Record, encode_control_batch, encode_data_batch
from raftnode.logformat.batch import encode_records
from raftnode.logformat.encoding import varint
from raftnode.session.operations import BATCH_BYTES_MIN

RECORDS_MAX = 10_000
NOW_MS = 1_700_000_000_000

_LARGE = bytes(BATCH_BYTES_MIN)
_NONE, _VALUE, _END = varint(-1), varint(1) + b"v", b"\0"
_HUGE = b"\xff\xff\xff\xff\x0f"
_FIRST = Record(None, _LARGE)


@dataclass(frozen=True, slots=True)
class WrongBatch:
    """One row.

    Attributes:
        what: the fault.
        data: the batch.
        reason: what the answer says.
    """

    what: str
    data: bytes
    reason: str

    def __str__(self) -> str:
        return self.what


def encode_record(*parts: bytes) -> bytes:
    """A record of these parts, with its length."""
    body = b"".join(parts)
    return varint(len(body)) + body


FIRST = encode_record(b"\0\0", varint(0), _NONE, varint(len(_LARGE)), _LARGE, _END)
SECOND = encode_record(b"\0\0", varint(1), _NONE, _VALUE, _END)
SOUND = encode_records(FIRST + SECOND, 2, NOW_MS)


def with_checksum(data: bytes) -> bytes:
    """The batch with the checksum that it should have."""
    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


def _head(layout: str, place: int, value: int) -> bytes:
    """A sound batch but for one field of its head."""
    data = bytearray(SOUND)
    struct.pack_into(layout, data, place, value)
    return with_checksum(bytes(data))


def _second(*parts: bytes) -> bytes:
    """A sound batch but for its second record."""
    return _records(encode_record(*parts))


def _records(*after_first: bytes, count: int = 2) -> bytes:
    return encode_records(b"".join((FIRST, *after_first)), count, NOW_MS)


def _huge(place: int) -> bytes:
    """A sound batch but for a varint of its second record, which has five bytes, all ones."""
    if place == 0:
        return _records(_HUGE + SECOND[1:])
    return _second(SECOND[1:place], _HUGE, SECOND[place + 1 :])


def _of(*records: Record) -> bytes:
    return encode_data_batch([_FIRST, *records], NOW_MS)


def wrong_batches() -> tuple[WrongBatch, ...]:
    """Return the table."""
    rows = (*_wrong_heads(), *_wrong_records())
    return tuple(WrongBatch(*row) for row in rows)


def _wrong_heads() -> tuple[tuple[str, bytes, str], ...]:
    size = len(SOUND)
    control = Batch(Offset(0), Offset(0), Epoch(-1), b"", (RaftVersion(2),))
    control_batch = encode_control_batch(control, NOW_MS) + bytes(BATCH_BYTES_MIN)
    empty = bytearray(SOUND)
    struct.pack_into(">i", empty, 23, -1)
    struct.pack_into(">i", empty, 57, 0)
    return (
        ("records cut short", SOUND[:-1], f"it has {size - 1}"),
        ("a byte behind the batch", SOUND + b"\0", f"it has {size + 1}"),
        ("a second batch", SOUND * 2, f"it has {2 * size}"),
        ("a control batch with more behind it", control_batch, "says that it has"),
        ("a length below the head's", _head(">i", 8, 40), "impossible header"),
        ("a negative length", _head(">i", 8, -1), "impossible header"),
        ("a huge length", _head(">i", 8, 2**31 - 1), "says that it has 2147483659"),
        ("magic 1", _head(">b", 16, 1), "magic 1"),
        ("magic 3", _head(">b", 16, 3), "magic 3"),
        ("a wrong checksum", SOUND[:-2] + b"w\0", "checksum"),
        ("the bit of control batches", _head(">h", 21, 0x20), "a control batch"),
        ("the bit of transactions", _head(">h", 21, 0x10), "attributes 0x10"),
        ("the bit of log-append time", _head(">h", 21, 0x08), "attributes 0x8"),
        ("the bit of a delete horizon", _head(">h", 21, 0x40), "attributes 0x40"),
        ("an unknown bit", _head(">h", 21, -0x8000), "attributes -0x8000"),
        ("gzip", _head(">h", 21, 1), "attributes 0x1"),
        ("snappy", _head(">h", 21, 2), "attributes 0x2"),
        ("lz4", _head(">h", 21, 3), "attributes 0x3"),
        ("zstd", _head(">h", 21, 4), "attributes 0x4"),
        ("a negative last offset delta", _head(">i", 23, -1), "last offset delta -1"),
        ("a last offset delta of another count", _head(">i", 23, 2), "last offset delta 2"),
        ("no records", with_checksum(bytes(empty)), "0 records"),
        ("a negative number of records", _head(">i", 57, -1), "-1 records"),
        ("a base offset", _head(">q", 0, 5), "base offset"),
        ("a negative base offset", _head(">q", 0, -1), "impossible header"),
        ("a leader epoch", _head(">i", 12, 7), "leader epoch"),
        ("a leader epoch below -1", _head(">i", 12, -2), "impossible header"),
        ("a largest timestamp of its own", _head(">q", 35, NOW_MS + 1), "largest timestamp"),
        ("a producer id", _head(">q", 43, 9), "producer"),
        ("a producer epoch", _head(">h", 51, 0), "producer"),
        ("a base sequence", _head(">i", 53, 0), "producer"),
    )


def _wrong_records() -> tuple[tuple[str, bytes, str], ...]:
    begin = (b"\0\0", varint(1))
    plain = (*begin, _NONE, _VALUE)
    shortly = "as shortly as possible"
    return (
        ("fewer records than counted", _records(SECOND, count=3), "bytes expected, 0 left"),
        ("more records than counted", _records(SECOND, count=1), "after the last record"),
        ("too many records", _records(SECOND, count=RECORDS_MAX + 1), "10001 records"),
        ("a huge number of records", _records(SECOND, count=2**31 - 1), "2147483647 records"),
        ("a key", _of(Record(b"k", b"v")), "record 1 has a key"),
        ("an empty key", _of(Record(b"", b"v")), "record 1 has a key"),
        ("a delete", _of(Record(b"k", None)), "record 1 has a key"),
        ("no value", _of(Record(None, None)), "record 1 has no value"),
        ("headers", _of(Record(None, b"v", (("name", b"value"),))), "record 1 has headers"),
        (
            "a hundred thousand headers",
            _second(*plain, varint(100_000), b"\0\1" * 100_000),
            "record 1 has headers",
        ),
        (
            "a header without a name",
            _second(*plain, varint(1), _NONE, varint(0)),
            "record 1 has headers",
        ),
        (
            "a header that is not UTF-8",
            _second(*plain, varint(1), varint(1), b"\xff", _NONE),
            "record 1 has headers",
        ),
        ("more headers than bytes", _second(*plain, varint(50)), "50 headers"),
        ("a negative number of headers", _second(*plain, varint(-1)), "-1 headers"),
        ("attributes", _second(b"\1\0", varint(1), _NONE, _VALUE, _END), "attributes 0x1"),
        (
            "a time of its own",
            _second(b"\0", varint(1), varint(1), _NONE, _VALUE, _END),
            "a time of its own",
        ),
        (
            "a negative time of its own",
            _second(b"\0", varint(-1), varint(1), _NONE, _VALUE, _END),
            "a time of its own",
        ),
        (
            "a skipped offset delta",
            _second(b"\0\0", varint(2), _NONE, _VALUE, _END),
            "offset delta 2, expected 1",
        ),
        (
            "an offset delta that comes twice",
            _second(b"\0\0", varint(0), _NONE, _VALUE, _END),
            "offset delta 0, expected 1",
        ),
        (
            "a negative offset delta",
            _second(b"\0\0", varint(-1), _NONE, _VALUE, _END),
            "offset delta -1, expected 1",
        ),
        ("a record of no bytes", _records(varint(0)), "1 bytes expected, 0 left"),
        ("a record of negative length", _records(varint(-5) + SECOND[1:]), "record of -5 bytes"),
        (
            "a record that ends in the next",
            _records(bytes((SECOND[0] + 2,)) + SECOND[1:], SECOND, count=3),
            "record ends here",
        ),
        (
            "a record that ends before its parts",
            _records(bytes((SECOND[0] - 2,)) + SECOND[1:]),
            "0 headers",
        ),
        (
            "a record past the batch's end",
            _records(varint(100) + SECOND[1:]),
            "record of 100 bytes",
        ),
        (
            "a value past the record's end",
            _second(*begin, _NONE, varint(100), b"v", _END),
            "100 bytes expected",
        ),
        (
            "a value of negative length",
            _second(*begin, _NONE, varint(-2), b"v", _END),
            "negative length -2",
        ),
        (
            "a key of negative length",
            _second(*begin, varint(-2), _VALUE, _END),
            "negative length -2",
        ),
        ("a huge length of the record", _huge(0), "record of -2147483648 bytes"),
        ("a huge time", _huge(2), "a time of its own"),
        ("a huge offset delta", _huge(3), "offset delta -2147483648"),
        ("a huge length of the key", _huge(4), "negative length -2147483648"),
        ("a huge length of the value", _huge(5), "negative length -2147483648"),
        ("a varint without an end", _records(b"\xff" * 40), "varint longer than 32 bits"),
        (
            "a record's length of more bytes than it needs",
            _records(bytes((SECOND[0] | 0x80, 0)) + SECOND[1:]),
            shortly,
        ),
        (
            "an offset delta of more bytes than it needs",
            _second(b"\0\0", b"\x82\0", _NONE, _VALUE, _END),
            shortly,
        ),
        (
            "a missing key of more bytes than it needs",
            _second(*begin, b"\x81\0", _VALUE, _END),
            shortly,
        ),
        (
            "a value's length of more bytes than it needs",
            _second(*begin, _NONE, b"\x82\0v", _END),
            shortly,
        ),
        (
            "a number of headers of more bytes than it needs",
            _second(*plain, b"\x80\0"),
            shortly,
        ),
    )
