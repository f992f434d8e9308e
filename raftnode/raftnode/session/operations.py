"""Operations of a client, and the messages that carry them (docs/reference/session-protocol.md).

A message is the byte 1, then operations. An operation is a head (the length of what follows it,
its id, its timeout in milliseconds, its kind) and a body by its kind. Integers are big-endian.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from raftnode.access.roles import Verb
from raftnode.errors import DecodeError
from raftnode.session import framing

MESSAGE = 1
"""The first byte of a message of operations."""

HEAD = struct.Struct(">IQIB")
"""The bytes after the length, the id, the timeout in milliseconds, the kind."""

_LENGTH = framing.LENGTH
_GET = struct.Struct(">B")
_PUT = struct.Struct(">H")
_READ = struct.Struct(">QII")
_KEY_BYTES_MAX = (1 << 16) - 1

BATCH_BYTES_MIN = 64 << 10
"""The smallest batch of APPEND_BATCH: it stands in the log by itself, while the records of smaller
writes are gathered in one batch, which costs the quorum less."""

OPERATION_COST_BYTES = 64
"""What an operation costs of the credits beside its bytes: so many small ones are bounded, too."""


class Kind(enum.IntEnum):
    """What an operation asks for."""

    PUT = 1
    DELETE = 2
    GET = 3
    APPEND = 4
    READ = 5
    APPEND_BATCH = 6


VERBS: Mapping[int, Verb] = {
    Kind.PUT: Verb.WRITE,
    Kind.DELETE: Verb.WRITE,
    Kind.GET: Verb.READ,
    Kind.APPEND: Verb.WRITE,
    Kind.READ: Verb.READ,
    Kind.APPEND_BATCH: Verb.WRITE,
}
"""What each kind does, for the access file: to its key, or to the whole log if it has none."""


class Operation(NamedTuple):
    """An operation whose body is not decoded yet."""

    operation_id: int
    timeout_ms: int
    kind: int
    """A `Kind`, or a number that this version does not know."""
    body: bytes

    @property
    def cost_bytes(self) -> int:
        """What it costs of the session's credits until it is answered."""
        return cost_bytes(self.body)


class Get(NamedTuple):
    """The body of GET."""

    linearizable: bool
    key: bytes


class Read(NamedTuple):
    """The body of READ."""

    offset: int
    max_bytes: int
    max_wait_ms: int


def cost_bytes(body: bytes) -> int:
    """What an operation with this body costs of the session's credits."""
    return HEAD.size + len(body) + OPERATION_COST_BYTES


def encode_head(operation_id: int, timeout_ms: int, kind: int, body: bytes) -> bytes:
    """Encode what stands before the body of an operation."""
    return HEAD.pack(framing.following_bytes(HEAD, len(body)), operation_id, timeout_ms, kind)


def encode_message(parts: Iterable[bytes]) -> bytes:
    """Put heads and bodies into one message."""
    return framing.encode(MESSAGE, parts)


def decode_message(data: bytes) -> list[Operation]:
    """Take a message apart.

    Raises:
        DecodeError: it is no message of whole operations.
    """
    entries = framing.split(data, MESSAGE, HEAD, "operation")
    operations = [Operation._make((*numbers, body)) for numbers, body in entries]
    if not operations:
        raise DecodeError("the message has no operation; send at least one")
    return operations


def put_body(key: bytes, value: bytes) -> bytes:
    """Encode the body of PUT: the key's length, the key, the value.

    Raises:
        ValueError: the key is too long for its field.
    """
    if len(key) > _KEY_BYTES_MAX:
        raise ValueError(f"key: {len(key)} bytes; an operation has room for {_KEY_BYTES_MAX}")
    return _PUT.pack(len(key)) + key + value


def decode_put(body: bytes) -> tuple[bytes, bytes]:
    """Decode the body of PUT into key and value.

    Raises:
        DecodeError: the key is cut off.
    """
    if len(body) < _PUT.size:
        raise DecodeError(f"PUT: a body of {len(body)} bytes; the key's length has {_PUT.size}")
    (length,) = _PUT.unpack_from(body)
    split = _PUT.size + length
    if len(body) < split:
        raise DecodeError(
            f"PUT: the key's length is {length}; {len(body) - _PUT.size} bytes follow"
        )
    return body[_PUT.size : split], body[split:]


def get_body(key: bytes, *, linearizable: bool) -> bytes:
    """Encode the body of GET: 1 for a linearizable read or 0 for a local one, then the key."""
    return _GET.pack(linearizable) + key


def decode_get(body: bytes) -> Get:
    """Decode the body of GET.

    Raises:
        DecodeError: it begins with neither 0 nor 1.
    """
    if not body or body[0] > 1:
        raise DecodeError(
            f"GET: begins with {body[:1].hex() or 'nothing'}; expected 00 (local) or 01 "
            "(linearizable)"
        )
    return Get(body[0] == 1, body[1:])


def append_body(values: Sequence[bytes]) -> bytes:
    """Encode the body of APPEND: the number of records, then each one's length and bytes."""
    parts = [_LENGTH.pack(len(values))]
    for value in values:
        parts += (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode_append(body: bytes, records_max: int) -> list[bytes]:
    """Decode the body of APPEND.

    Raises:
        DecodeError: there are no records or too many, or one is cut off, or bytes are left.
    """
    if len(body) < _LENGTH.size:
        raise DecodeError(f"APPEND: a body of {len(body)} bytes; the count has {_LENGTH.size}")
    (count,) = _LENGTH.unpack_from(body)
    if not 1 <= count <= records_max:
        raise DecodeError(f"APPEND: {count} records; expected 1 to {records_max}")
    values: list[bytes] = []
    position = _LENGTH.size
    for number in range(count):
        if len(body) - position < _LENGTH.size:
            raise DecodeError(f"APPEND: record {number} of {count} is missing")
        (length,) = _LENGTH.unpack_from(body, position)
        position += _LENGTH.size
        if len(body) - position < length:
            raise DecodeError(
                f"APPEND: record {number} has a length of {length}; "
                f"{len(body) - position} bytes follow"
            )
        values.append(body[position : position + length])
        position += length
    if position != len(body):
        raise DecodeError(f"APPEND: {len(body) - position} bytes after the last record")
    return values


def read_body(offset: int, max_bytes: int, max_wait_ms: int) -> bytes:
    """Encode the body of READ: the first offset, how many bytes, how long to wait for a record.

    Raises:
        ValueError: a number is negative or too large for its field.
    """
    try:
        return _READ.pack(offset, max_bytes, max_wait_ms)
    except struct.error:
        raise ValueError(
            f"offset {offset}, max_bytes {max_bytes}, max_wait_ms {max_wait_ms}: expected none "
            "below 0, and an offset of 8 bytes and other numbers of 4 bytes at most"
        ) from None


def decode_read(body: bytes) -> Read:
    """Decode the body of READ.

    Raises:
        DecodeError: it has another size.
    """
    if len(body) != _READ.size:
        raise DecodeError(f"READ: a body of {len(body)} bytes; expected {_READ.size}")
    return Read(*_READ.unpack(body))
