"""A cursor over the bytes of an answer, which never reads or allocates past their end.

The node has such a reader too (`raftnode.wire`), which the operator may not import: it is private
to the node. This one also names the message and the field in each error, since the bytes come from
a program of others, and reads Kafka's forms from before flexible versions.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.errors import KafkaDecodeError

TEXT_BYTES_MAX: Final = 4096
"""Limit of a string; Kafka's longest here is an error message."""

TAGS_MAX: Final = 64
"""Limit of tagged fields in one structure; Kafka's messages here have four."""

_U8 = struct.Struct(">B")
_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_U16 = struct.Struct(">H")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


@dataclass(slots=True)
class Reader:
    """Reads one value after another; each method raises KafkaDecodeError past the end.

    Attributes:
        message: what the bytes are, such as `DescribeQuorum v2`, for errors.
        data: the bytes.
        flexible: whether strings and arrays have the compact form of flexible versions.
        offset: how many bytes were read.
    """

    message: str
    data: memoryview
    flexible: bool
    offset: int = 0

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.offset

    def error(self, field: str, problem: str) -> KafkaDecodeError:
        """Make the error of a field."""
        return KafkaDecodeError(self.message, field, problem)

    def skip(self, field: str, size: int) -> int:
        """Step over `size` bytes; returns where they began."""
        if size > self.remaining:
            raise self.error(
                field, f"needs {size} bytes at {self.offset}, and {self.remaining} are left"
            )
        start = self.offset
        self.offset += size
        return start

    def _integer(self, field: str, layout: struct.Struct) -> int:
        value: int = layout.unpack_from(self.data, self.skip(field, layout.size))[0]
        return value

    def i8(self, field: str) -> int:
        """Read a signed byte."""
        return self._integer(field, _I8)

    def i16(self, field: str) -> int:
        """Read a signed 16-bit integer."""
        return self._integer(field, _I16)

    def u16(self, field: str) -> int:
        """Read an unsigned 16-bit integer."""
        return self._integer(field, _U16)

    def i32(self, field: str) -> int:
        """Read a signed 32-bit integer."""
        return self._integer(field, _I32)

    def i64(self, field: str) -> int:
        """Read a signed 64-bit integer."""
        return self._integer(field, _I64)

    def boolean(self, field: str) -> bool:
        """Read a byte that must be 0 or 1."""
        value = self._integer(field, _U8)
        if value > 1:
            raise self.error(field, f"is {value}: a boolean is 0 or 1")
        return bool(value)

    def directory_id(self, field: str) -> uuid.UUID:
        """Read the 16 bytes of a UUID; Kafka's zero UUID means none."""
        start = self.skip(field, 16)
        return uuid.UUID(bytes=bytes(self.data[start : start + 16]))

    def uvarint(self, field: str) -> int:
        """Read an unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self._integer(field, _U8)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise self.error(field, "is a varint of more than 32 bits")

    def raw(self, field: str, size_max: int) -> bytes | None:
        """Read bytes with their length, at most `size_max`; None for null."""
        size = self.uvarint(field) - 1 if self.flexible else self.i32(field)
        return self._sized(field, size, size_max)

    def nullable_text(self, field: str) -> str | None:
        """Read a string of at most TEXT_BYTES_MAX bytes of UTF-8; None for null."""
        size = self.uvarint(field) - 1 if self.flexible else self.i16(field)
        data = self._sized(field, size, TEXT_BYTES_MAX)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.error(field, f"is not UTF-8: {error}") from None

    def text(self, field: str) -> str:
        """Read such a string, which must not be null."""
        value = self.nullable_text(field)
        if value is None:
            raise self.error(field, "is null")
        return value

    def array(self, field: str, item_bytes_min: int, items_max: int) -> range:
        """Read the length of an array; null counts as empty.

        Args:
            field: its name.
            item_bytes_min: how many bytes the smallest item has; must be at least 1.
            items_max: how many items are allowed.

        Raises:
            KafkaDecodeError: more items than allowed, or than the bytes that are left can hold.
        """
        count = self.uvarint(field) - 1 if self.flexible else self.i32(field)
        if count > items_max:
            raise self.error(field, f"has {count} items: at most {items_max} are allowed")
        if count < -1:
            raise self.error(field, f"has {count} items")
        if count * item_bytes_min > self.remaining:
            raise self.error(
                field,
                f"has {count} items of at least {item_bytes_min} bytes, "
                f"and {self.remaining} bytes are left",
            )
        return range(max(count, 0))

    def tags(self, field: str) -> dict[int, Reader]:
        """Read the tagged fields that end a structure; none in versions that have none."""
        fields: dict[int, Reader] = {}
        if not self.flexible:
            return fields
        count = self.uvarint(f"{field} tags")
        if count > TAGS_MAX:
            raise self.error(f"{field} tags", f"are {count}: at most {TAGS_MAX} are allowed")
        last = -1
        for _ in range(count):
            tag = self.uvarint(f"{field} tags")
            if tag <= last:
                raise self.error(f"{field} tags", f"have tag {tag} after {last}")
            last = tag
            size = self.uvarint(f"{field} tag {tag}")
            start = self.skip(f"{field} tag {tag}", size)
            fields[tag] = Reader(self.message, self.data[start : start + size], flexible=True)
        return fields

    def finish(self) -> None:
        """Raise KafkaDecodeError if bytes are left."""
        if self.remaining:
            raise self.error("end", f"{self.remaining} bytes are left behind the last field")

    def _sized(self, field: str, size: int, size_max: int) -> bytes | None:
        if size < -1:
            raise self.error(field, f"has length {size}")
        if size > size_max:
            raise self.error(field, f"has {size} bytes: at most {size_max} are allowed")
        if size == -1:
            return None
        start = self.skip(field, size)
        return bytes(self.data[start : start + size])
