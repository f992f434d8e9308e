"""Answers of a node, and the messages that carry them (docs/reference/session-protocol.md).

A message is the byte 2, then answers. An answer is a head (the length of what follows it, the id
of the operation, its kind) and a body by its kind. The first message of a node is its greeting:
the byte 0, then the limits of the session.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from raftnode.errors import DecodeError
from raftnode.session import framing

GREETING = 0
"""The first byte of the greeting."""

MESSAGE = 2
"""The first byte of a message of answers."""

HEAD = struct.Struct(">IQB")
"""The bytes after the length, the operation's id, the kind."""

_GREETING = struct.Struct(">BIII")
_BATCH_MIN = struct.Struct(">I")
_WRITTEN = struct.Struct(">qqi")
_VALUE = struct.Struct(">qiq")
_ABSENT = struct.Struct(">q")
_REFUSED = struct.Struct(">H")
_RECORDS = struct.Struct(">qqqI")
_RECORD = struct.Struct(">Bqiqii")


class AnswerKind(enum.IntEnum):
    """What an answer says."""

    WRITTEN = 1
    VALUE = 2
    NO_VALUE = 3
    RECORDS = 4
    REFUSED = 255


class Greeting(NamedTuple):
    """The limits of a session, in bytes."""

    credit_bytes: int
    """What operations without an answer may cost together."""
    record_max_bytes: int
    batch_max_bytes: int
    batch_min_bytes: int = 0
    """The smallest batch of APPEND_BATCH; 0: the node is older and does not know that operation."""


class Answer(NamedTuple):
    """An answer whose body is not decoded yet."""

    operation_id: int
    kind: int
    body: bytes


class Written(NamedTuple):
    """A committed write."""

    base_offset: int
    last_offset: int
    epoch: int


class FoundValue(NamedTuple):
    """A key's value, the offset and epoch of its record, and what the replica has applied."""

    offset: int
    epoch: int
    next_offset: int
    value: bytes


class Refusal(NamedTuple):
    """An operation that failed: the HTTP status, and the error as the API's JSON."""

    status: int
    error: bytes


class LogRecord(NamedTuple):
    """A committed record; of a control record, `value` is the JSON of its kind and fields."""

    is_control: bool
    offset: int
    epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Records(NamedTuple):
    """A part of the committed log."""

    records: tuple[LogRecord, ...]
    next_offset: int
    high_watermark: int
    log_start_offset: int


def encode_greeting(greeting: Greeting) -> bytes:
    """Encode the greeting."""
    *limits, batch_min_bytes = greeting
    return _GREETING.pack(GREETING, *limits) + _BATCH_MIN.pack(batch_min_bytes)


def decode_greeting(data: bytes) -> Greeting:
    """Decode the greeting; a later version may add to its end.

    Raises:
        DecodeError: it is none.
    """
    if len(data) < _GREETING.size or data[0] != GREETING:
        raise DecodeError(
            f"{len(data)} bytes that begin with {data[:1].hex() or 'nothing'}; expected a "
            f"greeting: 00 and {_GREETING.size - 1} bytes"
        )
    _, credit_bytes, record_max_bytes, batch_max_bytes = _GREETING.unpack_from(data)
    batch_min_bytes = 0
    if len(data) >= _GREETING.size + _BATCH_MIN.size:
        (batch_min_bytes,) = _BATCH_MIN.unpack_from(data, _GREETING.size)
    return Greeting(credit_bytes, record_max_bytes, batch_max_bytes, batch_min_bytes)


def encode_message(parts: Iterable[bytes]) -> bytes:
    """Put heads and bodies into one message."""
    return framing.encode(MESSAGE, parts)


def decode_message(data: bytes) -> list[Answer]:
    """Take a message apart.

    Raises:
        DecodeError: it is no message of whole answers.
    """
    entries = framing.split(data, MESSAGE, HEAD, "answer")
    return [Answer._make((*numbers, body)) for numbers, body in entries]


def _head(operation_id: int, kind: AnswerKind, body_bytes: int) -> bytes:
    return HEAD.pack(framing.following_bytes(HEAD, body_bytes), operation_id, kind)


def encode_written(operation_id: int, written: Written) -> bytes:
    """Encode the answer to a committed write."""
    return _head(operation_id, AnswerKind.WRITTEN, _WRITTEN.size) + _WRITTEN.pack(*written)


