"""A snapshot that is being fetched from a leader, piece by piece, beside the log.

The file has a name of its own until it was read from end to end, so that no reader takes it for a
snapshot that counts. There is one at a time; a start removes what is left of it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from raftnode.logformat.snapshot import SNAPSHOT_SUFFIX, SnapshotId
from raftnode.storage.files import File, FileOperationError, Files
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

INCOMING_SUFFIX = SNAPSHOT_SUFFIX + ".incoming"
_SYNC_BYTES = 8 << 20
"""How many bytes are synced at once, so that the log's own fsyncs never wait behind a whole
snapshot."""


class IncomingSnapshot:
    """The file; used by one thread at a time."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._file: File | None = None
        self._id: SnapshotId | None = None
        self._size = 0
        self._synced = 0

    def _path(self, snapshot_id: SnapshotId) -> Path:
        return self._directory / f"{snapshot_id}{INCOMING_SUFFIX}"

    def store(self, snapshot_id: SnapshotId, position: int, data: bytes) -> int:
        """Write a piece; a piece at position 0 first drops all bytes of any earlier snapshot.

        Returns:
            How many bytes there are now.

        Raises:
            ValueError: the piece does not follow the bytes that are there; or there is no room,
                and nothing of the snapshot is left.
            StorageError: the disk failed.
        """
        if position == 0:
            self.drop()
        with self._or_nothing(), self._files.apart() as apart:
            if position == 0:
                self._id, self._size, self._synced = snapshot_id, 0, 0
                self._file = apart.open(self._path(snapshot_id), create=True)
                self._file.truncate(0)
            if self._file is None or (self._id, self._size) != (snapshot_id, position):
                raise ValueError(
                    f"byte {position} of {snapshot_id} does not follow byte {self._size} of "
                    f"{self._id}"
                )
            self._file.pwrite(data, position)
            self._size += len(data)
            if self._size - self._synced >= _SYNC_BYTES:
                self._file.fdatasync()
                self._synced = self._size
        return self._size

    @contextmanager
    def _or_nothing(self) -> Generator[None]:
        """If there is no room, drop the file: it holds nothing acknowledged."""
        try:
            yield
        except FileOperationError as error:
            if not error.is_full:
                raise
            self.drop()
            raise ValueError(f"not enough free space: {error}") from error

    def reader(self, snapshot_id: SnapshotId) -> SnapshotReader:
        """Make the file durable and read it from its first byte to its last.

        Raises:
            ValueError: the file is another snapshot's; or there is no room, and nothing of it is
                left.
            StorageError: the disk failed.
        """
        if self._file is None or self._id != snapshot_id:
            raise ValueError(f"{snapshot_id} is not here, but {self._id}")
        with self._or_nothing(), self._files.apart():
            self._file.fsync()
        return SnapshotReader(self._files, self._path(snapshot_id), snapshot_id=snapshot_id)

    def adopt(self, snapshot_id: SnapshotId) -> None:
        """Give the file, which was read to its end, the name of a snapshot, durably."""
        if self._file is None or self._id != snapshot_id:
            raise ValueError(f"{snapshot_id} is not here, but {self._id}")
        path, target = self._path(snapshot_id), self._directory / snapshot_id.file_name
        self._files.run("rename", path, self._files.calls.rename, str(path), str(target))
        self._files.fsync_dir(self._directory)
        self._file.close()
        self._file = self._id = None

    def drop(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
        if self._id is not None and self._files.stat(self._path(self._id)) is not None:
            self._files.unlink(self._path(self._id))
        self._file = self._id = None

    def close(self) -> None:
        """Close the file; the next start removes it."""
        if self._file is not None:
            self._file.close()
        self._file = self._id = None
