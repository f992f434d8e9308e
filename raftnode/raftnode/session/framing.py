"""What messages of operations and messages of answers have in common.

A message is a byte that says which it is, then entries. An entry is a head, which begins with the
length of what follows that length, and a body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from raftnode.errors import DecodeError

LENGTH = struct.Struct(">I")


def encode(marker: int, parts: Iterable[bytes]) -> bytes:
    """Put heads and bodies into one message."""
    return b"".join((bytes((marker,)), *parts))


def following_bytes(head: struct.Struct, body_bytes: int) -> int:
    """The length that an entry's head begins with."""
    return head.size - LENGTH.size + body_bytes


def split(
    data: bytes, marker: int, head: struct.Struct, what: str
) -> Iterator[tuple[list[int], bytes]]:
    """Take a message apart: the numbers of each head after its length, and the body.

    Args:
        data: the message.
        marker: the first byte that it must have.
        head: of its entries; begins with the length.
        what: an entry, in the singular.

    Raises:
        DecodeError: it is no message of whole entries.
    """
    if not data or data[0] != marker:
        raise DecodeError(
            f"the message begins with {data[:1].hex() or 'nothing'}; expected {marker:02x} "
            f"({what}s)"
        )
    shortest = following_bytes(head, 0)
    position, end, number = 1, len(data), 0
    while position < end:
        if end - position < head.size:
            raise DecodeError(
                f"{what} {number}: {end - position} bytes left; its head has {head.size}"
            )
        length, *numbers = head.unpack_from(data, position)
        following = position + LENGTH.size + length
        if length < shortest or following > end:
            raise DecodeError(
                f"{what} {number}: its length is {length}; expected "
                f"{shortest} to {end - position - LENGTH.size}"
            )
        yield numbers, data[position + head.size : following]
        position, number = following, number + 1
