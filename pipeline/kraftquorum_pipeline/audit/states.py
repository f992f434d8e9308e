"""Compares snapshots with the log by sums over the state, key by key.

A state is the newest record of each key, without deletions. Its sum is the exclusive or of
a hash over each entry, so that a reader of the log can update it, and add sums in any order.
Executors read the ranges of a log and the snapshots.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from kraftquorum_pipeline.remote import open_files, path_of
from raftnode.core.types import Offset
from raftnode.errors import RaftnodeError, StorageCorruptError
from raftnode.logfiles import FileOperationError, PieceReader, SnapshotReader
from raftnode.logfiles import Piece as StoredPiece
from raftnode.logformat import iter_records

from .continuity import Extent

_PLACE = struct.Struct(">qiI")


class Stretch(NamedTuple):
    """A range of a segment without known damage.

    Attributes:
        base_offset: the first offset of the segment.
        from_offset: the first offset of the range.
        until: one past its last offset.
    """

    replica: str
    path: str
    base_offset: int
    from_offset: int
    until: int


class Entry(NamedTuple):
    """The effect of one record on the state.

    Attributes:
        digest_hi: upper half of the hash over key, value, offset and epoch; 0 in a deletion.
        digest_lo: lower half.
        present: False: the key is deleted.
    """

    key: bytes
    offset: int
    epoch: int
    present: bool
    digest_hi: int
    digest_lo: int

    def __str__(self) -> str:
        if not self.present:
            return f"deleted at offset {self.offset}"
        return f"written at offset {self.offset}, epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class StateSum:
    """The sum of a state: equal sums mean equal states."""

    entries: int = 0
    digest_hi: int = 0
    digest_lo: int = 0

    def exchanged(self, old: Entry | None, new: Entry | None) -> StateSum:
        """Return the sum after an entry has replaced another."""
        count, hi, lo = self.entries, self.digest_hi, self.digest_lo
        for entry, step in ((old, -1), (new, 1)):
            if entry is not None and entry.present:
                count, hi, lo = count + step, hi ^ entry.digest_hi, lo ^ entry.digest_lo
        return StateSum(count, hi, lo)


GONE = "it does not exist"
"""The error of a snapshot whose file was there when it was listed, and then not."""


@dataclass(frozen=True, slots=True)
class SnapshotSum:
    """The result of reading a snapshot file to its end.

    Attributes:
        error: why the file could not be read; "" if it could.
        voters: the voters that it names.
    """

    replica: str
    path: str
    end_offset: int
    epoch: int
    state: StateSum = StateSum()
    voters: tuple[str, ...] = ()
    size: int = 0
    error: str = ""


def make_entry(key: bytes, value: bytes | None, offset: int, epoch: int) -> Entry:
    """Return the entry of a record."""
    if value is None:
        return Entry(key, offset, epoch, False, 0, 0)
    sum_ = blake2b(_PLACE.pack(offset, epoch, len(key)), digest_size=16)
    sum_.update(key)
    sum_.update(value)
    made = sum_.digest()
    return Entry(
        key,
        offset,
        epoch,
        present=True,
        digest_hi=int.from_bytes(made[:8], "big", signed=True),
        digest_lo=int.from_bytes(made[8:], "big", signed=True),
    )


def read_stretch(stretch: Stretch) -> Iterator[tuple[bytes, bytes | None, int, int]]:
    """Yield key, value, offset and epoch of the data records with a key, in order of offset.

    Raises:
        StorageCorruptError: the range is damaged after all.
    """
    files, path = open_files(), path_of(stretch.path)
    there = files.stat(path)
    size = 0 if there is None else there.size
    piece = StoredPiece(path, Offset(stretch.base_offset), size)
    reader = PieceReader(piece, end_offset=Offset(stretch.base_offset))
    for batch in reader.batches(files):
        if batch.header.base_offset >= stretch.until:
            break
        if batch.header.is_control or batch.header.end_offset <= stretch.from_offset:
            continue
        for record in iter_records(batch.data):
            if stretch.from_offset <= record.offset < stretch.until and record.key is not None:
                yield record.key, record.value, int(record.offset), int(record.epoch)
    if reader.end_offset < stretch.until and reader.damage is not None:
        raise StorageCorruptError(str(reader.damage))


def read_state(path: str) -> Iterator[tuple[bytes, bytes | None, int, int]]:
    """Yield key, value, offset and epoch of a snapshot's entries.

    Raises:
        SnapshotDamagedError: the snapshot is not whole.
    """
    for record in SnapshotReader(open_files(), path_of(path)).records():
        yield record.key, record.value, int(record.offset), int(record.epoch)


def sum_snapshot(replica: str, path: str, end_offset: int, epoch: int) -> SnapshotSum:
    """Read a snapshot to its end; `error` says what is wrong with it."""
    reader = SnapshotReader(open_files(), path_of(path))
    state = StateSum()
    try:
        for record in reader.records():
            entry = make_entry(record.key, record.value, int(record.offset), int(record.epoch))
            state = state.exchanged(None, entry)
    except FileOperationError as error:
        reason = GONE if error.errno == errno.ENOENT else str(error)
        return SnapshotSum(replica, path, end_offset, epoch, error=reason)
    except RaftnodeError as error:
        reason = str(error).removeprefix(f"snapshot {path}: ")
        return SnapshotSum(replica, path, end_offset, epoch, error=reason)
    snapshot = reader.snapshot
    if snapshot is None:
        return SnapshotSum(replica, path, end_offset, epoch, error="it has no end")
    voters = tuple(sorted(str(voter.key) for voter in snapshot.head.voters.voters))
    return SnapshotSum(replica, path, end_offset, epoch, state, voters, snapshot.size)


def cover(
    extents: Mapping[str, Extent], ends: Mapping[str, int], start: int, end: int
) -> list[Stretch] | None:
    """Choose ranges of any replicas that cover a range of offsets; None: there is a hole.

    Args:
        extents: the extents of the replicas.
        ends: the offset up to which each replica agrees with the others.
        start: the first offset.
        end: one past the last offset.
    """
    chosen: list[Stretch] = []
    offset = start
    while offset < end:
        best: Stretch | None = None
        for name, extent in extents.items():
            limit = ends.get(name, 0)
            for base, stop, path in extent.segments:
                until = min(stop, limit, end)
                if base <= offset < until and (best is None or until > best.until):
                    best = Stretch(name, path, base, offset, until)
        if best is None:
            return None
        chosen.append(best)
        offset = best.until
    return chosen


def replay(
    stretches: Sequence[Stretch], base: str | None, ends: Sequence[int]
) -> tuple[dict[int, StateSum], dict[bytes, Entry]]:
    """Return the sums of the state at some offsets, and the state at the last one.

    Args:
        stretches: the ranges of the log, in order of offset.
        base: the snapshot at which they begin; None: they begin at offset 0.
        ends: the offsets.
    """
    state: dict[bytes, Entry] = {}
    total = StateSum()
    if base is not None:
        for key, value, offset, epoch in read_state(base):
            state[key] = make_entry(key, value, offset, epoch)
            total = total.exchanged(None, state[key])
    sums: dict[int, StateSum] = {}
    waiting = sorted(set(ends), reverse=True)
    for stretch in stretches:
        for key, value, offset, epoch in read_stretch(stretch):
            while waiting and waiting[-1] <= offset:
                sums[waiting.pop()] = total
            if not waiting:
                return sums, state
            entry = make_entry(key, value, offset, epoch)
            total = total.exchanged(state.get(key), entry)
            state[key] = entry
    sums |= dict.fromkeys(waiting, total)
    return sums, state
