"""Kafka record batch v2: the one form of records in the log, in snapshots and on the wire.

The base offset and the leader epoch lie before the checksum and outside it. So a leader stamps
them, and every other replica passes the bytes on untouched. Reading a data batch costs its header
and one CRC32C. Only `iter_records`, which the state machine uses, reads the records. The decoder
refuses what no writer here uses: compression, transactions, log-append time, gaps between offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import crc32c

from raftnode.core.records import Batch, ControlRecord
from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError
from raftnode.logformat.control import decode_control_record, encode_control_record
from raftnode.logformat.encoding import Buffer, Reader, varint
from raftnode.logformat.usual_record import read_usual_record

HEADER_BYTES = 61
MAX_OFFSET = (1 << 63) - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX_BYTES = 12  # base offset and length: not counted in the length
_EPOCH_AT = 12
_MAGIC_AT = 16
CRC_FROM = 21  # attributes
_MAGIC = 2
_CONTROL = 0x20
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_PREFIX = struct.Struct(">qiibI")
_BODY = struct.Struct(">hiqqqhii")

RecordHeader = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a new data batch."""

    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class BatchHeader(NamedTuple):
    """The fixed part of a batch, with its values checked."""

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch
    size: int
    """Bytes of the whole batch, this header included."""
    crc: int
    is_control: bool
    base_timestamp_ms: int
    max_timestamp_ms: int
    record_count: int

    @property
    def end_offset(self) -> Offset:
        """One past the last record."""
        return Offset(self.last_offset + 1)


class LogRecord(NamedTuple):
    """One record of the log."""

    offset: Offset
    epoch: Epoch
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]
    control: ControlRecord | None
    """None in data, and in a control record of an unknown type."""
    is_control: bool
    """Never hand a control record to the state machine, known or not."""


def encode_data_batch(records: Sequence[Record], timestamp_ms: int) -> bytes:
    """Make a data batch with base offset 0 and leader epoch -1; `stamp` sets both.

    Raises:
        ValueError: no records.
    """
    parts: list[bytes] = []
    for delta, record in enumerate(records):
        body = [b"\0\0", varint(delta)]  # attributes, timestamp delta
        for data in (record.key, record.value):
            if data is None:
                body.append(b"\1")
            else:
                body += (varint(len(data)), data)
        body.append(varint(len(record.headers)))
        for name, value in record.headers:
            encoded = name.encode()
            body += (varint(len(encoded)), encoded)
            body += (b"\1",) if value is None else (varint(len(value)), value)
        joined = b"".join(body)
        parts += (varint(len(joined)), joined)
    return encode_records(b"".join(parts), len(records), timestamp_ms)


def encode_records(records: Buffer, count: int, timestamp_ms: int) -> bytes:
    """Make a data batch of encoded records, with base offset 0 and leader epoch -1.

    Raises:
        ValueError: no records.
    """
    return _encode_batch(records, count, place=(0, -1), attributes=0, timestamp_ms=timestamp_ms)


def encode_control_batch(batch: Batch, timestamp_ms: int) -> bytes:
    """The bytes of a control batch that a leader has just made, with its offset and epoch.

    Raises:
        ValueError: its offsets and its control records do not agree.
    """
    if batch.last_offset - batch.base_offset + 1 != len(batch.control):
        raise ValueError(f"{len(batch.control)} control records in {batch!r}")
    records = [encode_control_record(record) for record in batch.control]
    return encode_control_records(records, batch.base_offset, batch.epoch, timestamp_ms)