def decode_written(body: bytes) -> Written:
    """Decode the body of WRITTEN.

    Raises:
        DecodeError: it has another size.
    """
    return Written(*_unpack(_WRITTEN, body, "WRITTEN"))


def encode_value_head(operation_id: int, value: FoundValue) -> bytes:
    """Encode what stands before the value itself, which need not be copied."""
    head = _head(operation_id, AnswerKind.VALUE, _VALUE.size + len(value.value))
    return head + _VALUE.pack(value.offset, value.epoch, value.next_offset)


def decode_value(body: bytes) -> FoundValue:
    """Decode the body of VALUE.

    Raises:
        DecodeError: it is cut off.
    """
    if len(body) < _VALUE.size:
        raise DecodeError(f"VALUE: a body of {len(body)} bytes; expected {_VALUE.size} or more")
    offset, epoch, next_offset = _VALUE.unpack_from(body)
    return FoundValue(offset, epoch, next_offset, body[_VALUE.size :])


def encode_no_value(operation_id: int, next_offset: int) -> bytes:
    """Encode the answer for a key without a value: what the replica has applied."""
    head = _head(operation_id, AnswerKind.NO_VALUE, _ABSENT.size)
    return head + _ABSENT.pack(next_offset)


def decode_no_value(body: bytes) -> int:
    """Decode the body of NO_VALUE.

    Raises:
        DecodeError: it has another size.
    """
    (next_offset,) = _unpack(_ABSENT, body, "NO_VALUE")
    return next_offset


def encode_refusal(operation_id: int, refusal: Refusal) -> bytes:
    """Encode the answer to an operation that failed."""
    head = _head(operation_id, AnswerKind.REFUSED, _REFUSED.size + len(refusal.error))
    return head + _REFUSED.pack(refusal.status) + refusal.error


def decode_refusal(body: bytes) -> Refusal:
    """Decode the body of REFUSED.

    Raises:
        DecodeError: it is cut off.
    """
    if len(body) < _REFUSED.size:
        raise DecodeError(f"REFUSED: a body of {len(body)} bytes")
    (status,) = _REFUSED.unpack_from(body)
    return Refusal(status, body[_REFUSED.size :])


def encode_records(operation_id: int, records: Records) -> bytes:
    """Encode a part of the log."""
    parts = [
        _RECORDS.pack(
            records.next_offset,
            records.high_watermark,
            records.log_start_offset,
            len(records.records),
        )
    ]
    for record in records.records:
        key, value = record.key, record.value
        parts.append(
            _RECORD.pack(
                record.is_control,
                record.offset,
                record.epoch,
                record.timestamp_ms,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
            )
        )
        parts += (key or b"", value or b"")
    body = b"".join(parts)
    return _head(operation_id, AnswerKind.RECORDS, len(body)) + body


def decode_records(body: bytes) -> Records:
    """Decode the body of RECORDS.

    Raises:
        DecodeError: a record is cut off, or bytes are left.
    """
    if len(body) < _RECORDS.size:
        raise DecodeError(f"RECORDS: a body of {len(body)} bytes")
    next_offset, high_watermark, log_start_offset, count = _RECORDS.unpack_from(body)
    records: list[LogRecord] = []
    position = _RECORDS.size
    for number in range(count):
        if len(body) - position < _RECORD.size:
            raise DecodeError(f"RECORDS: record {number} of {count} is missing")
        control, offset, epoch, timestamp_ms, key_bytes, value_bytes = _RECORD.unpack_from(
            body, position
        )
        position += _RECORD.size
        if len(body) - position < max(key_bytes, 0) + max(value_bytes, 0):
            raise DecodeError(f"RECORDS: record {number} of {count} is cut off")
        key = _bytes_or_none(body, position, key_bytes)
        position += max(key_bytes, 0)
        value = _bytes_or_none(body, position, value_bytes)
        position += max(value_bytes, 0)
        records.append(LogRecord(bool(control), offset, epoch, timestamp_ms, key, value))
    if position != len(body):
        raise DecodeError(f"RECORDS: {len(body) - position} bytes after the last record")
    return Records(tuple(records), next_offset, high_watermark, log_start_offset)


def _bytes_or_none(body: bytes, position: int, size: int) -> bytes | None:
    return None if size < 0 else body[position : position + size]


def _unpack(shape: struct.Struct, body: bytes, what: str) -> Sequence[int]:
    if len(body) != shape.size:
        raise DecodeError(f"{what}: a body of {len(body)} bytes; expected {shape.size}")
    return shape.unpack(body)
