"""The data directory of a replica: locked, identified, counted, and watched while in use.

An open `DataDirectory` is the only access to the storage: it holds the exclusive lock, has
checked S2 and has counted the incarnation (S3). The log, the vote, the latch and what is
remembered of the peers are reached through it.
"""

from __future__ import annotations

import errno
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from raftnode.core.replication.peer_memory import Mark
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import NodeId, ReplicaKey
from raftnode.errors import (
    ConfigurationError,
    StorageCorruptError,
    StorageError,
    StorageIdentityError,
    StorageLostError,
)
from raftnode.storage.directory import (
    formation,
    incarnation,
    meta_properties,
    peer_starts,
    quorum_state,
    stale_mark,
)
from raftnode.storage.directory.identity import (
    LOCK_FILE,
    LOG_DIRECTORY,
    MARKER_FILE,
    Format,
    is_empty,
    marker_content,
    random_directory_id,
    read_identity,
    read_unfinished_format,
    write_format,
)
from raftnode.storage.directory.incarnation import Incarnation
from raftnode.storage.directory.meta_properties import MetaProperties, check_cluster_id
from raftnode.storage.directory.quarantine import quarantine, refuse_quarantined
from raftnode.storage.files import TEMPORARY_SUFFIX, File, FileOperationError, Files
from raftnode.storage.log.log import Log, LogSettings
from raftnode.storage.snapshots.snapshot_store import Snapshots

_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class LatchConflictError(ConfigurationError):
    """Another cluster id or another set of first voters than this storage already has (S18).

    Attributes:
        existing: what stands on the disk and stays there.
    """

    def __init__(self, message: str, existing: Latch | str) -> None:
        super().__init__(message)
        self.existing = existing


@dataclass(frozen=True, slots=True)
class _Opened:
    """The content of the directory's files when it was opened."""

    root: tuple[int, int]
    log_directory: tuple[int, int]
    lock: tuple[int, int]
    marker: bytes


