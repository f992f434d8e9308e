"""`raftnode log dump`, `verify` and `stats`: commands for the log's files, without a node.

They change nothing and take no lock. They work on a copy, and also while the node runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from raftnode.commands.output import (
    CommandExitCode,
    as_text,
    base64_text,
    fail,
    print_fields,
    print_json,
    reporting,
)
from raftnode.commands.progress import reading
from raftnode.core.types import Offset
from raftnode.errors import DecodeError, ExitCode, StorageCorruptError
from raftnode.logformat.batch import LogRecord, iter_records
from raftnode.logformat.control_fields import describe_control
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import FoundBatch, LogFiles, LogReader, Piece, find_log
from raftnode.storage.inspection.verification import Finding, Verification

LogPath = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="A data directory, its log directory, a segment or a snapshot file.",
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, for scripts.")
]

_LINES = 512


def dump(
    path: LogPath,
    *,
    offset: Annotated[int, typer.Option(min=0, help="Offset of the first record.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Largest number of batches. Default: all.")
    ] = None,
    batches_only: Annotated[
        bool, typer.Option("--batches", help="Do not print the records.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the batches and records in the files, committed or not, one per line.

    A batch: `batch`, offsets, epoch, file, byte, size, time, checksum. A record: offset,
    epoch, time, key or kind of control record, value or fields. Ends at damage with
    STORAGE_CORRUPT, after what comes before it.
    """
    with reporting():
        files = Files()
        log = find_log(files, path)
        # A terminal that shows the lines has no room for a bar.
        total = 0 if sys.stdout.isatty() else log.size
        with reading("dumping", total) as on_bytes:
            reader = LogReader(files, log, on_bytes)
            batches = islice(reader.batches(Offset(offset)), limit)
            show = _json_lines if as_json else _text_lines
            lines = (
                line
                for piece, batch in batches
                for line in show(piece, batch, offset, records=not batches_only)
            )
            _print_lines(lines)
        if reader.tail is not None:
            if as_json:
                tail = reader.tail
                place = {"file": tail.path.name, "position": tail.position, "offset": tail.offset}
                print_json({"type": "tail", **place, "reason": tail.reason})
            else:
                typer.echo(f"tail\t{reader.tail}: being written, or torn", err=True)


def _print_lines(lines: Iterator[str]) -> None:
    """Print in pieces, also those that were ready before an error."""
    held: list[str] = []
    try:
        for line in lines:
            held.append(line)
            if len(held) >= _LINES:
                sys.stdout.write("".join(held))
                held.clear()
    finally:
        sys.stdout.write("".join(held))
        sys.stdout.flush()


def _text_lines(piece: Piece, batch: FoundBatch, offset: int, *, records: bool) -> Iterator[str]:
    header = batch.header
    what = "control" if header.is_control else "data"
    yield (
        f"batch\t{header.base_offset}-{header.last_offset}\tepoch {header.epoch}\t{what}\t"
        f"{piece.path.name}@{batch.position}\t{header.size} bytes\t"
        f"{_time(header.max_timestamp_ms)}\tcrc {header.crc:#010x}\n"
    )
    if not records:
        return
    for record in _records(piece, batch):
        if record.offset < offset:
            continue
        if record.is_control:
            name, fields = _described(piece, batch, record)
            text = f"{name}\t{msgspec.json.encode(fields).decode()}"
        else:
            key = "-" if record.key is None else as_text(record.key)
            text = f"{key}\t{'(null)' if record.value is None else as_text(record.value)}"
        yield f"{record.offset}\t{record.epoch}\t{record.timestamp_ms}\t{text}\n"


def _json_lines(piece: Piece, batch: FoundBatch, offset: int, *, records: bool) -> Iterator[str]:
    header = batch.header
    fields: dict[str, object] = {
        "type": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "epoch": header.epoch,
        "control": header.is_control,
        "file": piece.path.name,
        "position": batch.position,
        "size": header.size,
        "crc": header.crc,
        "base_timestamp_ms": header.base_timestamp_ms,
        "max_timestamp_ms": header.max_timestamp_ms,
        "records": header.record_count,
    }
    yield _json_line(fields)
    if not records:
        return
    for record in _records(piece, batch):
        if record.offset < offset:
            continue
        common = {
            "type": "record",
            "offset": record.offset,
            "epoch": record.epoch,
            "timestamp_ms": record.timestamp_ms,
        }
        if record.is_control:
            name, fields = _described(piece, batch, record)
            yield _json_line({**common, "control": name, "fields": fields})
        else:
            headers = [[name, base64_text(value)] for name, value in record.headers]
            data = {"key": base64_text(record.key), "value": base64_text(record.value)}
            yield _json_line({**common, **data, "headers": headers})


def _json_line(fields: dict[str, object]) -> str:
    return msgspec.json.encode(fields).decode() + "\n"


def _records(piece: Piece, batch: FoundBatch) -> Iterator[LogRecord]:
    try:
        yield from iter_records(batch.data)
    except DecodeError as error:
        raise _in_batch(piece, batch, error) from error


def _described(piece: Piece, batch: FoundBatch, record: LogRecord) -> tuple[str, dict[str, object]]:
    try:
        name, fields = describe_control(record.key, record.value)
    except DecodeError as error:
        raise _in_batch(piece, batch, error) from error
    return name, dict(fields)


