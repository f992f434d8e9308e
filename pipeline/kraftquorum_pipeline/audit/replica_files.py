"""Finds the replicas and the files of each. Reads names and small files only."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.remote import open_files
from raftnode.core.state import QuorumState
from raftnode.core.types import ReplicaKey
from raftnode.errors import RaftnodeError
from raftnode.logfiles import (
    EPOCHS_FILE,
    LOG_DIRECTORY,
    Files,
    find_log,
    list_snapshots,
    read_epochs,
    read_identity,
)

from .findings import Check, Finding, Place


class Piece(NamedTuple):
    """A segment, which an engine reads by itself.

    Attributes:
        replica: the name of the replica.
        path: the file.
        base_offset: the offset in its name.
        size: the bytes that it had when the audit listed it.
        last: whether it is the newest segment of the log, which may have an unfinished end.
        end_offset: where it should end: at the first offset of the next segment, or at the
            durable end of the log; -1: not known.
        durable: the offset up to which the replica knew its log to be durable.
        epochs: (epoch, first offset) from `leader-epoch-checkpoint`; empty: not known.
    """

    replica: str
    path: str
    base_offset: int
    size: int
    last: bool
    end_offset: int
    durable: int
    epochs: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class ReplicaFiles:
    """The directory of a replica.

    Attributes:
        name: the name of the directory, unique in the audit.
        path: the path as the user gave it.
        log_directory: the directory of the segments.
        key: node id and directory id; None: not known.
        cluster_id: the cluster id; None: not known.
        state: its vote and the leader that it knew; None: not known.
        pieces: the segments, by offset.
        snapshots: (end offset, epoch, path), oldest first.
        durable: the offset up to which it knew its log to be durable.
        findings: what is wrong with the small files.
    """

    name: str
    path: Path
    log_directory: Path
    key: ReplicaKey | None = None
    cluster_id: str | None = None
    state: QuorumState | None = None
    pieces: list[Piece] = field(default_factory=list[Piece])
    snapshots: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    durable: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    findings: list[Finding] = field(default_factory=list[Finding])

    def place(self, offset: int = -1, file: str = "", holds: str = "") -> Place:
        """A place in a file of the replica, or the whole directory."""
        return Place(offset, self.name, file or str(self.path), -1, holds)


def find_replicas(paths: list[Path]) -> list[ReplicaFiles]:
    """Find the replicas under paths: data directories, or folders of data directories.

    Raises:
        OptionError: a path holds no replica, or two replicas have the same name.
    """
    files = open_files()
    roots: list[Path] = []
    for path in paths:
        if not _is_directory(files, path):
            raise OptionError(f"{path} is not a directory; give data directories of replicas")
        if _is_replica(files, path):
            roots.append(path)
            continue
        inside = [path / name for name in files.listdir(path)]
        inner = [
            entry for entry in inside if _is_directory(files, entry) and _is_replica(files, entry)
        ]
        if not inner:
            raise OptionError(
                f"{path} is not the data directory of a replica ({LOG_DIRECTORY} is missing), "
                "and holds none"
            )
        roots += inner
    names = [root.name for root in roots]
    if len(set(names)) != len(names):
        names = [str(root) for root in roots]
    if len(set(names)) != len(names):
        raise OptionError("a directory is given twice: " + ", ".join(sorted(names)))
    return [_read(files, name, root) for name, root in zip(names, roots, strict=True)]


def _is_directory(files: Files, path: Path) -> bool:
    there = files.stat(path)
    return there is not None and there.is_directory


def _is_replica(files: Files, path: Path) -> bool:
    if _is_directory(files, path / LOG_DIRECTORY):
        return True
    return bool(fnmatch.filter(files.listdir(path), "*" + "[0-9]" * 20 + ".log"))


def _read(files: Files, name: str, root: Path) -> ReplicaFiles:
    inner = root / LOG_DIRECTORY
    replica = ReplicaFiles(name, root, inner if _is_directory(files, inner) else root)
    _read_identity(files, replica)
    try:
        index = read_epochs(files, replica.log_directory / EPOCHS_FILE)
        entries = () if index is None else index.entries
        replica.epochs = tuple((int(entry.epoch), int(entry.start_offset)) for entry in entries)
    except RaftnodeError as error:
        path = str(replica.log_directory / EPOCHS_FILE)
        replica.findings.append(Finding(Check.EPOCHS, replica.place(file=path), str(error)))
    try:
        log = find_log(files, root)
    except RaftnodeError as error:
        replica.findings.append(Finding(Check.READABLE, replica.place(), str(error)))
        return replica
    replica.durable = int(log.durable)
    for piece, following in zip_longest(log.pieces, log.pieces[1:]):
        stored = Piece(
            name,
            str(piece.path),
            int(piece.base_offset),
            piece.size,
            following is None,
            int(log.durable if following is None else following.base_offset) or -1,
            replica.durable,
            replica.epochs,
        )
        replica.pieces.append(stored)
    replica.snapshots = [
        (
            int(snapshot.end_offset),
            int(snapshot.epoch),
            str(replica.log_directory / snapshot.file_name),
        )
        for snapshot in list_snapshots(files, replica.log_directory)
    ]
    return replica


def _read_identity(files: Files, replica: ReplicaFiles) -> None:
    if replica.log_directory == replica.path:
        return  # a log directory without the data directory around it
    try:
        identity = read_identity(files, replica.path)
    except RaftnodeError as error:
        replica.findings.append(Finding(Check.IDENTITY, replica.place(), str(error)))
        return
    replica.key = ReplicaKey(identity.meta.node_id, identity.meta.directory_id)
    replica.cluster_id = identity.meta.cluster_id
    replica.state = identity.stored.state


def check_identities(replicas: list[ReplicaFiles]) -> list[Finding]:
    """Check the cluster id, and that no directory id is there twice: a copy votes twice (S3)."""
    findings: list[Finding] = []
    clusters = {
        replica.cluster_id: replica
        for replica in reversed(replicas)
        if replica.cluster_id is not None
    }
    if len(clusters) > 1:
        first, *rest = (
            replica.place(holds=f"cluster {replica.cluster_id}")
            for replica in reversed(clusters.values())
        )
        findings.append(
            Finding(Check.IDENTITY, first, "replicas of different clusters", tuple(rest))
        )
    first_of_key: dict[ReplicaKey, ReplicaFiles] = {}
    for replica in replicas:
        if replica.key is None:
            continue
        before = first_of_key.setdefault(replica.key, replica)
        if before is not replica:
            reason = f"two directories are of replica {replica.key}: one of them is a copy"
            findings.append(Finding(Check.IDENTITY, replica.place(), reason, (before.place(),)))
    return findings