class DataDirectory:
    """An open data directory; close it to release the lock."""

    def __init__(
        self,
        files: Files,
        root: Path,
        lock: File,
        meta: MetaProperties,
        state: QuorumState,
        formatted: Format | None,
    ) -> None:
        self._files = files
        self._root = root
        self._lock = lock
        self._meta = meta
        self._state = state
        self._latch: Latch | None = None
        self._incarnation = Incarnation()
        self._incarnation_lock = threading.Lock()
        self.formatted = formatted
        """The format that this opening made or finished; None: the directory had one."""
        self.peer_marks: Mapping[ReplicaKey, Mark] = {}
        """The latest known start of each other replica, the longest unseen first (S3)."""
        self.log_directory = root / LOG_DIRECTORY
        self._opened = _Opened(
            _identity_of(files, root),
            _identity_of(files, self.log_directory),
            lock.stat().identity,
            marker_content(meta.directory_id),
        )

    @classmethod
    def open(
        cls,
        path: Path,
        node_id: NodeId,
        files: Files | None = None,
        *,
        make_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> DataDirectory:
        """Lock the directory, format it if it is empty, check its identity, count the opening.

        Raises:
            ConfigurationError: there is no such directory, it cannot be written to, it
                belongs to another node, or holds something else.
            StorageLockedError: another process uses it.
            StorageIdentityError: the UUID is missing or different somewhere (S2).
            StorageStaleError: a peer reported that the storage went back in time (S3).
            StorageCorruptError: one of its files is damaged, now or earlier; its log was set
                aside (`quarantine`).
            StorageFailedError: the disk failed, is full, or has turned read-only.
        """
        files = Files() if files is None else files
        lock = _lock(files, path)
        try:
            refuse_quarantined(files, path)
            try:
                return cls._open(files, path, lock, node_id, make_id)
            except StorageCorruptError as error:
                raise quarantine(files, path, str(error)) from error
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _open(
        cls,
        files: Files,
        path: Path,
        lock: File,
        node_id: NodeId,
        make_id: Callable[[], uuid.UUID],
    ) -> DataDirectory:
        wanted = read_unfinished_format(files, path)
        if wanted is None and is_empty(files.listdir(path)):
            wanted = Format(ReplicaKey(node_id, random_directory_id(make_id)))
        if wanted is not None:
            write_format(files, path, wanted)
        identity = read_identity(files, path)
        directory = cls(files, path, lock, identity.meta, identity.stored.state, wanted)
        directory._start(node_id)
        return directory

    def _start(self, node_id: NodeId) -> None:
        if self._meta.node_id != node_id:
            raise ConfigurationError(
                f"node.id: {self._root} belongs to node {self._meta.node_id}, but this node "
                f"is configured as {node_id}; use the id of the directory"
            )
        stale_mark.check_not_stale(self._files, self._root / stale_mark.FILE_NAME)
        for name in self._files.listdir(self._root):
            if name.endswith(TEMPORARY_SUFFIX):
                self._files.unlink(self._root / name)
        self._latch = formation.read_latch(self._files, self._root / formation.FILE_NAME)
        if self._latch is not None:
            if self._meta.cluster_id is None:  # a crash between the two files
                self._write_meta(replace(self._meta, cluster_id=self._latch.cluster_id))
            elif self._meta.cluster_id != self._latch.cluster_id:
                raise StorageIdentityError(
                    f"{self._root}: the cluster id is {self._meta.cluster_id} in "
                    f"{meta_properties.FILE_NAME}, but {self._latch.cluster_id} in "
                    f"{formation.FILE_NAME}; this replica must be replaced"
                )
        self.peer_marks = peer_starts.read_marks(self._files, self._root / peer_starts.FILE_NAME)
        before = incarnation.read_incarnation(self._files, self._root / incarnation.FILE_NAME)
        if before.latched and self._latch is None:
            # S19: only this file has the first voters until the log has them for good. A replica
            # without them would be another one under the same UUID, and a storage that lost one
            # file may have lost more.
            raise StorageIdentityError(
                f"{self._root / formation.FILE_NAME} is missing, but this storage was formed "
                "with it; this replica must be replaced"
            )
        self._write_incarnation(replace(before.next(), latched=self._latch is not None))

    def _change_incarnation(self, **changes: bool | int) -> None:
        """Change the incarnation's fields; a latch and a promise do so from different threads."""
        with self._incarnation_lock:
            self._write_incarnation(replace(self._incarnation, **changes))

    def _write_incarnation(self, new: Incarnation) -> None:
        incarnation.write_incarnation(self._files, self._root / incarnation.FILE_NAME, new)
        self._incarnation = new

    @property
    def incarnation(self) -> int:
        """How often this storage was opened, this time included (S3)."""
        return self._incarnation.count

    @property
    def promised_ms(self) -> int:
        """For how long an earlier start may have promised not to vote (S33)."""
        return self._incarnation.promised_ms

    def write_promise(self, promised_ms: int) -> None:
        """Remember, durably, for how long this start promises not to vote (S33).

        Raises:
            StorageLostError: the directory is gone, or another one (S4).
            StorageFailedError: the disk failed.
        """
        self.check_identity()
        self._change_incarnation(promised_ms=promised_ms)

    @property
    def line(self) -> tuple[str, ...]:
        """Nonces of the last openings, this one's first (S3)."""
        return self._incarnation.line

    @property
    def key(self) -> ReplicaKey:
        """The replica that this storage makes of the node."""
        return ReplicaKey(self._meta.node_id, self._meta.directory_id)

    @property
    def cluster_id(self) -> str | None:
        """The cluster that this replica belongs to, once it is known."""
        return self._meta.cluster_id

    @property
    def latch(self) -> Latch | None:
        """The formation that this replica took part in, if any."""
        return self._latch

    @property
    def quorum_state(self) -> QuorumState:
        """Epoch, leader and vote on the disk."""
        return self._state

    def write_quorum_state(self, state: QuorumState) -> None:
        """Make the state durable; answer a vote only after this has returned (P7, P8).

        Raises:
            ProtocolHaltError: it would take back what the state on the disk promised.
            StorageLostError: the directory is not the one that was opened (S4).
            StorageFailedError: the disk failed.
        """
        if state == self._state:
            self._files.check()
            return
        quorum_state.check_successor(self._state, state)
        self.check_identity()
        path = self.log_directory / quorum_state.FILE_NAME
        quorum_state.write_quorum_state(self._files, path, state, self._meta.directory_id)
        self._state = state

    def prove(self) -> None:
        """Write the quorum state once more, to see that the disk still makes bytes durable (S36).

        Raises:
            StorageLostError: the directory is not the one that was opened (S4).
            StorageFailedError: the disk failed.
        """
        self.check_identity()
        path = self.log_directory / quorum_state.FILE_NAME
        quorum_state.write_quorum_state(self._files, path, self._state, self._meta.directory_id)

    def write_peer_marks(self, marks: Mapping[ReplicaKey, Mark]) -> None:
        """Make what is remembered of the peers durable; admit a start only after this (S3).

        Raises:
            StorageLostError: the directory is not the one that was opened (S4).
            StorageFailedError: the disk failed.
        """
        self.check_identity()
        peer_starts.write_marks(self._files, self._root / peer_starts.FILE_NAME, marks)
        self.peer_marks = dict(marks)

    def mark_stale(self, reason: str) -> None:
        """Mark the storage, so that no start opens it again: it went back in time (S3).

        Also tried after an operation failed: that says nothing about the mark's own file.

        Raises:
            StorageError: the disk failed, or the directory is not the one that was opened.
        """
        files = Files(self._files.calls)
        self._check_identity(files)
        stale_mark.write_stale_mark(files, self._root / stale_mark.FILE_NAME, reason)

    def set_aside(self, error: StorageCorruptError) -> StorageCorruptError:
        """Set the damaged storage aside, so that no start opens it again. The log must be closed.

        Returns:
            The error to raise, which says where the files are now.
        """
        try:
            self._check_identity(Files(self._files.calls))
        except StorageError as lost:
            return StorageCorruptError(f"{error}; its files were not set aside: {lost}")
        return quarantine(self._files, self._root, str(error))

    def set_cluster_id(self, cluster_id: str) -> None:
        """Store the cluster id, once; a second call with the same id does nothing.

        Raises:
            LatchConflictError: this storage belongs to another cluster.
            ConfigurationError: it cannot be a cluster id.
        """
        if self._meta.cluster_id == check_cluster_id(cluster_id):
            return
        self._refuse_other_cluster(cluster_id)
        self.check_identity()
        self._write_meta(replace(self._meta, cluster_id=cluster_id))

    def write_latch(self, latch: Latch) -> None:
        """Store the formation, once; a second call with the same latch does nothing (S18).

        The caller checks that this replica is blank and listed.

        Raises:
            LatchConflictError: this storage was formed in another way, or belongs to
                another cluster; nothing was changed.
            ConfigurationError: no voters, or not a cluster id.
        """
        if self._latch == latch:
            return
        if self._latch is not None:
            raise LatchConflictError(f"{self._root} was formed with another latch", self._latch)
        if not len(latch.voters):
            raise ConfigurationError("a formation without voters")
        check_cluster_id(latch.cluster_id)
        self._refuse_other_cluster(latch.cluster_id)
        self.check_identity()
        formation.write_latch(self._files, self._root / formation.FILE_NAME, latch)
        self._latch = latch
        if self._meta.cluster_id is None:
            self._write_meta(replace(self._meta, cluster_id=latch.cluster_id))
        self._change_incarnation(latched=True)

    def _refuse_other_cluster(self, cluster_id: str) -> None:
        existing = self._meta.cluster_id
        if existing is not None and existing != cluster_id:
            raise LatchConflictError(
                f"{self._root} belongs to cluster {existing}, not to {cluster_id}", existing
            )

    def _write_meta(self, meta: MetaProperties) -> None:
        path = self._root / meta_properties.FILE_NAME
        meta_properties.write_meta_properties(self._files, path, meta)
        self._meta = meta

    def open_log(self, settings: LogSettings | None = None) -> Log:
        """Recover the log; the identity of the directory is checked before each roll (S4).

        Raises:
            StorageCorruptError: damage that a crash cannot explain.
            StorageFailedError: the disk failed.
        """
        settings = settings or LogSettings()
        if settings.before_roll is None:
            settings = replace(settings, before_roll=self.check_identity)
        return Log.open(self._files, self.log_directory, settings)

    def open_snapshots(self, retained: int) -> Snapshots:
        """The snapshots beside the log; the directory's identity is checked before each (S4).

        Args:
            retained: how many whole snapshots are kept.

        Raises:
            StorageFailedError: the disk failed.
        """
        return Snapshots(self._files, self.log_directory, retained, self.check_identity)

    def check_identity(self) -> None:
        """Check that the directory is still the one that was opened (S4).

        It takes a few system calls, and a timer calls it. After it raised, the storage refuses
        everything.

        Raises:
            StorageLostError: device, inode or marker have changed, or the directory is gone.
        """
        self._files.check()
        self._check_identity(self._files)

    def _check_identity(self, files: Files) -> None:
        try:
            now = _Opened(
                _identity_of(files, self._root),
                _identity_of(files, self.log_directory),
                _identity_of(files, self._root / LOCK_FILE),
                files.read_bytes(self.log_directory / MARKER_FILE) or b"",
            )
        except FileOperationError as error:
            raise StorageLostError(f"{self._root} cannot be reached: {error}") from error
        if now != self._opened:
            lost = StorageLostError(f"{self._root} is not the directory that was opened")
            files.fail(lost)
            raise lost

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


def _lock(files: Files, path: Path) -> File:
    """Lock a directory; if it was written to before and is read-only now, its disk has failed."""
    used = False
    try:
        there = files.stat(path)
        if there is None or not there.is_directory:
            what = "does not exist" if there is None else "is not a directory"
            raise ConfigurationError(f"log.dir: {path} {what}; it must be an existing directory")
        used = files.stat(path / LOCK_FILE) is not None
        return files.lock(path / LOCK_FILE)
    except FileOperationError as error:
        if error.errno in _NOT_WRITABLE and not (used and error.errno == errno.EROFS):
            raise ConfigurationError(f"log.dir: {path} cannot be written to: {error}") from error
        raise


def format_storage(
    path: Path,
    node_id: NodeId,
    *,
    files: Files | None = None,
    directory_id: uuid.UUID | None = None,
    latch: Latch | None = None,
) -> ReplicaKey:
    """Format an empty directory for a node, as `raftnode storage format` does.

    Args:
        path: an existing, empty directory.
        node_id: the node that gets it.
        files: the file layer.
        directory_id: the storage UUID; fresh if None.
        latch: cluster id and first voters, when a person forms the quorum; they may
            name the UUID given here.

    Returns:
        The replica that it now is.

    Raises:
        ConfigurationError: no such directory, or it is formatted or in use for something else.
        StorageLockedError: another process uses it.
        StorageFailedError: the disk failed or is full.
    """
    files = Files() if files is None else files
    if latch is not None and not len(latch.voters):
        raise ConfigurationError("voters: a formation needs at least one")
    if latch is not None:
        check_cluster_id(latch.cluster_id)
    key = ReplicaKey(node_id, directory_id or random_directory_id())
    lock = _lock(files, path)
    try:
        names = files.listdir(path)
        if read_unfinished_format(files, path) is None and not is_empty(names):
            raise ConfigurationError(
                f"log.dir: {path} is not empty ({', '.join(names[:5])}); nothing was changed. "
                "Give an empty directory"
            )
        write_format(files, path, Format(key, latch))
    finally:
        lock.close()
    return key


def _identity_of(files: Files, path: Path) -> tuple[int, int]:
    status = files.stat(path)
    return (-1, -1) if status is None else status.identity
