"""Decodes batches of data records into Arrow, thousands of records at once.

The decoder finds the start of each record one by one, with a few instructions each, because a
record has the start of the next record. It then reads the fields of all records together, and
takes keys and values from the bytes without a copy of each. It leaves unusual records (with
headers, attributes, or a wrong length) to the node's own reader, which reports what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kraftquorum_pipeline.errors import CorruptError
from kraftquorum_pipeline.kinds import KIND_DATA
from kraftquorum_pipeline.schema import HEADERS, TIMESTAMP
from kraftquorum_pipeline.source.rows import ROWS_MAX, Columns, Row, corrupt_row, finish, table_of
from raftnode.errors import DecodeError
from raftnode.logformat import HEADER_BYTES, BatchHeader, iter_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kraftquorum_pipeline.source.rows import Shape

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

BYTES_MAX = 8 << 20
"""The most records in an Arrow batch, unless a single batch of the log has more."""

_INLINE = 12
"""Arrow keeps values up to this length in the view itself."""

_PADDING = bytes(16)
"""Zeros after the data, so that the decoder may read past the end of the last record."""

_SEVEN_BITS = 0x7F


class _UnusualError(Exception):
    """The quick decoder cannot read it; the node's own reader decides what it is."""


@dataclass(slots=True)
class Collector:
    """Collects data batches in the order of the log, and returns them as Arrow.

    Attributes:
        shape: the shape of the rows.
        source: the source that errors name.
        start: the first offset; lower offsets are left out.
        end: one past the last offset; higher offsets are left out.
    """

    shape: Shape
    source: str
    start: int
    end: int
    _data: bytearray = field(default_factory=bytearray)
    _headers: list[BatchHeader] = field(default_factory=list[BatchHeader])
    _starts: list[int] = field(default_factory=list[int])
    _records: int = 0

    def add(self, header: BatchHeader, data: memoryview) -> None:
        """Add a batch with a checked checksum; its bytes are copied."""
        at = len(self._data)
        self._headers.append(header)
        self._starts.append(at)
        self._data += data
        self._records += header.record_count

    @property
    def full(self) -> bool:
        """Whether it is time to `take`."""
        return self._records >= ROWS_MAX or len(self._data) >= BYTES_MAX

    def take(self) -> list[pa.RecordBatch]:
        """Return the collected batches as Arrow, and start again with none.

        Raises:
            CorruptError: records are not well formed, unless they are left out.
            ValueFormatError: a key or a value does not have the format of the shape.
        """
        if not self._headers:
            return []
        data, headers, starts = bytes(self._data), self._headers, self._starts
        self._data, self._headers, self._starts, self._records = bytearray(), [], [], 0
        try:
            columns = _quick(data, headers, starts)
        except (_UnusualError, IndexError):
            return self._plain(data, headers, starts)
        return self._cut(columns, headers)

    def _cut(self, columns: Columns, headers: list[BatchHeader]) -> list[pa.RecordBatch]:
        first, end = int(headers[0].base_offset), int(headers[-1].end_offset)
        low, high = max(self.start - first, 0), min(self.end, end) - first
        if low or high < end - first:
            cut = [
                column.slice(low, max(high - low, 0)) if isinstance(column, pa.Array) else column
                for column in columns
            ]
            columns = Columns(*cut)
        return finish(columns, self.shape, self.source) if len(columns.offset) else []

    def _plain(
        self, data: bytes, headers: list[BatchHeader], starts: list[int]
    ) -> list[pa.RecordBatch]:
        rows: list[Row] = []
        view = memoryview(data)
        for header, at in zip(headers, starts, strict=True):
            try:
                records = [
                    Row(
                        *(record.offset, record.epoch, record.timestamp_ms, KIND_DATA),
                        *(record.key, record.value, record.headers),
                    )
                    for record in iter_records(view[at : at + header.size])
                    if self.start <= record.offset < self.end
                ]
            except DecodeError as error:
                rows += self._left_out(header, str(error))
            else:
                rows += records
        return table_of(rows, self.shape, self.source)

    def _left_out(self, header: BatchHeader, reason: str) -> list[Row]:
        offset = max(int(header.base_offset), self.start)
        end = min(int(header.end_offset), self.end)
        if end <= offset:
            return []
        if not self.shape.skip_corrupt:
            raise CorruptError(self.source, reason, offset)
        return [corrupt_row(offset, end, self.source, -1, reason)]


