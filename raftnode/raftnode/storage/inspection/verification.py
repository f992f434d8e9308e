"""The verification of a log's files: each batch and each index entry.

Every piece is read whole, damaged or not, so that one report names all damage. The report
distinguishes files that a start makes again from the segments (indexes, `control-batches.json`)
from files that cannot be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from raftnode.core.types import FIRST_OFFSET, NO_EPOCH, Offset
from raftnode.errors import DecodeError, RaftnodeError
from raftnode.logformat.batch import MAX_OFFSET, BatchHeader, iter_records
from raftnode.logformat.epochs import EpochIndex, EpochStart
from raftnode.logformat.index import (
    INTERVAL_BYTES,
    NO_TIMESTAMP_MS,
    OFFSET_ENTRY_BYTES,
    OFFSET_SUFFIX,
    TIME_ENTRY_BYTES,
    TIME_SUFFIX,
    SegmentIndex,
)
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import FoundBatch, LogFiles, Piece, PieceReader, is_tail
from raftnode.storage.log import control_places
from raftnode.storage.log.checkpoints import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_log_start,
    read_recovery_point,
)
from raftnode.storage.log.control_places import ControlPlace, read_control_places
from raftnode.storage.log.epoch_file import FILE_NAME as EPOCHS_FILE
from raftnode.storage.log.epoch_file import read_epochs
from raftnode.storage.segments.index_files import LIMIT_BYTES
from raftnode.storage.snapshots.snapshot_file import list_snapshots

Kind = Literal["damage", "derived", "tail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault in a file of the log.

    Attributes:
        kind: `damage`: in records or in what is known of them; `derived`: in a file that a start
            makes again; `tail`: an unfinished end, which is no fault.
        path: the file.
        position: the byte; None: the file as a whole.
        offset: of the record there; None: not known.
        reason: what is wrong.
    """

    kind: Kind
    path: Path
    position: int | None
    offset: Offset | None
    reason: str

    def __str__(self) -> str:
        byte = "" if self.position is None else f" at byte {self.position}"
        offset = "" if self.offset is None else f" (offset {self.offset})"
        return f"{self.path}{byte}{offset}: {self.reason}"


