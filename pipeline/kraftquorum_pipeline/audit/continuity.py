"""Checks that each log is whole, from its start to its durable end. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from raftnode.logfiles import EPOCHS_FILE

from .findings import Check, Finding, Place
from .replica_files import ReplicaFiles
from .scan import Row


@dataclass(slots=True)
class Extent:
    """What a replica's log covers.

    Attributes:
        name: the name of the replica.
        start: its first offset.
        end: one past its last.
        sound_end: the offset below which nothing is damaged or missing.
        epochs: (first offset, epoch) in order, as the batches have them.
        records: the number of records in whole batches.
        size: the bytes of all segments.
        batches: the number of whole batches.
            tail_bytes: the bytes of an unfinished end.
        segments: (first offset, the end of its whole part, path), in order.
    """

    name: str
    start: int = 0
    end: int = 0
    sound_end: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    records: int = 0
    batches: int = 0
    size: int = 0
    tail_bytes: int = 0
    segments: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record; -1 in an empty log."""
        return self.epochs[-1][1] if self.epochs else -1

    def epoch_at(self, offset: int) -> int:
        """Epoch of a record; -1 outside the log."""
        if not self.start <= offset < self.end:
            return -1
        place = bisect_right(self.epochs, (offset, 1 << 62))
        return self.epochs[place - 1][1] if place else -1


def measure(replica: ReplicaFiles, rows: Iterable[Row]) -> tuple[Extent, list[Finding]]:
    """Measure the log of a replica from the rows of its segments.

    Args:
        replica: the replica.
        rows: the rows of its segments; chunks and control records are not needed.
    """
    extent = Extent(replica.name)
    by_path: dict[str, list[Row]] = {}
    for row in rows:
        by_path.setdefault(row.path, []).append(row)
    findings: list[Finding] = []
    ends: list[Row] = []
    last_epoch = -1
    for piece in replica.pieces:
        here = by_path.get(piece.path, [])
        findings += [row.finding() for row in here if row.kind == "damage"]
        extent.tail_bytes += sum(row.size for row in here if row.kind == "tail")
        for row in here:
            if row.kind == "epoch" and (not extent.epochs or extent.epochs[-1][1] != row.epoch):
                if row.position == 0 and row.epoch < last_epoch:
                    reason = f"epoch {row.epoch} after {last_epoch} in the segment before"
                    findings.append(Finding(Check.EPOCHS, row.place, reason))
                extent.epochs.append((row.offset, row.epoch))
        ends += (row for row in here if row.kind == "end")
        last_epoch = ends[-1].epoch if ends and ends[-1].path == piece.path else last_epoch
    damaged: dict[str, int] = {}
    for finding in findings:
        damaged.setdefault(finding.place.file, finding.place.offset)
    _measure(extent, ends, damaged)
    breaks = [finding.place.offset for finding in findings if finding.check is not Check.EPOCHS]
    joints = _joints(replica, ends, frozenset(breaks))
    findings += joints
    breaks += [finding.place.offset for finding in joints]
    extent.sound_end = min([extent.end, *(offset for offset in breaks if offset >= 0)])
    findings += _borders(replica, extent, frozenset(breaks))
    if not any(finding.check is Check.EPOCHS for finding in findings):
        findings += _checkpoint(replica, extent)
    return extent, findings


def _measure(extent: Extent, ends: Sequence[Row], damaged: Mapping[str, int]) -> None:
    if not ends:
        return
    first = ends[0]
    extent.start = first.offset if first.offset >= 0 else first.end_offset
    extent.end = ends[-1].end_offset
    extent.batches = sum(row.batches for row in ends)
    extent.records = sum(row.records for row in ends)
    extent.size = sum(row.size for row in ends)
    extent.segments = [
        (row.offset, min(row.end_offset, damaged.get(row.path, row.end_offset)), row.path)
        for row in ends
        if row.offset >= 0
    ]


def _joints(replica: ReplicaFiles, ends: Sequence[Row], broken: frozenset[int]) -> list[Finding]:
    """Check that each segment begins where the segment before it ends."""
    findings: list[Finding] = []
    bases = {piece.path: piece.base_offset for piece in replica.pieces}
    for before, after in pairwise(ends):
        end, base = before.end_offset, bases[after.path]
        if end < base and end not in broken:
            place = Place(end, replica.name, after.path, 0, f"the next segment begins at {base}")
            reason = f"offsets {end} to {base - 1} are missing: a segment is missing, or cut short"
            findings.append(Finding(Check.OFFSETS, place, reason))
        elif end > base:
            place = Place(base, replica.name, after.path, 0)
            reason = f"offsets {base} to {end - 1} are in the segment before too"
            findings.append(Finding(Check.OFFSETS, place, reason))
    return findings


def _borders(replica: ReplicaFiles, extent: Extent, broken: frozenset[int]) -> list[Finding]:
    """Check the start of the log, and whether the log reaches its durable end."""
    findings: list[Finding] = []
    if not replica.pieces:
        return findings
    covered = max((end for end, _, _ in replica.snapshots), default=0)
    if extent.start > max(0, covered):
        first = replica.pieces[0].path
        reason = (
            f"the log begins at offset {extent.start}, and no snapshot covers the records before it"
        )
        place = Place(covered, replica.name, first, 0)
        findings.append(Finding(Check.OFFSETS, place, reason))
    if extent.end < replica.durable and extent.end not in broken:
        last = replica.pieces[-1].path
        reason = (
            f"the log ends at offset {extent.end}, but was durable up to {replica.durable}: "
            "records that this replica acknowledged are lost"
        )
        place = Place(extent.end, replica.name, last, -1, "the end of the log")
        findings.append(Finding(Check.OFFSETS, place, reason))
    return findings


def _checkpoint(replica: ReplicaFiles, extent: Extent) -> list[Finding]:
    """Check that `leader-epoch-checkpoint` has the epochs of the log."""
    if not replica.epochs:
        return []
    inside = range(extent.start + 1 if extent.start else 0, extent.end)
    stored = [(start, epoch) for epoch, start in replica.epochs if start in inside]
    there = [entry for entry in extent.epochs if entry[0] in inside]
    if stored == there:
        return []
    different = sorted(set(stored) ^ set(there))
    path = str(replica.log_directory / EPOCHS_FILE)
    place = Place(different[0][0], replica.name, path, -1, _epochs(stored))
    reason = f"{EPOCHS_FILE} does not list the epochs of the log"
    other = Place(different[0][0], replica.name, replica.pieces[0].path, -1, _epochs(there))
    return [Finding(Check.EPOCHS, place, reason, (other,))]


def _epochs(entries: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"epoch {epoch} from {start}" for start, epoch in entries[:8])
