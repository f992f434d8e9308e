"""Reads the voter set from the files of one replica: its control records, and no data."""

from __future__ import annotations

from collections.abc import Iterator

from kraftquorum_pipeline.audit.replica_files import ReplicaFiles
from kraftquorum_pipeline.remote import open_files, path_of
from raftnode.core.records import AddVoter, ControlRecord, LeaderChange, RemoveVoter
from raftnode.core.types import FIRST_OFFSET, Offset, ReplicaKey
from raftnode.errors import StorageCorruptError
from raftnode.logfiles import (
    CONTROL_PLACES_FILE,
    RECOVERY_POINT_FILE,
    Files,
    Piece,
    PieceReader,
    read_control_places,
    read_recovery_point,
)
from raftnode.logformat import to_batch


def voters_of(replica: ReplicaFiles) -> frozenset[ReplicaKey]:
    """Return the voter set at the durable end of a replica's log.

    Raises:
        StorageCorruptError: a control record cannot be read.
    """
    files = open_files()
    voters: set[ReplicaKey] = set()
    first = replica.pieces[0].base_offset if replica.pieces else 0
    if first:
        voters = _snapshot_voters(files, replica, first)
    for record in _control_records(files, replica):
        _fold(voters, record)
    return frozenset(voters)


def _fold(voters: set[ReplicaKey], record: ControlRecord) -> None:
    match record:
        case AddVoter(voter):
            voters.add(voter.key)
        case RemoveVoter(key):
            voters.discard(key)
        case LeaderChange(voters=named) if named:
            # Its voters are in force; with static voters (raft.version 0) no other record has them.
            voters.clear()
            voters.update(named)
        case _:
            pass


def _snapshot_voters(files: Files, replica: ReplicaFiles, first: int) -> set[ReplicaKey]:
    for end, _, name in replica.snapshots:
        if end < first:
            continue
        voters: set[ReplicaKey] = set()
        path = path_of(name)
        there = files.stat(path)
        piece = Piece(path, FIRST_OFFSET, 0 if there is None else there.size)
        for batch in PieceReader(piece).batches(files):
            if not batch.header.is_control:
                break
            for record in to_batch(batch.header, bytes(batch.data)).control:
                _fold(voters, record)
        return voters
    raise StorageCorruptError(
        f"{replica.path}: the log begins at {first} and no snapshot names the voters"
    )


def _control_records(files: Files, replica: ReplicaFiles) -> Iterator[ControlRecord]:
    """Yield all control records of the log, at the places in `control-batches.json`."""
    directory = replica.log_directory
    point = read_recovery_point(files, directory / RECOVERY_POINT_FILE) or FIRST_OFFSET
    places = read_control_places(files, directory / CONTROL_PLACES_FILE, point)
    pieces = [Piece(path_of(p.path), Offset(p.base_offset), p.size) for p in replica.pieces]
    known = [] if places is None else [entry for entry in places.places if entry.offset < point]
    for place in known:
        piece = next(
            (piece for piece in reversed(pieces) if piece.base_offset <= place.offset), None
        )
        if piece is not None:
            reader = PieceReader(piece, end_offset=place.offset, position=place.position)
            yield from _read(files, reader, Offset(place.offset + 1))
    after = FIRST_OFFSET if places is None else point
    for number, piece in enumerate(pieces):
        if number + 1 < len(pieces) and pieces[number + 1].base_offset <= after:
            continue
        reader = PieceReader(piece, end_offset=piece.base_offset)
        yield from _read(files, reader, Offset(replica.durable), after)


def _read(
    files: Files, reader: PieceReader, end: Offset, start: Offset = FIRST_OFFSET
) -> Iterator[ControlRecord]:
    for batch in reader.batches(files):
        header = batch.header
        if header.base_offset >= end:
            return
        if header.is_control and header.base_offset >= start:
            yield from to_batch(header, bytes(batch.data)).control
        if header.end_offset >= end:
            return
    if reader.damage is not None and reader.damage.offset < end:
        raise StorageCorruptError(str(reader.damage))
