"""Engines read the files. This module has the one without Spark; `spark` has the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .log_matching import unequal
from .replica_files import Piece
from .scan import Row, scan_segment
from .states import (
    Entry,
    SnapshotSum,
    StateSum,
    Stretch,
    make_entry,
    read_state,
    replay,
    sum_snapshot,
)

DIFFERENCES_MAX = 5
"""Keys that are named when a snapshot differs from the log."""

SnapshotFile = tuple[str, str, int, int]
"""Replica, path, end offset and epoch."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The result of reading all segments.

    Attributes:
        rows: all rows except the chunks.
        unequal: the chunks in which replicas differ: chunk → rows.
        chunks: the number of chunks that were compared.
    """

    rows: list[Row]
    unequal: dict[int, list[Row]]
    chunks: int


KeyDifference = tuple[bytes, Entry | None, Entry | None]
"""A key, its entry by the log, and its entry in the snapshot."""


class Engine(Protocol):
    """Reads the files of replicas."""

    def scan(self, pieces: Sequence[Piece]) -> Scanned:
        """Read all segments."""
        ...

    def snapshots(self, files: Sequence[SnapshotFile]) -> list[SnapshotSum]:
        """Read all snapshots."""
        ...

    def replay(
        self, stretches: Sequence[Stretch], base: str | None, ends: Sequence[int]
    ) -> dict[int, StateSum]:
        """Return the sums of the state at some offsets."""
        ...

    def differences(
        self, stretches: Sequence[Stretch], base: str | None, end: int, snapshot: str
    ) -> list[KeyDifference]:
        """The first keys, in byte order, in which a snapshot differs from the log."""
        ...


class LocalEngine:
    """Reads the files one after the other in this process, without Spark."""

    def scan(self, pieces: Sequence[Piece]) -> Scanned:
        """Read all segments."""
        rows: list[Row] = []
        chunks: list[Row] = []
        for piece in pieces:
            for row in scan_segment(piece):
                (chunks if row.kind == "chunk" else rows).append(row)
        return Scanned(rows, unequal(chunks), len({row.chunk for row in chunks}))

    def snapshots(self, files: Sequence[SnapshotFile]) -> list[SnapshotSum]:
        """Read all snapshots."""
        return [sum_snapshot(*file) for file in files]

    def replay(
        self, stretches: Sequence[Stretch], base: str | None, ends: Sequence[int]
    ) -> dict[int, StateSum]:
        """Return the sums of the state at some offsets."""
        return replay(stretches, base, ends)[0]

    def differences(
        self, stretches: Sequence[Stretch], base: str | None, end: int, snapshot: str
    ) -> list[KeyDifference]:
        """The first keys in which a snapshot differs from the log."""
        _, state = replay(
            [stretch for stretch in stretches if stretch.from_offset < end], base, [end]
        )
        there = {entry[0]: make_entry(*entry) for entry in read_state(snapshot)}
        return sort_differences(
            (key, present(state.get(key)), there.get(key)) for key in {*state, *there}
        )


def present(entry: Entry | None) -> Entry | None:
    """Return the entry, or None for a deletion."""
    return entry if entry is not None and entry.present else None


def sort_differences(differences: Iterable[KeyDifference]) -> list[KeyDifference]:
    """Return the first few real differences in the order of their keys."""
    real = [difference for difference in differences if difference[1] != difference[2]]
    return sorted(real, key=lambda difference: difference[0])[:DIFFERENCES_MAX]
