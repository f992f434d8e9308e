"""The one file layer: every byte that the node keeps passes through here.

`SystemCalls` is the interface below: the operating system in production, the fault-injecting disk
of `proofkit.faultdisk` in tests. `Files` uses it and adds what the storage relies on: all bytes or
an error, atomic replacement, and no further operation after a failure (an fsync that failed may
have dropped the dirty pages, so a second fsync that succeeds proves nothing). This module knows
the format of no file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from raftnode.errors import ExitCode, RaftnodeError, StorageFailedError, StorageLockedError
from raftnode.storage import fallocate

P = ParamSpec("P")
T = TypeVar("T")

_BLOCKS_UNIT_BYTES = 512
"""The unit of `st_blocks`, whatever the size of a block."""

TEMPORARY_SUFFIX = ".tmp"
"""Suffix of a file that `Files.replace` was writing when the node stopped; it is never read."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No room on the disk, or none left of a quota."""
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
_NOT_RESERVED = FULL | {errno.EOPNOTSUPP, errno.ENOSYS}
"""No room to reserve, or a file system that cannot reserve: neither is a failure."""
_UNREADABLE = frozenset(
    {errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA, errno.EILSEQ, errno.EREMOTEIO}
)


class FileOperationError(StorageFailedError):
    """A file operation failed.

    Attributes:
        operation: name of the system call.
        path: the file or directory.
        errno: the operating system's reason, e.g. `errno.ENOSPC`.
    """

    def __init__(self, operation: str, path: Path, number: int, detail: str = "") -> None:
        reason = detail or os.strerror(number)
        super().__init__(f"{operation} of {path} failed: {reason}")
        self.operation = operation
        self.path = path
        self.errno = number
        if number in FULL:
            # More room fixes it; a new disk of the same size would fill just the same.
            self.exit_code = ExitCode.STORAGE_FULL

    @property
    def is_full(self) -> bool:
        """Whether the disk or a quota had no room, rather than a failure."""
        return self.errno in FULL

    @property
    def is_unreadable(self) -> bool:
        """Whether a read failed because of the disk, and not for want of descriptors, say."""
        return self.errno in _UNREADABLE


@dataclass(frozen=True, slots=True)
class Stat:
    """The part of a file's status that the storage reads."""

    device: int
    inode: int
    size: int
    is_directory: bool
    spare_bytes: int = 0
    """Bytes of whole blocks that the disk keeps for the file beyond its end."""

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode: equal only for the same file (S4)."""
        return (self.device, self.inode)


class SystemCalls(Protocol):
    """The system calls that the storage uses; all raise OSError, writes may be short."""

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`."""
        ...

    def close(self, fd: int) -> None:
        """As `os.close`."""
        ...

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """As `os.pread`."""
        ...

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As `os.pwrite`."""
        ...

    def ftruncate(self, fd: int, length: int) -> None:
        """As `os.ftruncate`."""
        ...

    def fallocate(self, fd: int, length: int) -> None:
        """Reserve room for the bytes below `length`; the size of the file stays."""
        ...

    def free_bytes(self, fd: int) -> int:
        """What is free on the file's disk, for a program without privileges."""
        ...

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        ...

    def fsync(self, fd: int) -> None:
        """As `os.fsync`, of a file or a directory."""
        ...

    def flock(self, fd: int) -> None:
        """Take the exclusive lock of the open file or raise at once."""
        ...

    def fstat(self, fd: int) -> Stat:
        """Status of an open file."""
        ...

    def stat(self, path: str) -> Stat:
        """Status of whatever stands at the path now."""
        ...

    def mkdir(self, path: str, mode: int) -> None:
        """As `os.mkdir`."""
        ...

    def rename(self, source: str, target: str) -> None:
        """As `os.rename`: replaces the target."""
        ...

    def link(self, source: str, target: str) -> None:
        """As `os.link`: the target must not be there."""
        ...

    def unlink(self, path: str) -> None:
        """As `os.unlink`."""
        ...

    def listdir(self, path: str) -> list[str]:
        """As `os.listdir`."""
        ...


def free_bytes_in(status: os.statvfs_result) -> int:
    """What is free on a disk, for a program without privileges."""
    return status.f_bavail * status.f_frsize


