"""Which snapshots stand beside the log: made, kept, set aside.

A snapshot is counted as whole when this process wrote it or read it from end to end. Only
those make an older one superfluous: a newer file that nobody has read proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from raftnode.storage.files import Files
from raftnode.storage.snapshot import (
    PARTIAL_SUFFIX,
    SnapshotFile,
    SnapshotHead,
    SnapshotId,
    SnapshotReader,
    StateRecord,
    list_snapshots,
    write_snapshot,
)

DAMAGED_SUFFIX = ".damaged"
"""Added to the name of a snapshot that was found damaged, for a person to look at."""


class Snapshots:
    """The snapshots of one log; used by one thread at a time.

    Args:
        files: the file layer.
        directory: the log's.
        retained: how many whole ones are kept.
        before_write: called before a file is made: the check of the directory's identity (S4).
    """

    def __init__(
        self, files: Files, directory: Path, retained: int, before_write: Callable[[], None]
    ) -> None:
        self._files = files
        self._directory = directory
        self._retained = retained
        self._before_write = before_write
        self._whole: set[SnapshotId] = set()
        for name in files.listdir(directory):
            if name.endswith(PARTIAL_SUFFIX):
                files.unlink(directory / name)

    @property
    def directory(self) -> Path:
        """Where they stand."""
        return self._directory

    def ids(self) -> list[SnapshotId]:
        """All of them by their names, oldest first."""
        return list_snapshots(self._files, self._directory)

    def reader(self, snapshot_id: SnapshotId) -> SnapshotReader:
        """Reads one; tell `proved` when it came to its end."""
        return SnapshotReader(self._files, self._directory / snapshot_id.file_name)

    def proved(self, snapshot_id: SnapshotId) -> None:
        """This one was read from end to end."""
        self._whole.add(snapshot_id)

    def set_aside(self, snapshot_id: SnapshotId) -> None:
        """Take a damaged one out of the way, durably; nothing of it is lost."""
        path = self._directory / snapshot_id.file_name
        aside = path.with_name(path.name + DAMAGED_SUFFIX)
        self._files.run("rename", path, self._files.calls.rename, str(path), str(aside))
        self._files.fsync_dir(self._directory)

    def write(
        self,
        snapshot_id: SnapshotId,
        head: SnapshotHead,
        records: Iterable[StateRecord],
        *,
        now_ms: int,
        pause: Callable[[], None],
    ) -> SnapshotFile:
        """Make one durable, then remove those that it makes superfluous.

        Raises:
            StorageError: the disk failed, or the directory is not the one that was opened.
        """
        self._before_write()
        made = write_snapshot(
            self._files, self._directory, snapshot_id, head, records, now_ms=now_ms, pause=pause
        )
        self._whole.add(snapshot_id)
        self._remove_superfluous()
        return made

    def _remove_superfluous(self) -> None:
        kept = sorted(self._whole)[-self._retained :]
        if len(kept) < self._retained:
            return
        for one in self.ids():
            if one < kept[0]:
                self._files.unlink(self._directory / one.file_name)
                self._whole.discard(one)
