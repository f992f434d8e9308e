"""The recovery of the log from its files on a start.

Below the recovery point, recovery reads only the ends of the segments and the places of the
control batches, so that a start takes as long for 10 GiB as for 10 MiB. A later read or
`raftnode log verify` finds damage in between. Above the recovery point, recovery reads
everything, cuts a torn tail, and refuses whatever a crash cannot explain. It makes indexes and
`control-batches.json` again when they are missing or damaged, and finishes a trim that a crash
interrupted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path

from raftnode.core.records import Batch
from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat.epochs import EpochIndex
from raftnode.logformat.index import OFFSET_SUFFIX, TIME_SUFFIX
from raftnode.logformat.snapshot import SnapshotId
from raftnode.storage.files import TEMPORARY_SUFFIX, Files
from raftnode.storage.log import control_places
from raftnode.storage.log.checkpoints import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    FlushedMark,
    read_log_start,
    read_recovery_point,
    write_recovery_point,
)
from raftnode.storage.log.control_places import (
    ControlPlace,
    read_control_places,
    write_control_places,
)
from raftnode.storage.log.epoch_file import FILE_NAME as EPOCHS_FILE
from raftnode.storage.log.epoch_file import read_epochs, write_epochs
from raftnode.storage.log.torn_tail import is_torn
from raftnode.storage.segments.index_cache import IndexCache
from raftnode.storage.segments.segment import (
    ControlBatch,
    Damage,
    Segment,
    segment_base_offset,
    segment_path,
    without_data,
)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The log as recovery found and repaired it.

    Invariant: at least one segment, each beginning where the one before ends.
    """

    segments: list[Segment]
    epochs: EpochIndex
    control: tuple[Batch, ...]
    places: tuple[ControlPlace, ...]
    """Where those control batches stand."""
    recovery_point: Offset
    torn_tail: Damage | None
    rebuilt: tuple[str, ...]
    """Files that were missing or damaged and were made again, for the journal."""
    cache: IndexCache
    trimmed_from: Offset | None = None
    """Where the log began before this start finished a trim, for the journal; None: no trim."""


def recover(files: Files, directory: Path, mark: FlushedMark) -> Recovered:
    """Recover the log; afterwards everything in it is durable.

    Raises:
        StorageCorruptError: damage that a crash cannot explain, naming file, position
            and offset.
        StorageFailedError: the disk failed.
    """
    names = files.listdir(directory)
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            files.unlink(directory / name)
    bases = [base for base in map(segment_base_offset, names) if base is not None]
    recovery_point = read_recovery_point(files, directory / RECOVERY_POINT_FILE)
    start = read_log_start(files, directory / LOG_START_FILE)
    if recovery_point is None:
        _begin(files, directory, bases, start)
        bases, recovery_point = [FIRST_OFFSET], FIRST_OFFSET
    if start not in bases:
        raise StorageCorruptError(f"{segment_path(directory, start)} is missing")
    if any(base < start for base in bases):
        reach = max(
            (snapshot_id.end_offset for name in names if (snapshot_id := SnapshotId.of(name))),
            default=0,
        )
        _finish_trim(files, directory, bases, start, reach)
    trimmed_from = min(bases) if min(bases) < start else None
    bases = [base for base in bases if base >= start]
    recovered = _Recovery(files, directory, bases, recovery_point, mark).run(names)
    return replace(recovered, trimmed_from=trimmed_from)


def _finish_trim(
    files: Files, directory: Path, bases: list[Offset], start: Offset, reach: int
) -> None:
    """Remove the segments of a trim that a crash interrupted; their indexes go as orphans.

    The log's start is a number without a checksum: a flipped bit can turn it into the start of
    another segment. A trim follows a snapshot, so a start that no snapshot reaches is damage.

    Raises:
        StorageCorruptError: no snapshot reaches so far.
    """
    if reach < start:
        raise StorageCorruptError(
            f"{directory / LOG_START_FILE} says that the log begins at {start}, but older "
            f"segments exist and the snapshots reach only up to {reach}"
        )
    for base in bases:
        if base < start:
            files.unlink(segment_path(directory, base))