def _stat(result: os.stat_result) -> Stat:
    size, block = result.st_size, max(result.st_blksize, 1)
    spare = result.st_blocks * _BLOCKS_UNIT_BYTES - -(-size // block) * block
    is_directory = stat.S_ISDIR(result.st_mode)
    return Stat(result.st_dev, result.st_ino, size, is_directory, max(spare, 0))


class OsCalls:
    """The operating system itself."""

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`."""
        return os.open(path, flags, mode)

    def close(self, fd: int) -> None:
        """As `os.close`."""
        os.close(fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """As `os.pread`."""
        return os.pread(fd, length, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As `os.pwrite`."""
        return os.pwrite(fd, data, position)

    def ftruncate(self, fd: int, length: int) -> None:
        """As `os.ftruncate`."""
        os.ftruncate(fd, length)

    def fallocate(self, fd: int, length: int) -> None:
        """Reserve room for the bytes below `length`; the size of the file stays."""
        fallocate.reserve(fd, length)

    def free_bytes(self, fd: int) -> int:
        """What is free on the file's disk, for a program without privileges."""
        return free_bytes_in(os.fstatvfs(fd))

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        os.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        """As `os.fsync`, of a file or a directory."""
        os.fsync(fd)

    def flock(self, fd: int) -> None:
        """Take the exclusive lock of the open file or raise at once."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def fstat(self, fd: int) -> Stat:
        """Status of an open file."""
        return _stat(os.fstat(fd))

    def stat(self, path: str) -> Stat:
        """Status of whatever stands at the path now."""
        return _stat(os.stat(path))  # noqa: PTH116

    def mkdir(self, path: str, mode: int) -> None:
        """As `os.mkdir`."""
        os.mkdir(path, mode)  # noqa: PTH102

    def rename(self, source: str, target: str) -> None:
        """As `os.rename`: replaces the target."""
        os.rename(source, target)  # noqa: PTH104

    def link(self, source: str, target: str) -> None:
        """As `os.link`: the target must not be there."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """As `os.unlink`."""
        os.unlink(path)  # noqa: PTH108

    def listdir(self, path: str) -> list[str]:
        """As `os.listdir`."""
        return os.listdir(path)  # noqa: PTH208


class Files:
    """File operations that either happen in full or make the storage unusable.

    After an operation failed, every later one raises the same kind of error (`failure` has it)
    without touching the disk; only closing still works. One object serves one data directory
    and may be used from several threads.
    """

    def __init__(self, calls: SystemCalls | None = None) -> None:
        self.calls: SystemCalls = OsCalls() if calls is None else calls
        self._failure: RaftnodeError | None = None

    @property
    def failure(self) -> RaftnodeError | None:
        """The failure because of which every operation is refused, or None."""
        return self._failure

    def fail(self, error: RaftnodeError) -> None:
        """Refuse every operation from now on, for the given reason (the first one counts)."""
        if self._failure is None:
            self._failure = error

    def check(self) -> None:
        """Raise if an operation failed before.

        Raises:
            StorageError: the failure of that operation.
        """
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def apart(self) -> Generator[Files]:
        """Yield a layer for the content of a file that holds nothing acknowledged.

        If the disk has no room for the file, only this layer fails and the storage goes on: errors
        of a write or a sync of one file say nothing about another. Any other failure is a failure
        of the storage, too.

        Raises:
            FileOperationError: an operation of the layer failed; see `is_full`.
        """
        self.check()
        apart = Files(self.calls)
        try:
            yield apart
        except FileOperationError as error:
            if not error.is_full:
                self.fail(error)
            raise

    def run(
        self, operation: str, path: Path, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do one system call under the rule of this class.

        Raises:
            FileOperationError: it failed; nothing is attempted afterwards.
            StorageError: an earlier operation had failed.
        """
        self.check()
        try:
            result = call(*args, **kwargs)
        except OSError as error:
            raise self.failed(operation, path, error.errno or errno.EIO) from error
        # Another thread's failure meanwhile may have taken our pages with it.
        self.check()
        return result

    def failed(self, operation: str, path: Path, number: int, detail: str = "") -> RaftnodeError:
        """Record a failure and return the error to raise."""
        error = FileOperationError(operation, path, number, detail)
        self.fail(error)
        return error

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open a file for reading and writing; with `create`, make it (not durable yet)."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return File(self, path, self.run("open", path, self.calls.open, str(path), flags, 0o600))

    def lock(self, path: Path) -> File:
        """Make the file if needed and hold its exclusive lock until it is closed.

        Raises:
            StorageLockedError: another process holds it.
            FileOperationError: the file cannot be made or locked.
        """
        file = self.open(path, create=True)
        try:
            self.calls.flock(file.fd)
        except OSError as error:
            file.close()
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StorageLockedError(
                    f"{path.parent} is in use by another process; stop that process first"
                ) from error
            raise self.failed("flock", path, error.errno or errno.EIO) from error
        return file

    def stat(self, path: Path) -> Stat | None:
        """Status of whatever stands at the path now; None if there is nothing."""
        self.check()
        try:
            return self.calls.stat(str(path))
        except OSError as error:
            if error.errno in _MISSING:
                return None
            raise self.failed("stat", path, error.errno or errno.EIO) from error

    def listdir(self, path: Path) -> list[str]:
        """Names in the directory, sorted."""
        return sorted(self.run("listdir", path, self.calls.listdir, str(path)))

    def open_to_read(self, path: Path) -> File:
        """Open a file for reading only."""
        flags = os.O_RDONLY | os.O_CLOEXEC
        return File(self, path, self.run("open", path, self.calls.open, str(path), flags, 0))

    def read_bytes(self, path: Path, limit: int = 1 << 20, position: int = 0) -> bytes | None:
        """Read at most `limit` bytes of a file from a position on; None if there is no file."""
        self.check()
        flags = os.O_RDONLY | os.O_CLOEXEC
        try:
            # No check before the open: a trim may remove the file between the two.
            fd = self.calls.open(str(path), flags, 0)
        except OSError as error:
            if error.errno in _MISSING:
                return None
            raise self.failed("open", path, error.errno or errno.EIO) from error
        file = File(self, path, fd)
        try:
            return file.pread(limit, position)
        finally:
            file.close()

    def mkdir(self, path: Path) -> None:
        """Make a directory and make its name durable."""
        self.run("mkdir", path, self.calls.mkdir, str(path), 0o700)
        self.fsync_dir(path.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace the file's content by `data`, durably: a crash leaves the old or the new whole.

        Raises:
            FileOperationError: it may or may not have been replaced.
        """
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.fsync()
        finally:
            file.close()
        self.run("rename", path, self.calls.rename, str(temporary), str(path))
        self.fsync_dir(path.parent)

    def unlink(self, path: Path) -> None:
        """Remove a file, durably."""
        self.run("unlink", path, self.calls.unlink, str(path))
        self.fsync_dir(path.parent)

    def fsync_dir(self, path: Path) -> None:
        """Make the names in a directory durable."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        fd = self.run("open", path, self.calls.open, str(path), flags, 0)
        try:
            self.run("fsync", path, self.calls.fsync, fd)
        finally:
            self.calls.close(fd)


class File:
    """An open file of a `Files`; every failure fails that layer."""

    def __init__(self, files: Files, path: Path, fd: int) -> None:
        self._files = files
        self.path = path
        self.fd = fd
        self._open = True

    def pread(self, length: int, position: int) -> bytes:
        """Read `length` bytes, fewer only at the end of the file."""
        data = self._files.run(
            "pread", self.path, self._files.calls.pread, self.fd, length, position
        )
        if len(data) == length:
            return data
        parts = [data]
        done = len(data)
        while data and done < length:
            data = self._files.run(
                "pread",
                self.path,
                self._files.calls.pread,
                self.fd,
                length - done,
                position + done,
            )
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def pwrite(self, data: bytes | memoryview, position: int) -> None:
        """Write all bytes; a short write is continued, a write of no byte is a failure.

        Raises:
            FileOperationError: some of the bytes may have been written.
        """
        files = self._files
        written = files.run("pwrite", self.path, files.calls.pwrite, self.fd, data, position)
        if written == len(data):
            return
        rest = memoryview(data)
        while True:
            if written <= 0:
                raise files.failed("pwrite", self.path, errno.EIO, "nothing was written")
            rest = rest[written:]
            position += written
            if not rest:
                return
            written = files.run("pwrite", self.path, files.calls.pwrite, self.fd, rest, position)

    def truncate(self, length: int) -> None:
        """Cut or extend the file (not durable yet)."""
        self._files.run("ftruncate", self.path, self._files.calls.ftruncate, self.fd, length)

    def reserve(self, length: int) -> int | None:
        """Reserve room for the bytes below `length`; the size stays (not durable yet).

        Returns:
            None; or the errno of a refusal, for want of room or because the file system cannot
            reserve. A part may be reserved then. A refusal is no failure of the layer.
        """
        files = self._files
        files.check()
        try:
            files.calls.fallocate(self.fd, length)
        except OSError as error:
            number = error.errno or errno.EIO
            if number in _NOT_RESERVED:
                return number
            raise files.failed("fallocate", self.path, number) from error
        files.check()
        return None

    def free_bytes(self) -> int:
        """What is free on the disk of the file."""
        return self._files.run("fstatvfs", self.path, self._files.calls.free_bytes, self.fd)

    def fdatasync(self) -> None:
        """Make the data durable, and the size as far as reading needs it."""
        self._files.run("fdatasync", self.path, self._files.calls.fdatasync, self.fd)

    def fsync(self) -> None:
        """Make data and status durable."""
        self._files.run("fsync", self.path, self._files.calls.fsync, self.fd)

    def stat(self) -> Stat:
        """Status of the open file, wherever its name has gone."""
        return self._files.run("fstat", self.path, self._files.calls.fstat, self.fd)

    def close(self) -> None:
        """Close without syncing; a second time does nothing."""
        if self._open:
            self._open = False
            self._files.calls.close(self.fd)
