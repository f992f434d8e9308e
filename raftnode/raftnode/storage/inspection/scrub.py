"""The scrub: it reads again what was written long ago, slowly and from the disk itself.

Corruption is silent until a reader meets it, and then it is the wrong moment. A pass reads every
segment, index and snapshot beside the running node and checks it as `raftnode log verify` does.

A pass has a file layer of its own, so that a failed read is a finding and does not end the node.
It reads in small pieces with pauses, so that a sync never waits long behind it. Before each read it
drops the pages from the page cache, which would show what was written and not what the disk has
kept. This module has one pass; others decide when a pass is due and act on its findings.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raftnode.errors import RaftnodeError
from raftnode.logformat.snapshot import SNAPSHOT_SUFFIX
from raftnode.storage.files import FileOperationError, Files, OsCalls, Stat, SystemCalls
from raftnode.storage.inspection.log_reader import find_log
from raftnode.storage.inspection.verification import Finding, Verification
from raftnode.storage.segments.segment import SUFFIX
from raftnode.storage.snapshots.snapshot_file import SnapshotDamagedError, list_snapshots
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

PIECE_BYTES = 128 << 10
"""How much is read at once: about a millisecond of a disk's time."""

_OLD = (SUFFIX, SNAPSHOT_SUFFIX)


class SlowCalls(OsCalls):
    """The system calls of a pass: reads in pieces, with a call after each, past the page cache.

    Args:
        below: the system calls that do the work.
        on_read: called with the number of bytes just read; it may wait, or raise to give up.
        in_use: a path that readers rely on, whose pages stay in the cache.
    """

    def __init__(
        self,
        below: SystemCalls,
        on_read: Callable[[int], None],
        in_use: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self._below = below
        self._on_read = on_read
        self._in_use = in_use
        self._cached: set[int] = set()

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`."""
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, "a scrub writes nothing", path)
        fd = self._below.open(path, flags, mode)
        if Path(path) == self._in_use():
            self._cached.add(fd)
        return fd

    def close(self, fd: int) -> None:
        """As `os.close`."""
        self._cached.discard(fd)
        self._below.close(fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """As `os.pread`, in pieces."""
        parts: list[bytes] = []
        done = 0
        while done < length:
            size = min(PIECE_BYTES, length - done)
            if fd not in self._cached:
                # Not every file system can do this; then the read comes from the cache.
                with contextlib.suppress(OSError):
                    os.posix_fadvise(fd, position + done, size, os.POSIX_FADV_DONTNEED)
            part = self._below.pread(fd, size, position + done)
            self._on_read(len(part))
            parts.append(part)
            done += len(part)
            if len(part) < size:
                break
        return b"".join(parts)

    # All other calls of a pass are passed on.

    def fstat(self, fd: int) -> Stat:
        """Status of an open file."""
        return self._below.fstat(fd)

    def stat(self, path: str) -> Stat:
        """Status of whatever stands at the path now."""
        return self._below.stat(path)

    def listdir(self, path: str) -> list[str]:
        """As `os.listdir`."""
        return self._below.listdir(path)


@dataclass(slots=True)
class ScrubPass:
    """One pass over a log's directory.

    Attributes:
        calls: the system calls, slow ones.
        directory: the log's.
        now_s: a clock that never goes back.
        batches: how many were found whole so far.
        looked_s: when the read that confirmed the last finding began, by that clock.
    """

    calls: SystemCalls
    directory: Path
    now_s: Callable[[], float] = time.monotonic
    batches: int = field(default=0, init=False)
    looked_s: float = field(default=0.0, init=False)

    def run(self) -> tuple[Finding, ...]:
        """Read everything; a finding counts only after a second read confirms it.

        Returns:
            The damage, and (`derived`) the files that a start makes again.
        """
        self.batches = 0
        findings = [finding for finding in self._look() if finding.kind != "tail"]
        if not findings:
            return ()
        again = {(finding.path, finding.position, finding.kind) for finding in self._look()}
        return tuple(
            finding
            for finding in findings
            if (finding.path, finding.position, finding.kind) in again
        )

    def size(self) -> int:
        """Bytes that a pass has to read now."""
        files = Files(self.calls)
        paths = [self.directory / name for name in files.listdir(self.directory)]
        there = (files.stat(path) for path in paths if path.suffix in _OLD)
        return sum(status.size for status in there if status is not None)

    def _look(self) -> Iterator[Finding]:
        self.looked_s = self.now_s()
        yield from self._guarded(self._log())
        files = Files(self.calls)
        for snapshot_id in list_snapshots(files, self.directory):
            yield from self._guarded(self._snapshot(self.directory / snapshot_id.file_name))

    def _log(self) -> Iterator[Finding]:
        files = Files(self.calls)
        verification = Verification(files, find_log(files, self.directory))
        yield from verification.run()
        self.batches += verification.batches

    def _snapshot(self, path: Path) -> Iterator[Finding]:
        reader = SnapshotReader(Files(self.calls), path)
        try:
            for _ in reader.records():
                pass
        except SnapshotDamagedError as error:
            yield Finding("damage", path, None, None, str(error))

    def _guarded(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Add a finding for a file that the disk cannot read, but not for a removed file."""
        try:
            yield from findings
        except FileOperationError as error:
            if error.is_unreadable:
                yield Finding("damage", error.path, None, None, str(error))
        except RaftnodeError as error:
            yield Finding("damage", self.directory, None, None, str(error))
