"""Snapshots against the log: the state that a log comes to, summed up, key by key.

A state is the newest record of each key, deletions left out. Its sum is the exclusive or of
a hash over each entry, so that it can be kept while the log goes by, and added up in any
order. Reading a stretch of a log, or a snapshot, is what runs on executors.
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
    """Part of a segment that is sound, as far as it is known.

    Attributes:
        base_offset: of the segment.
        from_offset: where the stretch begins.
        until: one past its last offset.
    """

    replica: str
    path: str
    base_offset: int
    from_offset: int
    until: int


class Entry(NamedTuple):
    """What one record does to the state.

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
    """A state in short: equal sums, equal states."""

    entries: int = 0
    digest_hi: int = 0
    digest_lo: int = 0

    def exchanged(self, old: Entry | None, new: Entry | None) -> StateSum:
        """The sum once an entry has taken another's place."""
        count, hi, lo = self.entries, self.digest_hi, self.digest_lo
        for one, step in ((old, -1), (new, 1)):
            if one is not None and one.present:
                count, hi, lo = count + step, hi ^ one.digest_hi, lo ^ one.digest_lo
        return StateSum(count, hi, lo)


GONE = "it does not exist"
"""The error of a snapshot whose file was there when it was listed, and then not."""


@dataclass(frozen=True, slots=True)
class SnapshotSum:
    """A snapshot file, read to its end.

    Attributes:
        error: why it could not be; "" if it could.
        voters: that it names.
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
    """The entry that a record makes."""
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
    """Key, value, offset and epoch of the data records with a key, in order of offset.

    Raises:
        StorageCorruptError: it is not sound, after all.
    """
    files, path = open_files(), path_of(stretch.path)
    there = files.stat(path)
    size = 0 if there is None else there.size
    piece = StoredPiece(path, Offset(stretch.base_offset), size)
    reader = PieceReader(piece, end_offset=Offset(stretch.base_offset))
    for found in reader.batches(files):
        if found.header.base_offset >= stretch.until:
            break
        if found.header.is_control or found.header.end_offset <= stretch.from_offset:
            continue
        for record in iter_records(found.data):
            if stretch.from_offset <= record.offset < stretch.until and record.key is not None:
                yield record.key, record.value, int(record.offset), int(record.epoch)
    if reader.end_offset < stretch.until and reader.damage is not None:
        raise StorageCorruptError(str(reader.damage))


def read_state(path: str) -> Iterator[tuple[bytes, bytes | None, int, int]]:
    """Key, value, offset and epoch of a snapshot's entries.

    Raises:
        SnapshotDamagedError: it is not whole.
    """
    for record in SnapshotReader(open_files(), path_of(path)).records():
        yield record.key, record.value, int(record.offset), int(record.epoch)


def sum_snapshot(replica: str, path: str, end_offset: int, epoch: int) -> SnapshotSum:
    """Read a snapshot to its end; what is wrong with it stands in `error`."""
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
    found = reader.found
    if found is None:
        return SnapshotSum(replica, path, end_offset, epoch, error="it has no end")
    voters = tuple(sorted(str(voter.key) for voter in found.head.voters.voters))
    return SnapshotSum(replica, path, end_offset, epoch, state, voters, found.size)


def cover(
    extents: Mapping[str, Extent], ends: Mapping[str, int], start: int, end: int
) -> list[Stretch] | None:
    """Sound stretches of any replicas that make up a range of offsets; None: there is a hole.

    Args:
        extents: of the replicas.
        ends: up to where each agrees with the others.
        start: the first offset.
        end: one past the last.
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
    """The sum of the state at some offsets, in this process, and the state at the last one.

    Args:
        stretches: of the log, in order of offset.
        base: a snapshot that they begin at; None: at offset 0.
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
