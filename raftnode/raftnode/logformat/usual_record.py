"""The usual record of a data batch, decoded at a third of the cost of any record.

Usual is a record without attributes, headers and a time of its own, with a key below 64 bytes and
a value below 8 KiB, either of which may be null. `raftnode.logformat.batch` decodes any other, and
says what is wrong with one that is not well formed.
"""

from __future__ import annotations

UsualRecord = tuple[bytes | None, bytes | None, int]
"""Key, value, and the position behind the record."""

_MORE = 0x80
"""Set in a byte of a varint that is not its last."""

_NULL = 1
"""-1 as a signed varint."""


def read_usual_record(data: bytes, position: int, delta: int) -> UsualRecord | None:
    """Decode the record at a position, if it is a usual one.

    Args:
        data: the batch, to its end.
        position: of the record's length.
        delta: the record's number in the batch, which it must say too.

    Returns:
        None: it is none, or not well formed.
    """
    try:
        # A varint of one or two bytes, twice the value, as below.
        length = data[position]
        position += 1
        if length & _MORE:
            high = data[position]
            position += 1
            if high & _MORE:
                return None
            length += (high - 1) << 7
        end = position + (length >> 1)
        if length & 1 or data[position] or data[position + 1]:  # attributes, timestamp delta
            return None
        offset_delta = data[position + 2]
        position += 3
        if offset_delta & _MORE:
            high = data[position]
            position += 1
            if high & _MORE:
                return None
            offset_delta += (high - 1) << 7
        size = data[position]
        position += 1
        if offset_delta != 2 * delta or size & _MORE:
            return None
        key: bytes | None = None
        if size != _NULL:
            if size & 1:
                return None
            key_at, position = position, position + (size >> 1)
            key = data[key_at:position]
        size = data[position]
        position += 1
        if size & _MORE:
            high = data[position]
            position += 1
            if high & _MORE:
                return None
            size += (high - 1) << 7
        value: bytes | None = None
        if size != _NULL:
            if size & 1:
                return None
            value_at, position = position, position + (size >> 1)
            value = data[value_at:position]
        # The number of headers is the last byte, so all of the record is there.
        if data[position] or position + 1 != end:
            return None
    except IndexError:
        return None
    return key, value, end