@dataclass(slots=True)
class Verification:
    """One pass over a log.

    Attributes:
        records_too: decode every record as well.
        on_bytes: called with the number of bytes read since the last call.
        batches: how many were whole so far.
        records: how many records these batches hold.
    """

    files: Files
    log: LogFiles
    records_too: bool = False
    on_bytes: Callable[[int], None] = lambda _count: None
    batches: int = field(default=0, init=False)
    records: int = field(default=0, init=False)
    _epochs: list[EpochStart] = field(default_factory=list[EpochStart], init=False)
    _control: list[ControlPlace] = field(default_factory=list[ControlPlace], init=False)
    _broken: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)

    def run(self) -> Iterator[Finding]:
        """Yield the findings, in the order of the files."""
        # Before the segments: a running node writes these first.
        checkpoints = _Checkpoints.read(self.files, self.log) if self.log.whole else None
        before: PieceReader | None = None
        start = self.log.pieces[0].base_offset
        epoch_before = NO_EPOCH
        if checkpoints is not None and checkpoints.epochs is not None:
            epoch_before = EpochIndex(checkpoints.epochs).epoch_at(Offset(start - 1))
        for number, piece in enumerate(self.log.pieces):
            following = self.log.pieces[number + 1 :]
            if self.log.whole and self.files.stat(piece.path) is None:
                self._broken = True  # gone since the files were listed: nothing is to be compared
                if piece.base_offset < read_log_start(
                    self.files, self.log.directory / LOG_START_FILE
                ):
                    before = None  # trimmed away by a running node
                    continue
                break  # truncated away likewise
            if before is not None and before.end_offset != piece.base_offset:
                if before.damage is None:
                    reason = (
                        f"ends at offset {before.end_offset}, but the next segment begins "
                        f"at {piece.base_offset}"
                    )
                    yield Finding("damage", before.piece.path, before.position, None, reason)
                self._broken = True
            epoch = epoch_before if before is None else before.epoch
            reader = PieceReader(piece, epoch, piece.base_offset, on_bytes=self.on_bytes)
            if checkpoints is not None and checkpoints.epochs is not None:
                reader.epochs, reader.durable = EpochIndex(checkpoints.epochs), self.log.durable
            yield from self._piece(reader, following)
            before = reader
            if self._ended:
                break
        if checkpoints is not None and before is not None:
            yield from checkpoints.findings
            yield from self._reach(checkpoints, start)
            if not self._broken:
                yield from self._compare(checkpoints, before)

    def _piece(self, reader: PieceReader, following: tuple[Piece, ...]) -> Iterator[Finding]:
        piece, last = reader.piece, not following
        indexed = self.log.whole or self.files.stat(piece.path.with_suffix(OFFSET_SUFFIX))
        complete_to = Offset(-1)
        if self.log.recovery_point is not None:
            # Only indexes of this node have an entry wherever one is due. A running node
            # writes the entry before it syncs the batch.
            complete_to = self.log.durable if last else Offset(MAX_OFFSET)
        checks = _IndexChecks(self.files, piece, complete_to) if indexed else None
        epoch = reader.epoch
        for batch in reader.batches(self.files):
            header = batch.header
            self.batches += 1
            self.records += header.record_count
            if checks is not None:
                checks.see(batch)
            if header.epoch != epoch:
                epoch = header.epoch
                self._epochs.append(EpochStart(header.epoch, header.base_offset))
            if header.is_control:
                self._control.append(ControlPlace(header.base_offset, batch.position))
            if header.is_control or self.records_too:
                yield from _records(piece, batch)
        if reader.damage is not None:
            damage = reader.damage
            kind: Kind = "damage"
            if is_tail(self.files, self.log, damage, following):
                kind = "tail"
                self._ended = True
                # Below what was durable: a running node has truncated meanwhile.
                self._broken = self._broken or damage.offset < self.log.durable
            else:
                self._broken = True
            yield Finding(kind, damage.path, damage.position, damage.offset, damage.reason)
        if checks is not None:
            yield from checks.finish(reader, last=last)

    def _reach(self, checkpoints: _Checkpoints, start: Offset) -> Iterator[Finding]:
        """Check that a trimmed log begins where its checkpoint says, covered by a snapshot."""
        if self.log.recovery_point is None:
            return  # Kafka's own
        directory = self.log.directory
        if start > max(checkpoints.start, read_log_start(self.files, directory / LOG_START_FILE)):
            reason = f"the log begins at {start}, but the checkpoint says {checkpoints.start}"
            yield Finding("damage", directory / LOG_START_FILE, None, start, reason)
        ends = [snapshot_id.end_offset for snapshot_id in list_snapshots(self.files, directory)]
        if start and max(ends, default=Offset(0)) < start:
            reason = f"the log begins at {start}, and no snapshot reaches that offset"
            yield Finding("damage", self.log.pieces[0].path, None, start, reason)

    def _compare(self, checkpoints: _Checkpoints, last: PieceReader) -> Iterator[Finding]:
        end, directory = last.end_offset, self.log.directory
        if end < self.log.durable:
            reason = f"ends at offset {end}, but the log was durable up to {self.log.durable}"
            yield Finding("damage", last.piece.path, last.position, end, reason)
        if checkpoints.epochs is not None:
            start = self.log.pieces[0].base_offset
            stored = [entry for entry in checkpoints.epochs if start <= entry.start_offset < end]
            if stored != self._epochs:
                reason = "does not list the epochs of the log"
                yield Finding("damage", directory / EPOCHS_FILE, None, None, reason)
        if checkpoints.places is not None and self.log.recovery_point is not None:
            limit = self.log.recovery_point
            start = self.log.pieces[0].base_offset
            stored_places = [p for p in checkpoints.places if start <= p.offset < limit]
            if stored_places != [place for place in self._control if place.offset < limit]:
                path = directory / control_places.FILE_NAME
                reason = "does not list the control batches of the log"
                yield Finding("damage", path, None, None, reason)


def _records(piece: Piece, batch: FoundBatch) -> Iterator[Finding]:
    try:
        for _ in iter_records(batch.data):
            pass
    except DecodeError as error:
        yield Finding(
            "damage", piece.path, batch.position, batch.header.base_offset, f"in the batch: {error}"
        )


@dataclass(slots=True)
class _Checkpoints:
    """The small checkpoint files of the log."""

    epochs: tuple[EpochStart, ...] | None = None
    places: tuple[ControlPlace, ...] | None = None
    start: Offset = FIRST_OFFSET
    findings: list[Finding] = field(default_factory=list[Finding])

    @classmethod
    def read(cls, files: Files, log: LogFiles) -> _Checkpoints:
        made = cls()
        path = log.directory / EPOCHS_FILE
        try:
            index = read_epochs(files, path)
            made.epochs = None if index is None else index.entries
        except RaftnodeError as error:
            made.findings.append(Finding("damage", path, None, None, str(error)))
        if log.recovery_point is not None:
            path = log.directory / LOG_START_FILE
            try:
                made.start = read_log_start(files, path)
            except RaftnodeError as error:
                made.findings.append(Finding("damage", path, None, None, str(error)))
            path = log.directory / control_places.FILE_NAME
            stored = read_control_places(files, path, log.recovery_point)
            if stored is None:  # beside a running node, which has moved the point since
                point = read_recovery_point(files, log.directory / RECOVERY_POINT_FILE)
                stored = read_control_places(files, path, point or FIRST_OFFSET)
            made.places = None if stored is None else stored.places
            if stored is None:
                reason = (
                    "missing, damaged or of another recovery point; the next start rebuilds "
                    "it by reading the whole log"
                )
                made.findings.append(Finding("derived", path, None, None, reason))
        return made


