"""Reads the ranges that differ again, and describes their batches in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from raftnode.errors import DecodeError
from raftnode.logformat import BatchHeader, LogRecord, describe_control, iter_records

from .findings import Finding, Place
from .log_matching import Batch
from .replica_files import Piece
from .scan import CHUNK, Row, digest, visit_batches

CHUNKS_MAX = 64
"""The most ranges that the audit reads again; it only counts the other ranges that differ."""

_SHOWN_BYTES = 24


def read_batches(rows: Iterable[Row], pieces: Mapping[str, Piece]) -> list[Batch]:
    """Read the whole batches of chunks from their segments.

    Args:
        rows: chunks.
        pieces: segments by path.
    """
    batches: list[Batch] = []
    for row in rows:
        piece = pieces[row.path]

        def visit(header: BatchHeader, position: int, data: memoryview, row: Row = row) -> None:
            if header.base_offset // CHUNK == row.chunk:
                batches.append(_batch(row, header, position, data))

        visit_batches(piece, visit, (row.position, row.offset), (row.chunk + 1) * CHUNK)
    return batches


def _batch(row: Row, header: BatchHeader, position: int, data: memoryview) -> Batch:
    return Batch(
        row.replica,
        row.path,
        position,
        int(header.base_offset),
        int(header.end_offset),
        int(header.epoch),
        header.size,
        digest(data),
        describe(header, data),
    )


def describe(header: BatchHeader, data: memoryview) -> str:
    """Describe a batch and its first record in words."""
    last = int(header.last_offset)
    span = f"offset {header.base_offset}" + (f"-{last}" if last > header.base_offset else "")
    head = f"{span}, epoch {header.epoch}, {header.size} bytes, crc {header.crc:#010x}"
    try:
        record = next(iter_records(data))
        return f"{head}, {_record(record)}"
    except (DecodeError, StopIteration) as error:
        return f"{head}, unreadable: {error}"


def _record(record: LogRecord) -> str:
    if record.is_control:
        name, fields = describe_control(record.key, record.value)
        replica = fields.get("voter") or fields.get("leader") or ""
        return f"{name} {replica}".rstrip()
    return f"{_shown(record.key)} = {_shown(record.value)}"


def _shown(data: bytes | None) -> str:
    if data is None:
        return "nothing"
    text = data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(text) + ("…" if len(data) > _SHOWN_BYTES else "")


def with_others(
    finding: Finding, chunks: Mapping[int, list[Row]], pieces: Mapping[str, Piece]
) -> Finding:
    """Add to a finding about one replica what the other replicas have at that offset."""
    offset = finding.place.offset
    rows = [row for row in chunks.get(offset // CHUNK, ()) if row.replica != finding.place.replica]
    if finding.others or offset < 0 or not rows:
        return finding
    others: dict[str, Place] = {}
    for batch in read_batches(rows, pieces):
        if batch.base_offset <= offset < batch.end_offset:
            others.setdefault(batch.replica, batch.place)
    return replace(finding, others=tuple(others[name] for name in sorted(others)))
