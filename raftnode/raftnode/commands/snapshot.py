"""`raftnode snapshot`: commands for snapshot files, without a node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raftnode.commands import log_files
from raftnode.commands.output import fail, print_fields, print_json, reporting
from raftnode.commands.progress import reading
from raftnode.core.log_index import LogIndex
from raftnode.core.records import Batch
from raftnode.core.types import Offset, VoterSet
from raftnode.errors import ConfigurationError, ExitCode
from raftnode.logformat.batch import iter_records, to_batch
from raftnode.logformat.snapshot import SnapshotHead, SnapshotId, StateRecord
from raftnode.statemachine.kv import Entry, KeyValueStore
from raftnode.storage.directory.identity import LOG_DIRECTORY
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import LogFiles, LogReader, find_log
from raftnode.storage.snapshots.snapshot_file import (
    SnapshotDamagedError,
    SnapshotFile,
    list_snapshots,
    write_snapshot,
)
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

app = typer.Typer(no_args_is_help=True, help="Inspect, verify and make snapshot files.")
app.command("dump")(log_files.dump)

SnapshotPath = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="A snapshot file, or a data directory or log directory that holds snapshots.",
        show_default=False,
    ),
]


@app.command()
def verify(path: SnapshotPath, *, as_json: log_files.AsJson = False) -> None:
    """Read snapshots from the first byte to the last and print the result for each.

    Of Kafka's snapshots it checks checksums, header and footer. It exits with STORAGE_CORRUPT if
    any snapshot is damaged.
    """
    damaged = 0
    with reporting():
        files = Files()
        for snapshot_path in _snapshots(files, path):
            there = files.stat(snapshot_path)
            with reading("verifying", 0 if there is None else there.size) as on_bytes:
                reader = SnapshotReader(files, snapshot_path, own=False, on_bytes=on_bytes)
                try:
                    for _ in reader.records():
                        pass
                except SnapshotDamagedError as error:
                    damaged += 1
                    _show_damage(snapshot_path, error, as_json=as_json)
            if reader.snapshot is not None:
                _show(snapshot_path, reader.snapshot, as_json=as_json)
    if damaged:
        raise fail(f"{path}: {damaged} damaged", ExitCode.STORAGE_CORRUPT)


@app.command()
def create(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A data directory or its log directory.")
    ],
    *,
    output: Annotated[
        Path, typer.Option(help="An existing directory for the file, other than the log directory.")
    ],
    end_offset: Annotated[
        int,
        typer.Option(
            min=1,
            help="Cover the records below this offset. A log alone does not say what is "
            "committed: use the high watermark that a leader reported.",
        ),
    ],
    as_json: log_files.AsJson = False,
) -> None:
    """Make a snapshot from the files of a log: of a copy, or while the node runs."""
    with reporting():
        files = Files()
        snapshot = _create(files, path, output, Offset(end_offset))
    _show(output / snapshot.snapshot_id.file_name, snapshot, as_json=as_json)


def _create(files: Files, path: Path, output: Path, end: Offset) -> SnapshotFile:
    log = find_log(files, path)
    there = files.stat(output)
    if there is None or not there.is_directory:
        raise ConfigurationError(f"--output: {output} is not an existing directory")
    if there.identity == _identity(files, log.directory):
        # A node would start from it, though it may hold records that are not committed.
        raise ConfigurationError(f"--output: {output} is the log directory; give another directory")
    store, index, last_ms = _begin(files, log, end)
    with reading("reading", log.size) as on_bytes:
        for _, batch in LogReader(files, log, on_bytes).batches(store.next_offset):
            if batch.header.base_offset >= end:
                break
            header, control = batch.header, ()
            if header.is_control:
                control = to_batch(header, bytes(batch.data)).control
            index.append(
                Batch(header.base_offset, header.last_offset, header.epoch, control=control)
            )
            for record in iter_records(batch.data):
                if record.offset >= end:
                    raise ConfigurationError(
                        f"--end-offset: {end} is in the middle of a batch; give the first "
                        "offset of a batch"
                    )
                if record.is_control:
                    store.skip(record.offset, record.offset)
                else:
                    store.apply(record.offset, record.key, record.value, epoch=record.epoch)
                last_ms = record.timestamp_ms
    if store.next_offset < end:
        raise ConfigurationError(
            f"--end-offset: {end} is too high, the log ends at offset {store.next_offset}"
        )
    log_head = index.head_at(end)
    head = SnapshotHead(
        log_head.voters,
        log_head.raft_version,
        log_head.formation_completed,
        last_ms,
        log_head.target_voters,
        voter_record=log_head.voter_record,
        target_record=log_head.target_record,
    )
    entries = (
        StateRecord(key, entry.value, entry.offset, entry.epoch)
        for key in store.scan()
        if (entry := store.get(key)) is not None
    )
    return write_snapshot(
        files, output, SnapshotId.at(log_head.position), head, entries, now_ms=last_ms
    )


def _begin(files: Files, log: LogFiles, end: Offset) -> tuple[KeyValueStore, LogIndex, int]:
    """Return the state before the log: empty, or that of the newest snapshot of a trimmed log."""
    start = log.pieces[0].base_offset
    if not start:
        return KeyValueStore(), LogIndex(VoterSet()), -1
    for snapshot_id in reversed(list_snapshots(files, log.directory)):
        if not start <= snapshot_id.end_offset <= end:
            continue
        reader = SnapshotReader(files, log.directory / snapshot_id.file_name)
        entries = ((r.key, Entry(r.value, r.offset, r.epoch)) for r in reader.records())
        store = KeyValueStore.restore(snapshot_id.end_offset, entries)
        snapshot = reader.snapshot
        if snapshot is not None and snapshot.log_head is not None:
            index = LogIndex(VoterSet())
            index.install(snapshot.log_head)
            return store, index, snapshot.head.last_timestamp_ms
    raise ConfigurationError(
        f"{log.directory} begins at offset {start}, and no snapshot there ends between "
        f"{start} and {end}"
    )


def _identity(files: Files, path: Path) -> tuple[int, int] | None:
    there = files.stat(path)
    return None if there is None else there.identity


def _snapshots(files: Files, path: Path) -> list[Path]:
    there = files.stat(path)
    if there is None:
        raise ConfigurationError(f"{path} does not exist")
    if not there.is_directory:
        if SnapshotId.of(path.name) is None:
            raise ConfigurationError(f"{path} does not have the name of a snapshot file")
        return [path]
    inner = path / LOG_DIRECTORY
    directory = path if files.stat(inner) is None else inner
    return [directory / snapshot_id.file_name for snapshot_id in list_snapshots(files, directory)]


def _show(path: Path, snapshot: SnapshotFile, *, as_json: bool) -> None:
    fields: dict[str, object] = {
        "file": str(path),
        "end_offset": snapshot.snapshot_id.end_offset,
        "epoch": snapshot.snapshot_id.epoch,
        "records": snapshot.records,
        "bytes": snapshot.size,
        "voters": [str(key) for key in snapshot.head.voters],
        "target_voters": [str(key) for key in snapshot.head.target_voters],
        "raft_version": snapshot.head.raft_version,
        "formation_completed": snapshot.head.formation_completed,
        "last_timestamp_ms": snapshot.head.last_timestamp_ms,
    }
    if as_json:
        print_json({"type": "snapshot", **fields})
    else:
        print_fields(list(fields.items()))


def _show_damage(path: Path, error: SnapshotDamagedError, *, as_json: bool) -> None:
    if as_json:
        print_json({"type": "finding", "kind": "damage", "file": str(path), "reason": str(error)})
    else:
        typer.echo(f"damage\t{error}")
