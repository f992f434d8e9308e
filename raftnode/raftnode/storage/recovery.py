"""What a start makes of the files of the log.

Reads every header, checks the bodies above the recovery point, cuts a torn tail, and
refuses whatever a crash cannot explain. Raises or returns; decides nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from raftnode.core.records import Batch
from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.errors import StorageCorruptError
from raftnode.storage.checkpoints import (
    RECOVERY_POINT_FILE,
    FlushedMark,
    read_recovery_point,
    write_recovery_point,
)
from raftnode.storage.epochs import FILE_NAME as EPOCHS_FILE
from raftnode.storage.epochs import EpochIndex, EpochStart, read_epochs, write_epochs
from raftnode.storage.files import TEMPORARY_SUFFIX, Files
from raftnode.storage.segment import Damage, Segment, segment_base_offset, segment_path


@dataclass(frozen=True, slots=True)
class Recovered:
    """The log as it was found and mended.

    Invariant: at least one segment, each beginning where the one before ends.
    """

    segments: list[Segment]
    epochs: EpochIndex
    control: tuple[Batch, ...]
    recovery_point: Offset
    torn_tail: Damage | None


def recover(files: Files, directory: Path, mark: FlushedMark) -> Recovered:
    """Recover the log; afterwards all that it holds is durable.

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
    if recovery_point is None:
        _begin(files, directory, bases)
        bases, recovery_point = [FIRST_OFFSET], FIRST_OFFSET
    if not bases or bases[0] != FIRST_OFFSET:
        raise StorageCorruptError(f"{segment_path(directory, FIRST_OFFSET)} is missing")
    durable = max(recovery_point, mark.offset)
    segments, epochs, control, torn = _scan(files, directory, bases, recovery_point, durable)
    last = segments[-1]
    if last.end_offset < durable:
        raise StorageCorruptError(
            f"{last.file.path} ends at byte {last.size} (offset {last.end_offset}), "
            f"but the log was durable up to offset {durable}"
        )
    _compare_epochs(files, directory / EPOCHS_FILE, epochs, last.end_offset)
    if torn is not None:
        last.truncate(last.end_offset, last.size)
    _, position = last.boundary(max(durable, last.base_offset))
    last.rewrite(position)
    last.file.fdatasync()
    mark.raise_to(last.end_offset)
    if recovery_point != last.end_offset:
        recovery_point = last.end_offset
        write_recovery_point(files, directory / RECOVERY_POINT_FILE, recovery_point)
    return Recovered(segments, epochs, control, recovery_point, torn)


def _begin(files: Files, directory: Path, bases: list[Offset]) -> None:
    """Make the first segment, then the recovery point that says that there is a log."""
    path = segment_path(directory, FIRST_OFFSET)
    there = files.stat(path)
    if len(bases) > 1 or (bases and (there is None or there.size)):
        raise StorageCorruptError(f"{directory / RECOVERY_POINT_FILE} is missing beside a log")
    Segment.create(files, directory, FIRST_OFFSET).file.close()
    write_recovery_point(files, directory / RECOVERY_POINT_FILE, FIRST_OFFSET)


def _scan(
    files: Files, directory: Path, bases: list[Offset], check_from: Offset, durable: Offset
) -> tuple[list[Segment], EpochIndex, tuple[Batch, ...], Damage | None]:
    segments: list[Segment] = []
    epochs: tuple[EpochStart, ...] = ()
    control: tuple[Batch, ...] = ()
    damage: Damage | None = None
    for base in bases:
        if segments and segments[-1].end_offset != base:
            path, end = segments[-1].file.path, segments[-1].end_offset
            raise StorageCorruptError(f"{path} ends at offset {end}, the next segment is {base}")
        segment = Segment.open(files, directory, base)
        found = segment.scan(check_from, EpochIndex(epochs).last_epoch)
        damage = found.damage
        if damage is not None and (base != bases[-1] or damage.offset < durable):
            raise StorageCorruptError(f"{damage}; the log was durable up to offset {durable}")
        segments.append(segment)
        epochs += found.epochs
        control += found.control
    return segments, EpochIndex(epochs), control, damage


def _compare_epochs(files: Files, path: Path, epochs: EpochIndex, end_offset: Offset) -> None:
    """The file is written before an epoch's first batch: it must cover the log exactly."""
    stored = read_epochs(files, path)
    if stored is None:
        if epochs.entries:
            raise StorageCorruptError(f"{path} is missing beside a log")
        return
    if stored.truncated(end_offset).entries != epochs.entries:
        raise StorageCorruptError(f"{path} and the batches of the log disagree on the epochs")
    if stored.entries != epochs.entries:
        write_epochs(files, path, epochs)
