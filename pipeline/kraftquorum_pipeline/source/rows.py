"""Makes Arrow rows of records that were decoded one by one, and holds what all rows share.

`decode` is the quick way for data, many records at once. This module is for records from the
API, control records, snapshots, and records that are left out as corrupt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kraftquorum_pipeline.errors import CorruptError, ValueFormatError
from kraftquorum_pipeline.kinds import KIND_CONTROL, KIND_CORRUPT, KIND_DATA, KIND_STATE, VOTER_SET
from kraftquorum_pipeline.schema import HEADERS, TIMESTAMP, log_schema
from raftnode.core.types import ReplicaKey, format_directory_id

ROWS_MAX = 16_384
"""The most rows in an Arrow batch: a batch costs little per row and fits into memory."""


class Row(NamedTuple):
    """One row before Arrow; `schema` describes the columns."""

    offset: int
    epoch: int
    timestamp_ms: int
    kind: str
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    control: str | None = None
    fields: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The options for making rows.

    Attributes:
        cluster_id: the cluster id in every row.
        key_text: keys must be UTF-8 and become strings.
        value_text: values must be UTF-8 and become strings.
        value_json: values must be JSON, too.
        skip_corrupt: an unreadable record becomes a row of kind `corrupt` instead of an error.
    """

    cluster_id: str | None
    key_text: bool = False
    value_text: bool = False
    value_json: bool = False
    skip_corrupt: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return log_schema(key_text=self.key_text, value_text=self.value_text)


class Columns(NamedTuple):
    """The columns of rows of one kind; keys and values are still bytes."""

    offset: pa.Array
    epoch: pa.Array
    timestamp: pa.Array
    kind: str
    key: pa.Array
    value: pa.Array
    headers: pa.Array
    control: pa.Array
    fields: pa.Array


def control_row(
    place: tuple[int, int, int],
    name: str,
    fields: Mapping[str, Any] | None,
    key: bytes | None = None,
    value: bytes | None = None,
) -> Row:
    """Make the row of a control record; `place` is its offset, epoch and time in milliseconds."""
    text = json.dumps(fields or {}, separators=(",", ":"))
    return Row(*place, KIND_CONTROL, key, value, None, name, text)


def state_row(offset: int, epoch: int, key: bytes, value: bytes) -> Row:
    """Make the row of an entry of a snapshot."""
    return Row(offset, epoch, -1, KIND_STATE, key, value)


def voters_row(offset: int, epoch: int, voters: Iterable[ReplicaKey], as_of: int) -> Row:
    """Make the row of a state's voters: the set as the records up to `as_of` made it."""
    voter_fields = [
        {"node_id": key.node_id, "directory_id": format_directory_id(key.directory_id)}
        for key in sorted(voters)
    ]
    fields = json.dumps({"voters": voter_fields, "as_of": as_of}, separators=(",", ":"))
    return Row(offset, epoch, -1, KIND_STATE, control=VOTER_SET, fields=fields)


def corrupt_row(offset: int, end_offset: int, source: str, position: int, reason: str) -> Row:
    """Make the row that stands for the left out records [offset, end_offset)."""
    fields = {"end_offset": end_offset, "source": source, "position": position, "reason": reason}
    return Row(offset, -1, -1, KIND_CORRUPT, fields=json.dumps(fields, separators=(",", ":")))


def left_out(error: CorruptError, end_offset: int, position: int = -1) -> Row:
    """Make the row in the place of an error, if the options say so."""
    offset = -1 if error.offset is None else error.offset
    return corrupt_row(offset, end_offset, error.source, position, error.reason)


def table_of(rows: Sequence[Row], shape: Shape, source: str) -> list[pa.RecordBatch]:
    """Convert rows of any kinds to Arrow, in their order.

    Raises:
        ValueFormatError: a key or a value does not fit the shape, unless it is left out.
    """
    batches: list[pa.RecordBatch] = []
    first = 0
    for number in range(1, len(rows) + 1):
        if number == len(rows) or rows[number].kind != rows[first].kind:
            batches += finish(_columns(rows[first:number]), shape, source)
            first = number
    return batches


