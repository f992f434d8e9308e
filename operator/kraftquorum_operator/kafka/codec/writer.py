"""Kafka's primitive values as bytes, in the compact form unless said otherwise."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Final

NO_TAGS: Final = b"\0"
"""The end of a structure without tagged fields."""


def i8(value: int) -> bytes:
    """A signed byte."""
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    """A signed 16-bit integer."""
    return struct.pack(">h", value)


def u16(value: int) -> bytes:
    """An unsigned 16-bit integer."""
    return struct.pack(">H", value)


def i32(value: int) -> bytes:
    """A signed 32-bit integer."""
    return struct.pack(">i", value)


def boolean(*, value: bool) -> bytes:
    """A byte, 0 or 1."""
    return b"\1" if value else b"\0"


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def directory_id(value: uuid.UUID) -> bytes:
    """The 16 bytes of a UUID."""
    return value.bytes


def raw(value: bytes) -> bytes:
    """Bytes with their length."""
    return uvarint(len(value) + 1) + value


def text(value: str | None) -> bytes:
    """A string, or null."""
    return b"\0" if value is None else raw(value.encode())


def old_text(value: str) -> bytes:
    """A string in the form from before flexible versions, which request headers keep."""
    data = value.encode()
    return i16(len(data)) + data


def array(items: Iterable[bytes]) -> bytes:
    """An array of encoded items."""
    encoded = tuple(items)
    return uvarint(len(encoded) + 1) + b"".join(encoded)
