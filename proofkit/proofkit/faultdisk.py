"""A disk in memory that loses writes, fails and lies on demand: `SystemCalls` for tests.

It keeps for every file and directory what programs see now (the page cache) and what
would survive a power cut, with the operations between the two. What of those survives a
cut is drawn from the `random.Random` given, so that a seed replays a run. Pass it to
`raftnode.storage.files.Files`; the storage above cannot tell the difference.
"""

from __future__ import annotations

import copy
import errno
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from raftnode.storage.files import Stat

_SECTOR_BYTES = 512
_ENOUGH_BYTES = 1 << 40
_MODIFYING = frozenset(
    {
        "create",
        "pwrite",
        "ftruncate",
        "fallocate",
        "fdatasync",
        "fsync",
        "mkdir",
        "rename",
        "link",
        "unlink",
    }
)


class PowerCutError(Exception):
    """The machine stopped here; raised by every call until `crash` or `kill`."""


@dataclass(frozen=True, slots=True)
class _Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Cut:
    length: int


@dataclass(frozen=True, slots=True)
class _Reserve:
    length: int


_Operation = _Write | _Cut | _Reserve


@dataclass(eq=False)
class _File:
    inode: int
    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Operation] = field(default_factory=list[_Operation])
    reserved: int = 0
    """Up to where programs see room kept for it; below its end, nothing beyond that."""
    reserved_durably: int = 0

    def cache(self, operation: _Operation) -> None:
        """Apply it in the page cache."""
        self.reserved = _apply(self.cached, self.reserved, operation)
        self.pending.append(operation)

    def keep(self, operation: _Operation) -> None:
        """Apply it on the disk."""
        self.reserved_durably = _apply(self.durable, self.reserved_durably, operation)

    def sync(self, covered: list[_Operation]) -> None:
        """Apply some pending operations on the disk; two operations may be equal."""
        ids = {id(operation) for operation in covered}
        for operation in self.pending:
            if id(operation) in ids:
                self.keep(operation)
        self.pending = [operation for operation in self.pending if id(operation) not in ids]

    @property
    def room(self) -> int:
        """The bytes that it takes on the disk."""
        return max(len(self.cached), self.reserved)


@dataclass(frozen=True, slots=True)
class _Link:
    """A name now leads to a file; with `moved_from` that name goes in the same moment."""

    name: str
    node: _Node
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class _Unlink:
    name: str


@dataclass(eq=False)
class _Directory:
    inode: int
    cached: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    durable: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    pending: list[_Link | _Unlink] = field(default_factory=list[_Link | _Unlink])


_Node = _File | _Directory


@dataclass
class Fault:
    """A call that must fail.

    Attributes:
        call: `pwrite`, `fdatasync`, `fsync`, `pread`, `open`, `rename`, `unlink`, ...
        number: the errno, e.g. `errno.EIO`, `errno.ENOSPC`.
        nth: which of the matching calls from now on, from 1.
        path_part: text that the path must contain.
    """

    call: str
    number: int = errno.EIO
    nth: int = 1
    path_part: str = ""


@dataclass(frozen=True, slots=True)
class _Handle:
    node: _Node
    path: str


def _apply(data: bytearray, reserved: int, operation: _Operation) -> int:
    """Do it to a file's content; up to where room is kept for it then."""
    if isinstance(operation, _Reserve):
        return max(reserved, operation.length)
    if isinstance(operation, _Cut):
        del data[operation.length :]
        data.extend(bytes(operation.length - len(data)))
        return 0
    end = operation.position + len(operation.data)
    data.extend(bytes(max(0, operation.position - len(data))))
    data[operation.position : end] = operation.data
    return reserved


def _apply_name(entries: dict[str, _Node], operation: _Link | _Unlink) -> None:
    if isinstance(operation, _Unlink):
        entries.pop(operation.name, None)
        return
    entries[operation.name] = operation.node
    if operation.moved_from is not None and entries.get(operation.moved_from) is operation.node:
        del entries[operation.moved_from]


