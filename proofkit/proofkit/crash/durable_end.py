"""Computes the durable end of the log from its system calls: the syncs that have returned.

SIGKILL loses nothing that was written: the page cache survives, synced or not. So the files of a
killed process do not show whether it synced in time, but the order of its calls does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from proofkit.crash.sigkill import KillingCalls, Moment
from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.logformat import read_header
from raftnode.storage.segments.segment import SUFFIX


@dataclass(slots=True)
class _Segment:
    """Ends of what was written to it, and of what a sync that has returned covers."""

    written: Offset
    synced: Offset


class WatchedCalls(KillingCalls):
    """`KillingCalls` that also tracks the durable end of the log in a fresh directory.

    The log must only grow at its end and be trimmed at its start, as in a quorum of one node.

    Attributes:
        on_covered: called after each sync of a segment, before its caller goes on, with the end of
            what is durable: every batch below was written before a sync began that has returned.
    """

    def __init__(self, at: int | None = None, moment: Moment = "before") -> None:
        super().__init__(at, moment)
        self.on_covered: Callable[[Offset], None] | None = None
        self._watch = threading.Lock()
        self._paths: dict[int, str] = {}
        self._segments: dict[str, _Segment] = {}

    def open(self, path: str, flags: int, mode: int) -> int:
        """As `os.open`."""
        fd = super().open(path, flags, mode)
        if path.endswith(SUFFIX):
            self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        """As `os.close`."""
        self._paths.pop(fd, None)
        super().close(fd)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As `os.pwrite`."""
        written = super().pwrite(fd, data, position)
        path = self._paths.get(fd)
        if path is not None:
            # Or the rest would come as a write that begins within a batch.
            assert written == len(data), f"{written} of {len(data)} bytes were written to {path}"
            self._note(path, data)
        return written

    def _note(self, path: str, data: bytes | memoryview) -> None:
        """Note the end of the batches that were written, whole, to a segment."""
        header, position = read_header(data), 0
        base = header.base_offset
        while (position := position + header.size) < len(data):
            header = read_header(data, position)
        with self._watch:
            segment = self._segments.setdefault(path, _Segment(base, base))
            segment.written = header.end_offset

    def unlink(self, path: str) -> None:
        """As `os.unlink`."""
        super().unlink(path)
        with self._watch:
            self._segments.pop(path, None)

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        self._sync(fd, super().fdatasync)

    def fsync(self, fd: int) -> None:
        """As `os.fsync`."""
        self._sync(fd, super().fsync)

    def _sync(self, fd: int, sync: Callable[[int], None]) -> None:
        with self._watch:
            segment = self._segments.get(self._paths.get(fd, ""))
            written = FIRST_OFFSET if segment is None else segment.written
        sync(fd)
        if segment is None or self.on_covered is None:
            return
        with self._watch:
            segment.synced = max(segment.synced, written)
            covered = self._covered()
        self.on_covered(covered)

    def _covered(self) -> Offset:
        """Where the first segment that is not durable to its end stops being so; or the end."""
        segments = self._segments.values()
        torn = [segment.synced for segment in segments if segment.synced < segment.written]
        return (
            min(torn)
            if torn
            else max((segment.written for segment in segments), default=FIRST_OFFSET)
        )
