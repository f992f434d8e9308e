"""A cursor over bytes from a peer that never reads or allocates past their end.

Bodies are read with this cursor and not with kio. kio 0.6.5 allocates an array's claimed length
before it looks at the bytes, and a length that is too large ends the process (Rust's allocation
failure cannot be caught). kio also raises on unknown tagged fields, which a reader has to skip by
Kafka's format and S28.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from functools import lru_cache

from raftnode.core.types import NodeId, ReplicaKey
from raftnode.errors import DecodeError

_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")

ZERO_UUID = bytes(16)
"""Kafka's "no UUID"; no replica has it."""


@lru_cache(maxsize=512)
def replica_key(node_id: int, directory_id: bytes) -> ReplicaKey:
    """Make a replica's key from raw values.

    Raises:
        DecodeError: a negative id or the zero UUID (S5: an identity is whole or absent).
    """
    if node_id < 0 or directory_id == ZERO_UUID:
        raise DecodeError(f"not a replica: id {node_id}, directory id {directory_id.hex()}")
    return ReplicaKey(NodeId(node_id), uuid.UUID(bytes=directory_id))


class Reader:
    """Reads one value after another; each method raises DecodeError past the end."""

    __slots__ = ("_data", "_end", "_offset")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._offset = 0
        self._end = len(data)

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self._offset

    def skip(self, size: int) -> int:
        """Step over `size` bytes; returns where they began."""
        start = self._offset
        if size > self._end - start:
            raise DecodeError(f"ends after {self._end} bytes, {size} expected at {start}")
        self._offset = start + size
        return start

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read several integers at once."""
        return layout.unpack_from(self._data, self.skip(layout.size))

    def u8(self) -> int:
        """Read an unsigned byte."""
        return self._data[self.skip(1)]

    def u16(self) -> int:
        """Read an unsigned 16-bit integer."""
        return self.unpack(_U16)[0]

    def i16(self) -> int:
        """Read a signed 16-bit integer."""
        return self.unpack(_I16)[0]

    def i32(self) -> int:
        """Read a signed 32-bit integer."""
        return self.unpack(_I32)[0]

    def i64(self) -> int:
        """Read a signed 64-bit integer."""
        return self.unpack(_I64)[0]

    def boolean(self) -> bool:
        """Read a byte that must be 0 or 1."""
        value = self.u8()
        if value > 1:
            raise DecodeError(f"not a boolean: {value}")
        return bool(value)

    def raw(self, size: int) -> bytes:
        """Copy `size` bytes out."""
        start = self.skip(size)
        return bytes(self._data[start : start + size])

    def view(self, size: int) -> memoryview:
        """Give `size` bytes without copying."""
        start = self.skip(size)
        return self._data[start : start + size]

    def uuid_bytes(self) -> bytes:
        """Read the 16 bytes of a UUID."""
        return self.raw(16)

    def text(self, size: int) -> str:
        """Read `size` bytes of UTF-8."""
        try:
            return str(self.view(size), "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"not UTF-8: {error}") from None

    def uvarint(self) -> int:
        """Read an unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise DecodeError("varint of more than 32 bits")

    def compact_text(self) -> str | None:
        """Read Kafka's compact nullable string."""
        size = self.uvarint()
        return None if size == 0 else self.text(size - 1)

    def compact_bytes(self) -> memoryview | None:
        """Read Kafka's compact nullable bytes, without copying."""
        size = self.uvarint()
        return None if size == 0 else self.view(size - 1)

    def array(self, item_size_min: int) -> range:
        """Read the length of a compact array; null counts as empty.

        Raises:
            DecodeError: more items than the bytes that are left could hold.
        """
        count = max(self.uvarint() - 1, 0)
        if count * item_size_min > self.remaining:
            raise DecodeError(f"array of {count} items in {self.remaining} bytes")
        return range(count)

    def exactly_one(self, what: str) -> None:
        """Read the length of a compact array that must hold one item (P1)."""
        if (count := self.uvarint()) != 2:
            raise DecodeError(f"{count - 1} {what}, expected exactly one")

    def tags(self) -> Iterator[tuple[int, Reader]]:
        """Read the tagged fields that end a Kafka structure, in rising order of tag."""
        last = -1
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            if tag <= last:
                raise DecodeError(f"tagged field {tag} after {last}")
            last = tag
            yield tag, Reader(self.view(self.uvarint()))

    def skip_tags(self) -> None:
        """Step over tagged fields of which none is known."""
        for _ in self.tags():
            pass

    def finish(self) -> None:
        """Raise DecodeError if bytes are left."""
        if self._offset != self._end:
            raise DecodeError(f"{self._end - self._offset} bytes after the end")