def _quick(data: bytes, headers: list[BatchHeader], starts: list[int]) -> Columns:
    """Decode adjacent data batches.

    Raises:
        _UnusualError, IndexError: the node's own reader must read the batches.
    """
    counts = np.array([header.record_count for header in headers], np.int64)
    places = _places(data, headers, starts)
    buffer = np.frombuffer(data + _PADDING, np.uint8)
    length, at = _varints(buffer, places)
    ends = at + length
    if buffer[at].any():
        raise _UnusualError
    time_delta, at = _varints(buffer, at + 1)
    delta, at = _varints(buffer, at)
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    if (delta != np.arange(len(places)) - firsts).any():
        raise _UnusualError
    key, at = _bytes(data, buffer, at, ends)
    value, at = _bytes(data, buffer, at, ends)
    # Zero headers are one byte, the last byte of the record.
    if buffer[at].any() or (at + 1 != ends).any():
        raise _UnusualError

    def of_batch(values: list[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), counts)

    times = of_batch([header.base_timestamp_ms for header in headers]) + time_delta
    offsets = of_batch([int(header.base_offset) for header in headers]) + delta
    count = len(places)
    no_text = pa.nulls(count, pa.string())
    return Columns(
        pa.array(offsets),
        pa.array(of_batch([int(header.epoch) for header in headers]).astype(np.int32)),
        pa.array(times * 1000, mask=times < 0).cast(TIMESTAMP),
        KIND_DATA,
        key,
        value,
        pa.ListArray.from_arrays(
            pa.array(np.zeros(count + 1, np.int32)), pa.array([], HEADERS.value_type)
        ).cast(HEADERS),
        no_text,
        no_text,
    )


def _places(data: bytes, headers: list[BatchHeader], starts: list[int]) -> Ints:
    """Return the start of each record."""
    places: list[int] = []
    note = places.append
    for header, start in zip(headers, starts, strict=True):
        at, end = start + HEADER_BYTES, start + header.size
        for _ in range(header.record_count):
            note(at)
            low = data[at]
            if low < 0x80:
                at += 1 + (low >> 1)
            else:
                high = data[at + 1]
                if high < 0x80:
                    at += 2 + ((high << 7 | low & _SEVEN_BITS) >> 1)
                else:
                    at = _long(data, at)
        if at != end:
            raise _UnusualError
    return np.array(places, np.int64)


def _long(data: bytes, at: int) -> int:
    """Return the start of the record after a record whose length has three bytes or more."""
    length = shift = 0
    while True:
        byte = data[at]
        length |= (byte & _SEVEN_BITS) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return at + (length >> 1)
        if shift > 28:
            raise _UnusualError


def _varints(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Read signed varints at many places; return their values and their ends."""
    byte = buffer[at]
    value = (byte & _SEVEN_BITS).astype(np.int64)
    at = at + 1
    more = np.flatnonzero(byte > _SEVEN_BITS)
    shift = 7
    while len(more):
        if shift > 56:
            raise _UnusualError
        byte = buffer[at[more]]
        value[more] |= (byte & _SEVEN_BITS).astype(np.int64) << shift
        at[more] += 1
        more = more[byte > _SEVEN_BITS]
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _bytes(data: bytes, buffer: Bytes, at: Ints, ends: Ints) -> tuple[pa.Array, Ints]:
    """Read nullable bytes at many places as an Arrow column; return it and their ends."""
    length, at = _varints(buffer, at)
    there = length >= 0
    size = np.where(there, length, 0)
    after = at + size
    if (length < -1).any() or (after > ends).any():
        raise _UnusualError
    count = len(at)
    if not there.any():
        return pa.nulls(count, pa.binary()), after
    views = np.zeros((count, 16), np.uint8)
    words = views.view("<i4")
    words[:, 0] = size
    begin = buffer[at[:, None] + np.arange(_INLINE)]
    begin[np.arange(_INLINE) >= size[:, None]] = 0
    views[:, 4:] = begin
    outside = size > _INLINE
    words[outside, 2] = 0
    words[outside, 3] = at[outside]
    bitmap = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    made = pa.Array.from_buffers(
        pa.binary_view(), count, [bitmap, pa.py_buffer(views), pa.py_buffer(data)]
    )
    return made.cast(pa.binary()), after
