"""The snapshots beside the log: making, fetching, keeping, serving and setting them aside.

A snapshot counts as whole when this process wrote it or read it from end to end. Only a whole
snapshot makes an older one superfluous, covers a trim of the log, and is given to other replicas:
a newer file that was not read proves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from raftnode.core.types import Offset
from raftnode.logformat.snapshot import SnapshotHead, SnapshotId, StateRecord
from raftnode.storage.files import FileOperationError, Files
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.damaged_snapshots import link_aside, list_damaged, rename_aside
from raftnode.storage.snapshots.incoming_snapshot import INCOMING_SUFFIX, IncomingSnapshot
from raftnode.storage.snapshots.installation import remove_marker, write_marker
from raftnode.storage.snapshots.snapshot_file import (
    PARTIAL_SUFFIX,
    SnapshotDamagedError,
    SnapshotFile,
    list_snapshots,
    write_snapshot,
)
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader, with_pauses

IN_USE_S = 30.0
"""The store keeps a snapshot of which a replica read a piece this lately: otherwise a snapshot that
takes longer to fetch than the next takes to be made would never arrive."""


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """Some bytes of a snapshot file, and how large the file is."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class SnapshotDamage:
    """The damage of a snapshot.

    Attributes:
        snapshot_id: the damaged snapshot.
        problem: what is wrong with it.
        since_s: when the check of it began, by the clock of `Snapshots`. A file that has got the
            name since is another one.
    """

    snapshot_id: SnapshotId
    problem: str
    since_s: float