def _columns(rows: Sequence[Row]) -> Columns:
    times = [None if row.timestamp_ms < 0 else row.timestamp_ms * 1000 for row in rows]
    headers = [
        None
        if row.headers is None
        else [{"name": name, "value": value} for name, value in row.headers]
        for row in rows
    ]
    return Columns(
        pa.array([row.offset for row in rows], pa.int64()),
        pa.array([row.epoch for row in rows], pa.int32()),
        pa.array(times, pa.int64()).cast(TIMESTAMP),
        rows[0].kind,
        pa.array([row.key for row in rows], pa.binary()),
        pa.array([row.value for row in rows], pa.binary()),
        pa.array(headers, HEADERS),
        pa.array([row.control for row in rows], pa.string()),
        pa.array([row.fields for row in rows], pa.string()),
    )


def finish(columns: Columns, shape: Shape, source: str) -> list[pa.RecordBatch]:
    """Convert columns of one kind to Arrow: one batch, or more if rows are left out.

    Raises:
        ValueFormatError: a key or a value does not fit the shape, unless it is left out.
    """
    key, value = columns.key, columns.value
    if columns.kind in {KIND_DATA, KIND_STATE}:
        try:
            if shape.key_text:
                key = key.cast(pa.string())
            if shape.value_text:
                value = value.cast(pa.string())
            sound = not shape.value_json or _first_not_json(columns.value) is None
        except pa.ArrowInvalid:
            sound = False
        if not sound:
            return _without_misshapen(columns, shape, source)
    else:
        # Keys and values of control rows are not the client's, and not text.
        key = pa.nulls(len(key), pa.string()) if shape.key_text else key
        value = pa.nulls(len(value), pa.string()) if shape.value_text else value
    count = len(columns.offset)
    return [
        pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(shape.cluster_id, pa.string()), count),
                columns.offset,
                columns.epoch,
                columns.timestamp,
                pa.repeat(pa.scalar(columns.kind, pa.string()), count),
                key,
                value,
                columns.headers,
                columns.control,
                columns.fields,
            ],
            schema=shape.schema,
        )
    ]


def _without_misshapen(columns: Columns, shape: Shape, source: str) -> list[pa.RecordBatch]:
    keep: list[bool] = []
    bad: list[Row] = []
    for place in range(len(columns.offset)):
        key, value = columns.key[place].as_py(), columns.value[place].as_py()
        reason = _misshapen(key, value, shape)
        keep.append(reason is None)
        if reason is None:
            continue
        offset = int(columns.offset[place].as_py())
        error = ValueFormatError(source, reason, offset)
        if not shape.skip_corrupt:
            raise error
        bad.append(corrupt_row(offset, offset + 1, source, -1, reason))
    mask = pa.array(keep, pa.bool_())
    kept = [
        pc.filter(column, mask) if isinstance(column, pa.Array) else column for column in columns
    ]
    batches = finish(Columns(*kept), shape, source) if any(keep) else []
    return [*batches, *table_of(bad, shape, source)]


def _misshapen(key: bytes | None, value: bytes | None, shape: Shape) -> str | None:
    for data, what, wanted in ((key, "key", shape.key_text), (value, "value", shape.value_text)):
        if not wanted or data is None:
            continue
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return f"the {what} is not UTF-8, as {what}Format says: byte {error.start}"
    if shape.value_json and value is not None:
        try:
            msgspec.json.decode(value, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"the value is not JSON, as valueFormat says: {error}"
    return None


def _first_not_json(values: pa.Array) -> int | None:
    """Return the index of the first value that is not JSON."""
    decoder = msgspec.json.Decoder(msgspec.Raw)
    for place, value in enumerate(values.to_pylist()):
        if value is None:
            continue
        try:
            decoder.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return place
    return None
