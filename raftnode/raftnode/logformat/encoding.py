"""Strict reading and writing of Kafka's primitive types.

Varints, compact strings and arrays, UUIDs and tagged fields, as Kafka's flexible
messages use them. `Reader` never reads past its end and raises only DecodeError, which names the
field and the byte. This module knows no message.
"""

from __future__ import annotations

import struct
import uuid

from raftnode.errors import DecodeError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

Buffer = bytes | memoryview


def uvarint(value: int) -> bytes:
    """Unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = tuple(uvarint(value) for value in range(4096))


def varint(value: int) -> bytes:
    """Signed (zigzag) varint, of 32 or 64 bits."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return _SMALL[zigzag] if zigzag < 4096 else uvarint(zigzag)


def int16(value: int) -> bytes:
    """Big-endian int16."""
    return _INT16.pack(value)


def int32(value: int) -> bytes:
    """Big-endian int32."""
    return _INT32.pack(value)


def compact_string(value: str) -> bytes:
    """Length plus one as unsigned varint, then UTF-8."""
    data = value.encode()
    return uvarint(len(data) + 1) + data


def tagged_fields(fields: dict[int, bytes]) -> bytes:
    """Tagged-field section, tags ascending."""
    parts = [uvarint(len(fields))]
    for tag in sorted(fields):
        parts += (uvarint(tag), uvarint(len(fields[tag])), fields[tag])
    return b"".join(parts)


class Reader:
    """Reads one message of known extent from a buffer."""

    def __init__(self, data: Buffer, position: int, end: int, what: str) -> None:
        self._data = data
        self.position = position
        self.end = end
        self._what = what

    def error(self, problem: str) -> DecodeError:
        """The error to raise for a problem at the present position."""
        return DecodeError(f"{self._what}: {problem} at byte {self.position}")

    def take(self, length: int) -> bytes:
        """The next bytes."""
        if length < 0 or length > self.end - self.position:
            raise self.error(f"{length} bytes expected, {self.end - self.position} left")
        start = self.position
        self.position = end = start + length
        return bytes(self._data[start:end])

    def int16(self) -> int:
        """Big-endian int16."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def uint16(self) -> int:
        """Big-endian uint16."""
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        """Big-endian int32."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def uvarint(self, bits: int = 32) -> int:
        """Unsigned varint that fits the given number of bits."""
        position = self.position
        if position < self.end and (byte := self._data[position]) < 0x80:
            self.position = position + 1
            return byte
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise self.error(f"varint longer than {bits} bits")
        if value >> bits:
            raise self.error(f"varint longer than {bits} bits")
        return value

    def varint(self, bits: int = 32) -> int:
        """Signed (zigzag) varint that fits the given number of bits."""
        value = self.uvarint(bits)
        return (value >> 1) ^ -(value & 1)

    def nullable_bytes(self) -> bytes | None:
        """Bytes after their length as signed varint; -1 is null."""
        length = self.varint()
        if length == -1:
            return None
        if length < 0:
            raise self.error(f"negative length {length}")
        return self.take(length)

    def compact_string(self) -> str:
        """A string that is not null."""
        length = self.uvarint()
        if length == 0:
            raise self.error("null instead of a string")
        try:
            return self.take(length - 1).decode()
        except UnicodeDecodeError:
            raise self.error("text that is not UTF-8") from None

    def compact_array_length(self) -> int:
        """Number of elements of an array that is not null."""
        length = self.uvarint()
        if length == 0:
            raise self.error("null instead of an array")
        return length - 1

    def uuid(self) -> uuid.UUID:
        """Sixteen bytes."""
        return uuid.UUID(bytes=self.take(16))

    def tagged_fields(self) -> dict[int, bytes]:
        """All tagged fields, known or not; the caller picks what it knows."""
        fields: dict[int, bytes] = {}
        last = -1
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            if tag <= last:
                raise self.error(f"tag {tag} after tag {last}")
            last = tag
            fields[tag] = self.take(self.uvarint())
        return fields