class FaultDisk:
    """The disk. Set the attributes between calls to make it misbehave.

    Attributes:
        cut_power_at: number of the modifying call (counted from 0 in `modifications`)
            at which the power goes; the call itself may or may not still happen.
        short_writes: writes take a random part of what they were given.
        capacity_bytes: total size of all files, and of what is reserved for them, at which ENOSPC
            begins.
        read_only: modifying calls, and opening to write, raise EROFS.
        faults: calls that are to fail; used up as they strike.
        hold: called within each `fdatasync`, which lasts until it returns; other threads go on. It
            covers what was written before it began; until its end any part of that may survive.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.modifications = 0
        self.cut_power_at: int | None = None
        self.short_writes = False
        self.capacity_bytes: int | None = None
        self.read_only = False
        self.faults: list[Fault] = []
        self.hold: Callable[[], None] | None = None
        self._off = False
        self._next_inode = 2
        self._next_fd = 1000
        self._root = _Directory(1)
        self._handles: dict[int, _Handle] = {}
        self._locks: dict[int, int] = {}
        self._mutex = threading.RLock()

    # What a test does to the disk.

    def crash(self) -> None:
        """Cut the power and bring it back: unsynced operations survive in part, or torn."""
        self.kill()
        self._forget(self._root)

    def kill(self) -> None:
        """Kill the process only: its files stay, its handles and locks are released."""
        self._off = False
        self.cut_power_at = None
        self._handles.clear()
        self._locks.clear()

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents, durably."""
        node = self._root
        for name in PurePosixPath(path).parts[1:]:
            there = node.cached.get(name)
            if not isinstance(there, _Directory):
                there = _Directory(self._inode())
                node.cached[name] = node.durable[name] = there
            node = there

    def wipe(self, path: Path) -> None:
        """Empty a directory, as `rm -rf path/*` does; open files live on without a name."""
        directory = self._directory(str(path))
        directory.cached.clear()
        directory.durable.clear()
        directory.pending.clear()

    def swap_directory(self, path: Path) -> None:
        """Replace this directory by an empty one."""
        parent, name = self._parent(str(path))
        fresh = _Directory(self._inode())
        parent.cached[name] = parent.durable[name] = fresh

    def remove(self, path: Path) -> None:
        """Remove one name, durably."""
        parent, name = self._parent(str(path))
        del parent.cached[name]
        parent.durable.pop(name, None)
        parent.pending.clear()

    def flip_bit(self, path: Path, byte: int, bit: int = 0) -> None:
        """Flip one bit of a file."""
        file = self._file(str(path))
        file.cached[byte] ^= 1 << bit
        if byte < len(file.durable):
            file.durable[byte] ^= 1 << bit

    def content(self, path: Path) -> bytes:
        """Return the bytes that a program reads from a file."""
        return bytes(self._file(str(path)).cached)

    def overwrite(self, path: Path, data: bytes) -> None:
        """Replace the content of a file durably; create the file if it does not exist."""
        parent, name = self._parent(str(path))
        node = _File(self._inode(), bytearray(data), bytearray(data))
        parent.cached[name] = parent.durable[name] = node

    def snapshot(self) -> object:
        """Return a copy of the disk, for `restore` (a stale volume)."""
        return copy.deepcopy(self._root)

    def restore(self, snapshot: object) -> None:
        """Restore a copy, after the end of the process."""
        assert isinstance(snapshot, _Directory)
        self.kill()
        self._root = copy.deepcopy(snapshot)

    # What a power cut does.

    def _forget(self, directory: _Directory) -> None:
        survivors = self._survivors(directory.pending)
        for operation in survivors:
            _apply_name(directory.durable, operation)
        directory.cached = dict(directory.durable)
        directory.pending.clear()
        for node in directory.cached.values():
            if isinstance(node, _Directory):
                self._forget(node)
            else:
                self._tear(node)

    def _survivors(self, pending: list[_Link | _Unlink]) -> list[_Link | _Unlink]:
        if self.rng.random() < 0.5:
            return pending[: self.rng.randint(0, len(pending))]
        return [operation for operation in pending if self.rng.random() < 0.5]

    def _tear(self, file: _File) -> None:
        """Either a prefix of the writes, the last one cut short, or any of the sectors.

        A sector that arrived holds what was last written to it, or what was for a while.
        """
        if self.rng.random() < 0.5:
            kept = self.rng.randint(0, len(file.pending))
            for operation in file.pending[:kept]:
                file.keep(operation)
            if kept < len(file.pending):
                torn = file.pending[kept]
                if isinstance(torn, _Write):
                    length = self.rng.randint(0, len(torn.data))
                    file.keep(_Write(torn.position, torn.data[:length]))
        else:
            self._scatter(file)
        file.cached, file.reserved = bytearray(file.durable), file.reserved_durably
        file.pending.clear()

    def _scatter(self, file: _File) -> None:
        pieces = [list(_pieces(operation)) for operation in file.pending]
        writes = Counter(start // _SECTOR_BYTES for piece in pieces for start, _ in piece)
        left = {
            sector: count if self.rng.random() < 0.5 else self.rng.randint(0, count - 1)
            for sector, count in writes.items()
        }
        for operation, parts in zip(file.pending, pieces, strict=True):
            if not isinstance(operation, _Write):
                if self.rng.random() < 0.5:
                    file.keep(operation)
                continue
            for start, data in parts:
                sector = start // _SECTOR_BYTES
                left[sector] -= 1
                if left[sector] >= 0:
                    file.keep(_Write(start, data))

    # The system calls.

    @contextmanager
    def _call(self, name: str, path: str) -> Generator[None, None, None]:
        with self._mutex:
            if self._off:
                raise PowerCutError(f"{name} of {path} without power")
            self._strike(name, path)
            modifying = name in _MODIFYING
            if modifying and self.read_only:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
            cut = modifying and self.modifications == self.cut_power_at
            self.modifications += modifying
            if cut and self.rng.random() < 0.5:
                self._off = True
                raise PowerCutError(f"before {name} of {path}")
            yield
            if cut:
                self._off = True
                raise PowerCutError(f"after {name} of {path}")

    def _strike(self, name: str, path: str) -> None:
        for fault in self.faults:
            if fault.call == name and fault.path_part in path:
                fault.nth -= 1
                if fault.nth == 0:
                    self.faults.remove(fault)
                    self._drop_dirty(name, path)
                    raise OSError(fault.number, os.strerror(fault.number), path)

    def _drop_dirty(self, name: str, path: str) -> None:
        """A failed sync: the pages count as clean now, and never reach the disk."""
        if name in ("fdatasync", "fsync"):
            node = self._node(path)
            if isinstance(node, _File):
                node.pending.clear()

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`."""
        del mode
        parent, name = self._parent(path)
        creating = bool(flags & os.O_CREAT) and name not in parent.cached
        with self._call("create" if creating else "open", path):
            if creating:
                node = _File(self._inode())
                parent.cached[name] = node
                parent.pending.append(_Link(name, node))
            opened = self._node(path)
            if isinstance(opened, _Directory) and flags & os.O_RDWR:
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if self.read_only and flags & (os.O_RDWR | os.O_WRONLY):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
            self._next_fd += 1
            self._handles[self._next_fd] = _Handle(opened, path)
            return self._next_fd

    def close(self, fd: int) -> None:
        """As `os.close`; closing is allowed without power."""
        handle = self._handles.pop(fd, None)
        if handle is not None and self._locks.get(handle.node.inode) == fd:
            del self._locks[handle.node.inode]

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """As `os.pread`."""
        file, path = self._opened(fd)
        with self._call("pread", path):
            return bytes(file.cached[position : position + length])

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As `os.pwrite`."""
        file, path = self._opened(fd)
        with self._call("pwrite", path):
            piece = bytes(data)
            if self.short_writes and len(piece) > 1:
                piece = piece[: self.rng.randint(1, len(piece))]
            if self.capacity_bytes is not None:
                growth = max(0, position + len(piece) - file.room)
                piece = piece[: len(piece) - max(0, growth - self._free())]
                if not piece:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            file.cache(_Write(position, piece))
            return len(piece)

    def ftruncate(self, fd: int, length: int) -> None:
        """As `os.ftruncate`."""
        file, path = self._opened(fd)
        with self._call("ftruncate", path):
            file.cache(_Cut(length))

    def fallocate(self, fd: int, length: int) -> None:
        """Reserve room, the size kept; if it is too little, take all and raise ENOSPC."""
        file, path = self._opened(fd)
        with self._call("fallocate", path):
            lacking = max(0, length - file.room - self._free())
            file.cache(_Reserve(length - lacking))
            if lacking:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def free_bytes(self, fd: int) -> int:
        """The free bytes."""
        with self._call("fstatvfs", self._handle(fd).path):
            return self._free()

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        file, path = self._opened(fd)
        with self._call("fdatasync", path):
            covered = list(file.pending)
            if self.hold is None:
                file.sync(covered)
                return
        self.hold()
        with self._mutex:
            if self._off:
                raise PowerCutError(f"in fdatasync of {path}")
            file.sync(covered)

    def fsync(self, fd: int) -> None:
        """As `os.fsync`."""
        handle = self._handle(fd)
        with self._call("fsync", handle.path):
            self._sync(handle.node)

    def _sync(self, node: _Node) -> None:
        if isinstance(node, _File):
            node.sync(list(node.pending))
        else:
            for change in node.pending:
                _apply_name(node.durable, change)
            node.pending.clear()

    def flock(self, fd: int) -> None:
        """Take the lock of the file, or raise EWOULDBLOCK."""
        handle = self._handle(fd)
        with self._call("flock", handle.path):
            if self._locks.setdefault(handle.node.inode, fd) != fd:
                raise OSError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), handle.path)

    def fstat(self, fd: int) -> Stat:
        """Status of an open file."""
        handle = self._handle(fd)
        with self._call("fstat", handle.path):
            return _status(handle.node)

    def stat(self, path: str) -> Stat:
        """Status of the file or directory at the path."""
        with self._call("stat", path):
            return _status(self._node(path))

    def mkdir(self, path: str, mode: int) -> None:
        """As `os.mkdir`."""
        del mode
        parent, name = self._parent(path)
        with self._call("mkdir", path):
            if name in parent.cached:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            node = _Directory(self._inode())
            parent.cached[name] = node
            parent.pending.append(_Link(name, node))

    def rename(self, source: str, target: str) -> None:
        """As `os.rename`, within one directory."""
        parent, old = self._parent(source)
        directory, new = self._parent(target)
        assert parent is directory, "renames within one directory only"
        with self._call("rename", target):
            operation = _Link(new, self._node(source), moved_from=old)
            if parent.cached.get(new) is operation.node:
                return  # POSIX: of two names of one file neither goes
            _apply_name(parent.cached, operation)
            parent.pending.append(operation)

    def link(self, source: str, target: str) -> None:
        """As `os.link`, within one directory."""
        parent, _ = self._parent(source)
        directory, new = self._parent(target)
        assert parent is directory, "links within one directory only"
        with self._call("link", target):
            if new in parent.cached:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            operation = _Link(new, self._node(source))
            _apply_name(parent.cached, operation)
            parent.pending.append(operation)

    def unlink(self, path: str) -> None:
        """As `os.unlink`."""
        parent, name = self._parent(path)
        with self._call("unlink", path):
            self._node(path)
            del parent.cached[name]
            parent.pending.append(_Unlink(name))

    def listdir(self, path: str) -> list[str]:
        """As `os.listdir`."""
        with self._call("listdir", path):
            return list(self._directory(path).cached)

    # Finding things.

    def _inode(self) -> int:
        self._next_inode += 1
        return self._next_inode

    def _handle(self, fd: int) -> _Handle:
        handle = self._handles.get(fd)
        if handle is None:
            if self._off:
                raise PowerCutError("no power")
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return handle

    def _opened(self, fd: int) -> tuple[_File, str]:
        handle = self._handle(fd)
        if not isinstance(handle.node, _File):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), handle.path)
        return handle.node, handle.path

    def _node(self, path: str) -> _Node:
        node: _Node = self._root
        for name in PurePosixPath(path).parts[1:]:
            if not isinstance(node, _Directory):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            if name not in node.cached:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.cached[name]
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _file(self, path: str) -> _File:
        node = self._node(path)
        assert isinstance(node, _File), path
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        pure = PurePosixPath(path)
        return self._directory(str(pure.parent)), pure.name

    def _free(self) -> int:
        if self.capacity_bytes is None:
            return _ENOUGH_BYTES
        return max(0, self.capacity_bytes - self._used(self._root))

    def _used(self, directory: _Directory) -> int:
        return sum(
            self._used(node) if isinstance(node, _Directory) else node.room
            for node in {id(node): node for node in directory.cached.values()}.values()
        )


def _pieces(operation: _Operation) -> Iterator[tuple[int, bytes]]:
    return _sectors(operation) if isinstance(operation, _Write) else iter(())


def _sectors(write: _Write) -> Iterator[tuple[int, bytes]]:
    start, end = write.position, write.position + len(write.data)
    while start < end:
        stop = min(end, (start // _SECTOR_BYTES + 1) * _SECTOR_BYTES)
        yield start, write.data[start - write.position : stop - write.position]
        start = stop


def _status(node: _Node) -> Stat:
    if isinstance(node, _Directory):
        return Stat(1, node.inode, 0, is_directory=True)
    size = len(node.cached)
    return Stat(1, node.inode, size, is_directory=False, spare_bytes=node.room - size)