def _begin(files: Files, directory: Path, bases: list[Offset], start: Offset) -> None:
    """Make the first segment, then the recovery point that says that there is a log."""
    path = segment_path(directory, FIRST_OFFSET)
    there = files.stat(path)
    if start or len(bases) > 1 or (bases and (there is None or there.size)):
        raise StorageCorruptError(f"{directory / RECOVERY_POINT_FILE} is missing, but a log exists")
    Segment.create(files, directory, FIRST_OFFSET).close()
    write_control_places(files, directory / control_places.FILE_NAME, (), [FIRST_OFFSET])
    write_recovery_point(files, directory / RECOVERY_POINT_FILE, FIRST_OFFSET)


class _Recovery:
    """One recovery, from the content of the directory to a log that can be appended to."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        bases: list[Offset],
        recovery_point: Offset,
        mark: FlushedMark,
    ) -> None:
        self._files = files
        self._directory = directory
        self._bases = bases
        self._recovery_point = recovery_point
        self._mark = mark
        self._cache = IndexCache()
        self._durable = max(recovery_point, mark.offset)
        self._segments: list[Segment] = []
        self._scanned: list[Segment] = []
        self._control: list[ControlBatch] = []
        self._rebuilt: list[str] = []
        self._torn: Damage | None = None
        self._stored_epochs = read_epochs(files, directory / EPOCHS_FILE)
        self._epochs = (self._stored_epochs or EpochIndex()).trimmed(bases[0])

    def run(self, names: list[str]) -> Recovered:
        """Recover; the names are those in the directory."""
        path = self._directory / control_places.FILE_NAME
        stored = read_control_places(self._files, path, self._recovery_point)
        if stored is None:
            self._rebuilt.append(control_places.FILE_NAME)
        # Without the places, the whole log has to be searched for control batches.
        trusted = FIRST_OFFSET if stored is None else self._recovery_point
        self._open_segments(trusted)
        last = self._segments[-1]
        if last.end_offset < self._durable:
            raise StorageCorruptError(
                f"{last.file.path} ends at byte {last.size} (offset {last.end_offset}), "
                f"but the log was durable up to offset {self._durable}"
            )
        control = self._control_batches(stored.places if stored else (), trusted)
        self._check_epoch_starts(
            trusted, {control_batch.batch.base_offset for control_batch in control}
        )
        self._make_durable(last)
        epochs = self._epochs.truncated(last.end_offset)
        if epochs.entries != (self._stored_epochs.entries if self._stored_epochs else ()):
            write_epochs(self._files, self._directory / EPOCHS_FILE, epochs)
        self._remove_orphans(names)
        places = tuple(
            ControlPlace(control_batch.batch.base_offset, control_batch.position)
            for control_batch in control
        )
        points = {self._recovery_point, last.end_offset}
        if stored is None or places != stored.places or not points <= stored.recovery_points:
            write_control_places(self._files, path, places, points)
        self._mark.raise_to(last.end_offset)
        if self._recovery_point != last.end_offset:
            write_recovery_point(
                self._files, self._directory / RECOVERY_POINT_FILE, last.end_offset
            )
        return Recovered(
            self._segments,
            epochs,
            tuple(control_batch.batch for control_batch in control),
            places,
            last.end_offset,
            self._torn,
            tuple(self._rebuilt),
            self._cache,
        )

    def _open_segments(self, trusted: Offset) -> None:
        """Open all segments; read what lies at or above `trusted`."""
        followers: list[Offset | None] = [*self._bases[1:], None]
        for base, following in zip(self._bases, followers, strict=True):
            if self._segments and self._segments[-1].end_offset != base:
                path, end = self._segments[-1].file.path, self._segments[-1].end_offset
                raise StorageCorruptError(
                    f"{path} ends at offset {end}, but the next segment begins at {base}"
                )
            segment = Segment.open(self._files, self._directory, base, self._cache)
            self._segments.append(segment)
            if following is not None and following <= trusted and self._accept(segment, following):
                continue
            if base < trusted and (following is None or following > trusted):
                self._resume(segment, trusted)
            self._scan(segment, is_last=following is None)

    def _accept(self, segment: Segment, following: Offset) -> bool:
        header = segment.accept_sealed(following)
        if header is None:
            self._rebuilt.append(segment.file.path.with_suffix(OFFSET_SUFFIX).name)
            return False
        if header.epoch != self._epochs.epoch_at(header.base_offset):
            raise self._disagree()
        return True

    def _resume(self, segment: Segment, trusted: Offset) -> None:
        if not segment.resume(trusted):
            self._rebuilt.append(segment.file.path.with_suffix(OFFSET_SUFFIX).name)

    def _scan(self, segment: Segment, *, is_last: bool) -> None:
        """Read a segment to its end; its epochs must be those of the file."""
        start = segment.end_offset
        scanned = segment.scan(self._recovery_point, self._epochs.epoch_at(Offset(start - 1)))
        damage = scanned.damage
        if damage is not None and (not is_last or damage.offset < self._durable):
            raise StorageCorruptError(f"{damage}; the log was durable up to offset {self._durable}")
        if damage is not None:
            epoch = self._epochs.epoch_at(Offset(damage.offset - 1))
            if not is_torn(segment.file, damage.position, damage.offset, epoch):
                raise StorageCorruptError(
                    f"{damage}; whole batches follow it, so it is not a torn tail"
                )
        if self._stored_epochs is None and (scanned.epochs or self._bases[0]):
            raise StorageCorruptError(
                f"{self._directory / EPOCHS_FILE} is missing, but a log exists"
            )
        # The file is written before an epoch's first batch: it must cover the log exactly.
        here = (e for e in self._epochs.entries if start <= e.start_offset < segment.end_offset)
        if tuple(here) != scanned.epochs:
            raise self._disagree()
        self._torn = damage
        self._control += scanned.control
        self._scanned.append(segment)

    def _control_batches(
        self, stored: tuple[ControlPlace, ...], trusted: Offset
    ) -> list[ControlBatch]:
        """All control batches of the log: those just read, and the places of the others."""
        read = {control_batch.batch.base_offset for control_batch in self._control}
        start = self._bases[0]
        rest = [p for p in stored if start <= p.offset < trusted and p.offset not in read]
        control_batches = [*map(self._control_at, rest), *self._control]
        return sorted(control_batches, key=lambda control_batch: control_batch.batch.base_offset)

    def _control_at(self, place: ControlPlace) -> ControlBatch:
        number = bisect_right(self._segments, place.offset, key=lambda segment: segment.base_offset)
        batch = self._segments[number - 1].batch_at(place.position, place.offset)
        if batch.epoch != self._epochs.epoch_at(batch.base_offset):
            raise self._disagree()
        return ControlBatch(without_data(batch), place.position)

    def _check_epoch_starts(self, trusted: Offset, control_offsets: set[Offset]) -> None:
        """Every epoch of the file begins a batch; those that begin a control batch were seen."""
        for entry in self._epochs.entries:
            offset = entry.start_offset
            if not self._bases[0] <= offset < trusted or offset in control_offsets:
                continue
            number = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
            base, position = self._segments[number - 1].boundary(offset)
            batch = self._segments[number - 1].batch_at(position, base)
            if (batch.base_offset, batch.epoch) != (offset, entry.epoch):
                raise self._disagree()

    def _disagree(self) -> StorageCorruptError:
        path = self._directory / EPOCHS_FILE
        return StorageCorruptError(f"{path} and the batches of the log have different epochs")

    def _make_durable(self, last: Segment) -> None:
        """Cut the torn tail, write again what may not have reached the disk, and sync.

        Reserved room is cut too, and is not used again: a crash may have left unsynced bytes
        there, and sectors that never arrive later must read as zeros (`torn_tail`).
        """
        if self._torn is not None:
            last.file.truncate(last.size)
            last.file.fsync()
        last.give_back_durably()
        _, position = last.boundary(max(self._durable, last.base_offset))
        last.rewrite(position)
        last.file.fdatasync()
        for segment in self._scanned:
            segment.keep_index(sealed=segment is not last)
        last.sync_index()

    def _remove_orphans(self, names: list[str]) -> None:
        """Remove the indexes of removed segments, which a crash has left."""
        for name in names:
            for suffix in (OFFSET_SUFFIX, TIME_SUFFIX):
                base = segment_base_offset(name, suffix)
                if base is not None and base not in self._bases:
                    self._files.unlink(self._directory / name)
