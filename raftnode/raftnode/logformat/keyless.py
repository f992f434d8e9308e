"""Data batches of records without keys: a client's raw appends, at a fifth of the cost of others.

There is exactly one encoding of given values: no key, no headers, no record times, the shortest
varints. So such a batch can be checked by comparing each record's head with the one that this
module would write, and what passes differs in no byte from what a leader encodes itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftnode.errors import DecodeError
from raftnode.logformat.batch import (
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    encode_records,
    read_header,
    read_record_head,
)
from raftnode.logformat.encoding import Reader, varint

RECORD_BYTES_MAX = 16
"""What the encoding adds to a value, at most."""

_NO_KEY = b"\1"
_NO_HEADERS = b"\0"
_MORE = 0x80


class Sizes(NamedTuple):
    """What the values of a batch take."""

    largest_bytes: int
    largest_at: int
    """The number of the record with the largest value."""
    total_bytes: int


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A client's batch that was checked; `place_finished_batch` gives it the leader's time."""

    data: bytes
    record_count: int
    sizes: Sizes


def encode_keyless_batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Make the batch that `encode_data_batch` makes of records without keys.

    Raises:
        ValueError: no values.
    """
    parts: list[bytes] = []
    before, after, size, width = b"", b"", -1, 0
    for delta, value in enumerate(values):
        number = varint(delta)
        if len(value) != size or len(number) != width:
            size, width = len(value), len(number)
            before, after = _around(size, width)
        parts += (before, number, after, value, _NO_HEADERS)
    return encode_records(b"".join(parts), len(values), timestamp_ms)


def _around(size: int, width: int) -> tuple[bytes, bytes]:
    """What stands before and after the offset delta, of that width, in a record of that size."""
    after = _NO_KEY + varint(size)
    length = 2 + width + len(after) + size + len(_NO_HEADERS)
    return varint(length) + b"\0\0", after  # attributes, timestamp delta


def keyless_sizes(header: BatchHeader, data: bytes, position: int = 0) -> Sizes | None:
    """Look through the records of a whole batch.

    Args:
        header: the batch's.
        data: holds the batch, and perhaps more.
        position: where the batch begins.

    Returns:
        None: it is a control batch, or not what `encode_keyless_batch` makes.
    """
    if header.is_control:
        return None
    end = position + header.size
    position += HEADER_BYTES
    before, after, size, width, length = b"", b"", 0, 0, 0
    total = largest = largest_at = 0
    for delta in range(header.record_count):
        number = varint(delta)
        if len(number) != width or not data.startswith(before + number + after, position):
            width = len(number)
            guess = _value_bytes(data, position, width)
            if guess is None:
                return None
            size = guess
            before, after = _around(size, width)
            if not data.startswith(before + number + after, position):
                return None
            length = len(before) + width + len(after) + size + len(_NO_HEADERS)
        position += length
        if position > end or data[position - 1]:
            return None
        total += size
        if size > largest:
            largest, largest_at = size, delta
    return Sizes(largest, largest_at, total) if position == end else None


def _value_bytes(data: bytes, position: int, width: int) -> int | None:
    """The size that the value has if the record's length is right; its head is compared later."""
    length = shift = 0
    for byte in data[position : position + 5]:
        length |= (byte & ~_MORE) << shift
        if byte < _MORE:
            break
        shift += 7
    rest = (length >> 1) - 2 - width - len(_NO_KEY) - len(_NO_HEADERS)
    # What the size's own varint takes of the rest.
    size = rest - (1 if rest <= 64 else 2 if rest <= 8193 else 3 if rest <= 1048578 else 4)
    return size if size >= 0 else None


def read_finished_batch(data: bytes, records_max: int) -> FinishedBatch:
    """Check a batch that a client has encoded.

    What passes is, byte for byte, what `encode_keyless_batch` makes of its values at its time.

    Raises:
        DecodeError: it is not such a batch, with the reason.
    """
    header = read_header(data)
    if header.size != len(data):
        raise DecodeError(f"the batch says that it has {header.size} bytes; it has {len(data)}")
    if header.is_control:
        raise DecodeError("a control batch; only a leader writes those")
    if header.record_count > records_max:
        raise DecodeError(f"{header.record_count} records; expected 1 to {records_max}")
    check_crc(header, data)
    sizes = keyless_sizes(header, data)
    if sizes is None:
        raise DecodeError(_fault(header, data))
    batch = FinishedBatch(data, header.record_count, sizes)
    if place_finished_batch(batch, header.base_timestamp_ms) != data:
        raise DecodeError(
            "base offset, leader epoch, producer and largest timestamp: expected 0, -1, none and "
            f"the base timestamp {header.base_timestamp_ms}"
        )
    return batch


def place_finished_batch(batch: FinishedBatch, timestamp_ms: int) -> bytes:
    """Give a checked batch a time: a new header before the same records."""
    return encode_records(memoryview(batch.data)[HEADER_BYTES:], batch.record_count, timestamp_ms)


def _fault(header: BatchHeader, data: bytes) -> str:
    """Say why `keyless_sizes` finds no sizes.

    Headers are not decoded: a record may have millions.

    Raises:
        DecodeError: a record is not well formed, with the position.
    """
    reader = Reader(data, HEADER_BYTES, len(data), "record")
    for number in range(header.record_count):
        head = read_record_head(header, reader, number)
        if head.key is not None:
            return f"record {number} has a key; expected records without keys"
        if head.value is None:
            return f"record {number} has no value"
        if head.header_count:
            return f"record {number} has headers; expected none"
        if reader.position != head.end:
            raise reader.error(f"record ends here, expected at byte {head.end}")
    if reader.position != reader.end:
        raise reader.error(f"{reader.end - reader.position} bytes after the last record")
    return "a record has a time of its own, or a number that is not encoded as shortly as possible"