class _IndexChecks:
    """Compares the indexes of a piece with its batches as they pass by."""

    def __init__(self, files: Files, piece: Piece, complete_to: Offset) -> None:
        self._base = piece.base_offset
        self._complete_to = complete_to
        self._since = 0
        self._problems: list[Finding] = []
        self._offset_path = piece.path.with_suffix(OFFSET_SUFFIX)
        self._time_path = piece.path.with_suffix(TIME_SUFFIX)
        self._index = self._read(files)
        self._offset_number = 0
        self._time_number = 0
        self._largest_ms = NO_TIMESTAMP_MS
        self._seen_ms = NO_TIMESTAMP_MS
        self._next_position = self._position()
        self._next_offset = self._time_offset()

    def _read(self, files: Files) -> SegmentIndex:
        parts: list[bytes] = []
        for path in (self._offset_path, self._time_path):
            data = files.read_bytes(path, LIMIT_BYTES)
            if data is None:
                self._problem(path, None, None, "missing")
                self._complete_to = Offset(-1)
            parts.append(data or b"")
        for offsets, times, path in (
            (parts[0], b"", self._offset_path),
            (b"", parts[1], self._time_path),
        ):
            try:
                SegmentIndex.decode(self._base, offsets, times)
            except DecodeError as error:
                self._problem(path, None, None, str(error))
        return SegmentIndex.decode(self._base, *parts, torn=True)

    def _problem(
        self, path: Path, position: int | None, offset: Offset | None, reason: str
    ) -> None:
        self._problems.append(Finding("derived", path, position, offset, reason))

    def _position(self) -> int:
        if self._offset_number < len(self._index):
            return self._index.entry(self._offset_number).position
        return -1

    def _time_offset(self) -> int:
        if self._time_number < self._index.time_entries:
            return self._index.time_entry(self._time_number).last_offset
        return -1

    def see(self, batch: FoundBatch) -> None:
        """Compare the next batch with the indexes."""
        header = batch.header
        self._largest_ms = max(self._largest_ms, header.max_timestamp_ms)
        if header.last_offset == self._next_offset:
            self._see_time(header)
        if batch.position == self._next_position:
            self._see_offset(header)
        elif self._since > INTERVAL_BYTES and header.end_offset <= self._complete_to:
            self._missing(self._offset_path, header)
        self._since += header.size

    def _missing(self, path: Path, header: BatchHeader) -> None:
        self._complete_to = Offset(-1)  # reported once
        self._problem(path, None, header.last_offset, "lacks an entry")

    def _see_offset(self, header: BatchHeader) -> None:
        entry = self._index.entry(self._offset_number)
        if entry.last_offset != header.last_offset:
            self._problem(
                self._offset_path,
                self._offset_number * OFFSET_ENTRY_BYTES,
                entry.last_offset,
                f"points to a batch that ends at {header.last_offset}",
            )
        self._offset_number += 1
        self._next_position = self._position()
        self._since = 0
        if self._seen_ms < self._largest_ms and header.end_offset <= self._complete_to:
            self._missing(self._time_path, header)

    def _see_time(self, header: BatchHeader) -> None:
        entry = self._index.time_entry(self._time_number)
        if not entry.timestamp_ms == header.max_timestamp_ms == self._largest_ms:
            self._problem(
                self._time_path,
                self._time_number * TIME_ENTRY_BYTES,
                entry.last_offset,
                f"timestamp {entry.timestamp_ms} of a batch whose largest is "
                f"{header.max_timestamp_ms}, {self._largest_ms} up to there",
            )
        self._seen_ms = self._largest_ms
        self._time_number += 1
        self._next_offset = self._time_offset()

    def finish(self, reader: PieceReader, *, last: bool) -> Iterator[Finding]:
        """Yield the findings; entries beyond the end of the last piece belong to a torn tail."""
        if reader.damage is not None:
            yield from self._problems
            return
        end = self._index.last
        if (
            not last
            and self._complete_to > reader.end_offset
            and (end is None or end.last_offset + 1 != reader.end_offset)
        ):
            reason = "does not end with the last batch of the segment"
            self._problem(self._offset_path, None, None, reason)
        yield from self._problems
        if self._offset_number < len(self._index):
            entry = self._index.entry(self._offset_number)
            if not last or entry.position < reader.position:
                reason = f"points to byte {entry.position}, where no batch begins"
                position = self._offset_number * OFFSET_ENTRY_BYTES
                yield Finding("derived", self._offset_path, position, entry.last_offset, reason)
        if self._time_number < self._index.time_entries:
            entry = self._index.time_entry(self._time_number)
            if not last or entry.last_offset < reader.end_offset:
                reason = "has an offset at which no batch ends"
                position = self._time_number * TIME_ENTRY_BYTES
                yield Finding("derived", self._time_path, position, entry.last_offset, reason)