def _in_batch(piece: Piece, batch: FoundBatch, error: DecodeError) -> StorageCorruptError:
    place = f"{piece.path} at byte {batch.position} (offset {batch.header.base_offset})"
    return StorageCorruptError(f"{place}: {error}")


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "no time"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return f"{timestamp_ms} ms"


_ADVICE = {
    "damage": "records are damaged: keep a copy of the directory, then replace this replica (start "
    "it with an empty disk; it fetches the log from the other voters)",
    "derived": (
        "no record is affected: stop the node, delete the files named above, start the node again"
    ),
}


def verify(
    path: LogPath,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check every batch and every index entry, and whether the checkpoints agree with them.

    Prints one finding per line, with file, byte and offset, then a summary. Exits with
    STORAGE_CORRUPT if records or checkpoints are damaged, and with DERIVED_DAMAGED if only files
    are damaged that the next start rebuilds. An unfinished batch at the end of a log is no
    fault.
    """
    with reporting():
        files = Files()
        log = find_log(files, path)
        counts: Counter[str] = Counter()
        with reading("verifying", log.size) as on_bytes:
            verification = Verification(files, log, deep, on_bytes)
            for finding in verification.run():
                counts[finding.kind] += 1
                _show_finding(finding, as_json=as_json)
        summary = {
            "segments": len(log.pieces),
            "bytes": log.size,
            "batches": verification.batches,
            "records": verification.records,
            **{kind: counts[kind] for kind in ("damage", "derived", "tail")},
        }
        if as_json:
            print_json({"type": "summary", **summary})
        else:
            typer.echo("\t".join(f"{name} {value}" for name, value in summary.items()))
    for kind, code in (
        ("damage", ExitCode.STORAGE_CORRUPT),
        ("derived", CommandExitCode.DERIVED_DAMAGED),
    ):
        if counts[kind]:
            raise fail(f"{log.directory}: {_ADVICE[kind]}", code)


def _show_finding(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "type": "finding",
                "kind": finding.kind,
                "file": str(finding.path),
                "position": finding.position,
                "offset": finding.offset,
                "reason": finding.reason,
            }
        )
    else:
        typer.echo(f"{finding.kind}\t{finding}")


@dataclass(slots=True)
class _Totals:
    """The counts that `stats` prints."""

    batches: int = 0
    records: int = 0
    largest_batch: int = 0
    control: Counter[str] = field(default_factory=Counter[str])
    epochs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    first: int | None = None
    end: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    bytes: int = 0

    def see(self, piece: Piece, batch: FoundBatch) -> None:
        header = batch.header
        self.batches += 1
        self.records += header.record_count
        self.bytes += header.size
        self.largest_batch = max(self.largest_batch, header.size)
        if not self.epochs or self.epochs[-1][0] != header.epoch:
            self.epochs.append((header.epoch, header.base_offset))
        self.first = header.base_offset if self.first is None else self.first
        self.end = header.end_offset
        if header.max_timestamp_ms >= 0:
            times = (header.base_timestamp_ms, header.max_timestamp_ms)
            self.first_ms = min(times if self.first_ms is None else (self.first_ms, *times))
            self.last_ms = max(times if self.last_ms is None else (self.last_ms, *times))
        if header.is_control:
            for record in _records(piece, batch):
                self.control[_described(piece, batch, record)[0]] += 1


def stats(path: LogPath, *, as_json: AsJson = False) -> None:
    """Print the log's size: records, bytes, epochs, the time it covers, rates."""
    with reporting():
        files = Files()
        log = find_log(files, path)
        totals = _Totals()
        with reading("counting", log.size) as on_bytes:
            reader = LogReader(files, log, on_bytes)
            for piece, batch in reader.batches():
                totals.see(piece, batch)
        fields = _fields(files, log, totals)
    if as_json:
        print_json(fields)
    else:
        print_fields(list(fields.items()))


def _fields(files: Files, log: LogFiles, totals: _Totals) -> dict[str, object]:
    indexes = 0
    for piece in log.pieces:
        for suffix in (".index", ".timeindex"):
            there = files.stat(piece.path.with_suffix(suffix))
            indexes += 0 if there is None else there.size
    control = sum(totals.control.values())
    span_ms = 0 if totals.first_ms is None else (totals.last_ms or 0) - totals.first_ms
    return {
        "segments": len(log.pieces),
        "start_offset": totals.first,
        "end_offset": totals.end,
        "known_durable_to": log.durable if log.whole else None,
        "batches": totals.batches,
        "records": totals.records,
        "data_records": totals.records - control,
        "control_records": dict(sorted(totals.control.items())),
        "bytes": totals.bytes,
        "index_bytes": indexes,
        "largest_batch_bytes": totals.largest_batch,
        "mean_batch_bytes": round(totals.bytes / totals.batches) if totals.batches else 0,
        "epochs": len(totals.epochs),
        "first_epoch": totals.epochs[0][0] if totals.epochs else None,
        "last_epoch": totals.epochs[-1][0] if totals.epochs else None,
        "first_timestamp_ms": totals.first_ms,
        "last_timestamp_ms": totals.last_ms,
        "span_ms": span_ms,
        "records_per_s": round(totals.records / span_ms * 1000, 1) if span_ms else None,
        "bytes_per_s": round(totals.bytes / span_ms * 1000) if span_ms else None,
    }