class Snapshots:
    """The snapshots of one log. One thread writes; others may read pieces meanwhile.

    `newest`, `proved` and `doubt` never wait for the disk; all else may.

    Args:
        files: the file layer.
        directory: the log's.
        retained: how many whole snapshots are kept.
        before_write: called before a file is made: the check of the directory's identity (S4).
        now_s: a clock that never goes back.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        retained: int,
        before_write: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._directory = directory
        self._retained = retained
        self._before_write = before_write
        self._now_s = now_s
        self._whole: dict[SnapshotId, SnapshotFile] = {}
        self._made_at: dict[SnapshotId, float] = {}
        """When this process gave the file its name."""
        self._read_at: dict[SnapshotId, float] = {}
        self._lock = Lock()
        """The lock of the state in memory; never held during an operation of the disk."""
        self._names = Lock()
        """Held while files get, change or lose their names; taken before the other lock."""
        for name in files.listdir(directory):
            if name.endswith((PARTIAL_SUFFIX, INCOMING_SUFFIX)):
                files.unlink(directory / name)
        self.damaged: dict[SnapshotId, str] = {}
        """The snapshots that this process has set aside, and what was wrong with them."""
        self.incoming = IncomingSnapshot(files, directory)
        """The snapshot that is being fetched."""

    @property
    def directory(self) -> Path:
        """The directory of the snapshots."""
        return self._directory

    def ids(self) -> list[SnapshotId]:
        """All snapshots by their names, oldest first."""
        return list_snapshots(self._files, self._directory)

    def all_files(self) -> dict[SnapshotId, Path]:
        """The file of each snapshot, oldest first; also of the damaged that have lost their names.

        What any of them covers was committed, even if an earlier start set it aside.
        """
        own = {snapshot_id: self._directory / snapshot_id.file_name for snapshot_id in self.ids()}
        return dict(sorted((list_damaged(self._files, self._directory) | own).items()))

    def reader(self, snapshot_id: SnapshotId) -> SnapshotReader:
        """Return a reader of a snapshot; call `proved` when it came to its end.

        The reader has a file layer of its own: if one snapshot cannot be read, another snapshot or
        the log may serve.
        """
        return SnapshotReader(Files(self._files.calls), self._directory / snapshot_id.file_name)

    def proved(self, snapshot: SnapshotFile) -> None:
        """Note that the snapshot was read from end to end."""
        with self._lock:
            self._whole[snapshot.snapshot_id] = snapshot

    def now_s(self) -> float:
        """The clock of `SnapshotDamage.since_s`."""
        return self._now_s()

    def doubt(self, damage: SnapshotDamage) -> bool:
        """Note that a snapshot was found damaged: from now on it does not count.

        Returns:
            False: another file has its name by now, of which the damage says nothing.
        """
        with self._lock:
            return self._doubt(damage)

    def _doubt(self, damage: SnapshotDamage) -> bool:
        if damage.since_s < self._made_at.get(damage.snapshot_id, damage.since_s):
            return False
        self._whole.pop(damage.snapshot_id, None)
        return True

    def set_aside(self, damage: SnapshotDamage, log_start: Offset) -> bool:
        """Set a damaged snapshot aside, durably; nothing of it is lost.

        The snapshot no longer counts, and may be gone already. Its file keeps its name as long as
        no whole snapshot reaches to where the log begins. The read may have failed only once, and
        the next start, which would have nothing else, may read the file well. `write` renames it.

        Args:
            damage: the snapshot, and what is wrong with it.
            log_start: where the log begins.

        Returns:
            False: another file has its name by now, and keeps it.
        """
        with self._names:
            with self._lock:
                if not self._doubt(damage):
                    return False
                self.damaged[damage.snapshot_id] = damage.problem
                spared = not log_start or any(
                    snapshot_id.end_offset >= log_start for snapshot_id in self._whole
                )
            if spared:
                rename_aside(self._files, self._directory / damage.snapshot_id.file_name)
        return True

    def _left(self) -> set[SnapshotId]:
        """The damaged snapshots whose files may have kept their names."""
        with self._lock:
            return self.damaged.keys() - self._whole.keys()

    def _make_way(self, snapshot_id: SnapshotId) -> None:
        """Give a damaged file of the same name a second name, before a whole one gets its name.

        Until then the damaged file may be all that a start has, so it keeps its own name as well.
        """
        if snapshot_id in self._left():
            link_aside(self._files, self._directory / snapshot_id.file_name)

    def _rename_damaged(self) -> None:
        """Rename the damaged files, as a whole snapshot now has its name durably."""
        for snapshot_id in self._left():
            rename_aside(self._files, self._directory / snapshot_id.file_name)

    def newest(self) -> SnapshotFile | None:
        """The newest whole snapshot."""
        with self._lock:
            return self._whole[max(self._whole)] if self._whole else None

    def damage_of(
        self, snapshot_id: SnapshotId, pause: Callable[[], None]
    ) -> SnapshotDamage | None:
        """Read a snapshot's bytes and compare its checksums, from any thread.

        The check has a file layer of its own: a file that cannot be read is damaged, and the
        storage goes on.

        Args:
            snapshot_id: the snapshot to check.
            pause: called now and then; it may raise to give up.

        Returns:
            The damage; None: there is none, or the file is not there any more.
        """
        since_s = self._now_s()
        files = Files(self._files.calls)
        path = self._directory / snapshot_id.file_name
        reader = SnapshotReader(files, path, on_bytes=lambda _: pause())
        try:
            reader.check()
        except SnapshotDamagedError as error:
            there = Files(self._files.calls).stat(path)
            return SnapshotDamage(snapshot_id, str(error), since_s) if there else None
        except FileOperationError as error:
            if error.is_unreadable:
                return SnapshotDamage(snapshot_id, str(error), since_s)
        return None

    def prove(
        self, snapshot_id: SnapshotId, pause: Callable[[], None]
    ) -> SnapshotFile | SnapshotDamage | None:
        """Return the snapshot if it is whole; read it from end to end if that was not done yet.

        May be called from any thread; likewise with a file layer of its own.

        Args:
            snapshot_id: the snapshot to prove.
            pause: called now and then; it may raise to give up.

        Returns:
            The snapshot; or its damage; None: the file could not be opened.
        """
        since_s = self._now_s()
        with self._lock:
            if snapshot_id in self._whole:
                return self._whole[snapshot_id]
        reader = self.reader(snapshot_id)
        try:
            for _ in with_pauses(reader.records(), pause):
                pass
        except SnapshotDamagedError as error:
            return SnapshotDamage(snapshot_id, str(error), since_s)
        except FileOperationError as error:
            if error.is_unreadable:
                return SnapshotDamage(snapshot_id, str(error), since_s)
            return None
        assert reader.snapshot is not None  # noqa: S101
        self.proved(reader.snapshot)
        return reader.snapshot

    def write(
        self,
        snapshot_id: SnapshotId,
        head: SnapshotHead,
        records: Iterable[StateRecord],
        *,
        now_ms: int,
        pause: Callable[[], None],
    ) -> SnapshotFile:
        """Write a snapshot durably, then remove those that it makes superfluous.

        Raises:
            FileOperationError: the disk has no room (`is_full`); nothing of it is left.
            StorageError: the disk failed, or the directory is not the one that was opened.
        """
        self._before_write()

        def between_batches() -> None:
            self._files.check()
            pause()

        def make_way() -> None:
            with self._names:
                self._make_way(snapshot_id)

        made = write_snapshot(
            self._files,
            self._directory,
            snapshot_id,
            head,
            records,
            now_ms=now_ms,
            pause=between_batches,
            make_way=make_way,
        )
        with self._names:
            self._named(made)
            self._rename_damaged()
            for superfluous_id in self._superfluous(self.ids()):
                self._files.unlink(self._directory / superfluous_id.file_name)
        return made

    def _named(self, snapshot: SnapshotFile) -> None:
        with self._lock:
            self._whole[snapshot.snapshot_id] = snapshot
            self._made_at[snapshot.snapshot_id] = self._now_s()

    def _superfluous(self, there: Iterable[SnapshotId]) -> list[SnapshotId]:
        """Return the snapshots that are not needed and that no replica fetches any more."""
        with self._lock:
            kept = sorted(self._whole)[-self._retained :]
            if len(kept) < self._retained:
                return []
            busy_since = self._now_s() - IN_USE_S
            gone = [
                snapshot_id
                for snapshot_id in there
                if snapshot_id < kept[0]
                and self._read_at.get(snapshot_id, busy_since) <= busy_since
            ]
            for snapshot_id in gone:
                for known in (self._whole, self._made_at, self._read_at):
                    known.pop(snapshot_id, None)
        return gone

    def covered(self) -> Offset:
        """The offset up to which as many whole snapshots as are kept have everything; 0: fewer do.

        As long as the log reaches back to there, a start has what it needs even if the newest
        snapshot is damaged.
        """
        with self._lock:
            whole = [self._whole[snapshot_id] for snapshot_id in sorted(self._whole)]
        if len(whole) < self._retained or any(snapshot.log_head is None for snapshot in whole):
            return Offset(0)
        return whole[0].snapshot_id.end_offset

    def read_piece(
        self, snapshot_id: SnapshotId, position: int, max_bytes: int
    ) -> SnapshotPiece | None:
        """Some bytes of a whole snapshot; None: there is no such snapshot any more.

        An error of this read does not end the storage: memory has the same state, and nothing that
        was acknowledged is read from here again. So the read has a file layer of its own.

        Raises:
            SnapshotDamagedError: the disk cannot read them, or the file is shorter than it was.
            StorageError: another operation failed, now or before.
        """
        self._files.check()
        with self._lock:
            snapshot = self._whole.get(snapshot_id)
            if snapshot is None:
                return None
            # From now on the snapshot is not superfluous for a while.
            self._read_at[snapshot_id] = self._now_s()
        expected = min(max_bytes, snapshot.size - position) if 0 <= position < snapshot.size else 0
        try:
            data = self._read_apart(snapshot_id, expected, position) if expected else b""
        except SnapshotDamagedError:
            if self._is_still(snapshot):
                raise
            return None
        return SnapshotPiece(data, snapshot.size) if self._is_still(snapshot) else None

    def _is_still(self, snapshot: SnapshotFile) -> bool:
        """Whether the snapshot was not removed, set aside or replaced since it was looked up."""
        with self._lock:
            return self._whole.get(snapshot.snapshot_id) is snapshot

    def _read_apart(self, snapshot_id: SnapshotId, count: int, position: int) -> bytes:
        path = self._directory / snapshot_id.file_name
        try:
            data = Files(self._files.calls).read_bytes(path, count, position) or b""
        except FileOperationError as error:
            if error.is_unreadable:
                raise SnapshotDamagedError(str(error)) from error
            self._files.fail(error)
            raise
        if len(data) < count:
            raise SnapshotDamagedError(
                f"snapshot {snapshot_id}: {len(data)} of {count} bytes at byte {position}"
            )
        return data

    def install(self, log: Log, snapshot: SnapshotFile) -> None:
        """Replace the log by the snapshot that was fetched and read to its end, durably.

        A crash at any point leaves the log as it was, or the snapshot and an empty log behind
        it once the next start has finished (`installation`).

        Under the marker, a start accepts any file of that name as the whole snapshot. So a file
        that has the name already is replaced first: this log goes on from there, as from that one.

        Raises:
            StorageError: the disk failed, or the directory is not the one that was opened.
        """
        self._before_write()
        snapshot_id = snapshot.snapshot_id
        with self._names:
            path = self._directory / snapshot_id.file_name
            replaces = self._files.stat(path) is not None
            if replaces:
                self._make_way(snapshot_id)
                self.incoming.adopt(snapshot_id)
            write_marker(self._files, self._directory, snapshot_id)
            if not replaces:
                self.incoming.adopt(snapshot_id)
            log.reset(snapshot_id)
            remove_marker(self._files, self._directory)
            self._named(snapshot)
            self._rename_damaged()
