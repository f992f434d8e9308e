"""Checks whether a node can start with these files; the log's batches are checked elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kraftquorum_pipeline.remote import open_files
from raftnode.errors import RaftnodeError, StorageCorruptError
from raftnode.logfiles import (
    EPOCHS_FILE,
    FORMATION_FILE,
    INCARNATION_FILE,
    LOG_START_FILE,
    PEER_STARTS_FILE,
    RECOVERY_POINT_FILE,
    read_epochs,
    read_incarnation,
    read_latch,
    read_log_start,
    read_marks,
    read_recovery_point,
)

from .findings import Check, Finding, Place
from .replica_files import ReplicaFiles


def check_startup_files(replica: ReplicaFiles) -> list[Finding]:
    """Check the small files and the start of the log as a node does at its start-up.

    A node does not start with a log directory alone, as Kafka has it. The check reads the files
    after the segments were listed, so that a trim in between causes no finding.
    """
    if replica.log_directory == replica.path or not replica.pieces:
        return []
    files, findings = open_files(), list[Finding]()

    def look(check: Check, path: Path, read: Callable[[], None]) -> None:
        try:
            read()
        except RaftnodeError as error:
            findings.append(Finding(check, replica.place(file=str(path)), str(error)))

    def log_start() -> None:
        first, start = replica.pieces[0], int(read_log_start(files, start_path))
        if first.base_offset > start:
            holds = f"the first segment begins at {first.base_offset}"
            place = Place(start, replica.name, first.path, 0, holds)
            reason = (
                f"offsets {start} to {first.base_offset - 1} are missing: the log begins at "
                f"{start}, and a segment is missing"
            )
            findings.append(Finding(Check.OFFSETS, place, reason))

    def formed() -> None:
        # In the reverse order of the node's writes.
        latched = read_incarnation(files, root / INCARNATION_FILE).latched
        latch = read_latch(files, root / FORMATION_FILE)
        if latched and latch is None:
            raise StorageCorruptError(f"{root / FORMATION_FILE} is missing")

    def marks() -> None:
        read_marks(files, root / PEER_STARTS_FILE)

    def recovery_point() -> None:
        if holds_something and read_recovery_point(files, inner / RECOVERY_POINT_FILE) is None:
            raise StorageCorruptError(f"{inner / RECOVERY_POINT_FILE} is missing, but a log exists")

    def epochs() -> None:
        known = replica.epochs or read_epochs(files, inner / EPOCHS_FILE) is not None
        if holds_something and not known:
            raise StorageCorruptError(f"{inner / EPOCHS_FILE} is missing, but a log exists")

    root, inner = replica.path, replica.log_directory
    holds_something = any(piece.size for piece in replica.pieces)
    start_path = inner / LOG_START_FILE
    look(Check.READABLE, start_path, log_start)
    look(Check.IDENTITY, root, formed)
    look(Check.IDENTITY, root / PEER_STARTS_FILE, marks)
    look(Check.READABLE, inner / RECOVERY_POINT_FILE, recovery_point)
    look(Check.EPOCHS, inner / EPOCHS_FILE, epochs)
    return findings