def encode_control_records(
    records: Sequence[tuple[bytes, bytes]], base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> bytes:
    """A control batch of encoded keys and values, with its offset and epoch.

    Raises:
        ValueError: no records.
    """
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        body = b"".join(
            (b"\0\0", varint(delta), varint(len(key)), key, varint(len(value)), value, b"\0")
        )
        parts += (varint(len(body)), body)
    return _encode_batch(
        b"".join(parts),
        len(records),
        place=(base_offset, epoch),
        attributes=_CONTROL,
        timestamp_ms=timestamp_ms,
    )


def _encode_batch(
    records: Buffer, count: int, *, place: tuple[int, int], attributes: int, timestamp_ms: int
) -> bytes:
    if not count:
        raise ValueError("a batch without records")
    body = _BODY.pack(attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    crc = crc32c.crc32c(records, crc32c.crc32c(body))
    size = HEADER_BYTES + len(records)
    base_offset, epoch = place
    prefix = _PREFIX.pack(base_offset, size - _PREFIX_BYTES, epoch, _MAGIC, crc)
    return b"".join((prefix, body, records))


def stamp(data: Buffer, base_offset: Offset, epoch: Epoch) -> bytes:
    """Write offset and epoch into a batch; the checksum does not cover these fields.

    The caller has made sure that `data` is one batch.
    """
    view = memoryview(data)
    return b"".join(
        (_OFFSET.pack(base_offset), view[8:_EPOCH_AT], _EPOCH.pack(epoch), view[_MAGIC_AT:])
    )


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read and check the header of the batch at a position; its body may be missing.

    Raises:
        DecodeError: it is not the header of a batch that this node writes.
    """
    if len(data) - position < HEADER_BYTES:
        raise DecodeError(f"batch at byte {position}: the header is cut short")
    base, length, epoch, magic, crc, attributes, delta, base_ms, max_ms, _, _, _, count = (
        _HEADER.unpack_from(data, position)
    )
    if (
        magic != _MAGIC
        or attributes & ~_CONTROL
        or delta < 0
        or count != delta + 1
        or length < HEADER_BYTES - _PREFIX_BYTES
        or base < 0
        or base + delta >= MAX_OFFSET
        or epoch < -1
    ):
        raise DecodeError(
            f"batch at byte {position}: impossible header (base offset {base}, length {length}, "
            f"epoch {epoch}, magic {magic}, attributes {attributes:#x}, "
            f"last offset delta {delta}, {count} records)"
        )
    return BatchHeader(
        Offset(base),
        Offset(base + delta),
        Epoch(epoch),
        length + _PREFIX_BYTES,
        crc,
        attributes == _CONTROL,
        base_ms,
        max_ms,
        count,
    )


def check_crc(header: BatchHeader, data: Buffer, position: int = 0) -> None:
    """Check the checksum of the whole batch at a position.

    Raises:
        DecodeError: it is another one, or the batch is cut short.
    """
    end = position + header.size
    if end > len(data):
        raise DecodeError(
            f"batch at byte {position}: {len(data) - position} of {header.size} bytes are there"
        )
    crc = crc32c.crc32c(memoryview(data)[position + CRC_FROM : end])
    if crc != header.crc:
        raise DecodeError(
            f"batch at byte {position} (offset {header.base_offset}): "
            f"checksum {crc:#010x} instead of {header.crc:#010x}"
        )


def decode_batches(data: Buffer, *, allow_partial_tail: bool = False) -> tuple[Batch, ...]:
    """Read consecutive batches; each keeps its own bytes.

    The records of data batches are not read: a caller that must know that they are well formed
    (a leader, of a client's batch) also calls `iter_records`. With `allow_partial_tail`, the
    result leaves out a last batch that is cut short.

    Raises:
        DecodeError: anything else is wrong, with the position.
    """
    batches: list[Batch] = []
    view = memoryview(data)
    position, total = 0, len(data)
    while position < total:
        left = total - position
        if allow_partial_tail and left < HEADER_BYTES:
            break
        header = read_header(data, position)
        if allow_partial_tail and left < header.size:
            break
        check_crc(header, data, position)
        if batches and header.base_offset != batches[-1].end_offset:
            raise DecodeError(
                f"batch at byte {position}: base offset {header.base_offset}, expected "
                f"{batches[-1].end_offset}"
            )
        if batches and header.epoch < batches[-1].epoch:
            raise DecodeError(
                f"batch at byte {position}: epoch {header.epoch} after {batches[-1].epoch}"
            )
        piece = bytes(view[position : position + header.size])
        try:
            batches.append(to_batch(header, piece))
        except DecodeError as error:
            raise DecodeError(f"batch at byte {position}: {error}") from error
        position += header.size
    return tuple(batches)


def to_batch(header: BatchHeader, data: bytes) -> Batch:
    """The core's view of one batch whose checksum is right.

    Raises:
        DecodeError: a control batch whose records are not well formed.
    """
    control: tuple[ControlRecord, ...] = ()
    if header.is_control:
        records = iter_batch(header, data)
        control = tuple(record.control for record in records if record.control is not None)
    return Batch(header.base_offset, header.last_offset, header.epoch, data, control)


def iter_headers(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of consecutive batches, without checking checksums again.

    Raises:
        DecodeError: on reaching bytes that are not well formed.
    """
    position, total = 0, len(data)
    while position < total:
        header = read_header(data, position)
        end = position + header.size
        if end > total:
            raise DecodeError(f"batch at byte {position} is cut short")
        yield position, header
        position = end


def iter_records(data: Buffer) -> Iterator[LogRecord]:
    """Yield the records of consecutive batches, without checking checksums again.

    Raises:
        DecodeError: on reaching bytes that are not well formed.
    """
    view = memoryview(data)
    for position, header in iter_headers(view):
        yield from iter_batch(header, bytes(view[position : position + header.size]))


def iter_batch(header: BatchHeader, data: bytes) -> Iterator[LogRecord]:
    """Yield the records of one batch.

    Raises:
        DecodeError: on reaching bytes that are not well formed.
    """
    reader = Reader(data, HEADER_BYTES, len(data), "record")
    for delta in range(header.record_count):
        usual = None if header.is_control else read_usual_record(data, reader.position, delta)
        if usual is None:
            yield _read_record(header, reader, delta)
            continue
        key, value, reader.position = usual
        yield LogRecord(
            Offset(header.base_offset + delta),
            header.epoch,
            header.base_timestamp_ms,
            key,
            value,
            (),
            None,
            is_control=False,
        )
    if reader.position != reader.end:
        raise reader.error(f"{reader.end - reader.position} bytes after the last record")


class RecordHead(NamedTuple):
    """A record without its headers."""

    end: int
    """Where the record ends."""
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    header_count: int


def read_record_head(header: BatchHeader, reader: Reader, delta: int) -> RecordHead:
    """Read the next record up to its headers, of which each takes two bytes or more.

    Raises:
        DecodeError: it is not well formed.
    """
    length = reader.varint()
    end = reader.position + length
    if length < 0 or end > reader.end:
        raise reader.error(f"record of {length} bytes")
    attributes = reader.take(1)
    if attributes != b"\0":
        raise reader.error(f"record attributes {attributes[0]:#x}")
    timestamp_ms = header.base_timestamp_ms + reader.varint(64)
    offset_delta = reader.varint()
    if offset_delta != delta:
        raise reader.error(f"offset delta {offset_delta}, expected {delta}")
    key = reader.nullable_bytes()
    value = reader.nullable_bytes()
    count = reader.varint()
    if count < 0 or count > end - reader.position:
        raise reader.error(f"{count} headers")
    return RecordHead(end, timestamp_ms, key, value, count)


def _read_record(header: BatchHeader, reader: Reader, delta: int) -> LogRecord:
    head = read_record_head(header, reader, delta)
    headers = tuple(_read_record_header(reader) for _ in range(head.header_count))
    if reader.position != head.end:
        raise reader.error(f"record ends here, expected at byte {head.end}")
    control = decode_control_record(head.key, head.value) if header.is_control else None
    return LogRecord(
        Offset(header.base_offset + delta),
        header.epoch,
        head.timestamp_ms,
        head.key,
        head.value,
        headers,
        control,
        header.is_control,
    )


def _read_record_header(reader: Reader) -> RecordHeader:
    name = reader.nullable_bytes()
    if name is None:
        raise reader.error("record header without a name")
    try:
        return name.decode(), reader.nullable_bytes()
    except UnicodeDecodeError:
        raise reader.error("record header name that is not UTF-8") from None
