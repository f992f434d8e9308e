"""The index files of a segment: written while it grows, read when it is full."""

from __future__ import annotations

from pathlib import Path

from raftnode.core.types import Offset
from raftnode.errors import DecodeError
from raftnode.logformat.index import (
    OFFSET_ENTRY_BYTES,
    OFFSET_SUFFIX,
    TIME_ENTRY_BYTES,
    TIME_SUFFIX,
    SegmentIndex,
)
from raftnode.storage.files import File, Files

LIMIT_BYTES = 64 << 20
"""The size limit of an index: a segment has at most 2 GiB, and an entry stands for 4 KiB of it."""


def read_index(
    files: Files, segment: Path, base_offset: Offset, *, times: bool = True, torn: bool = False
) -> SegmentIndex | None:
    """Read the indexes of a segment; None if a file is missing.

    With `torn`, the result leaves out everything after the last valid entry.

    Raises:
        DecodeError: a file is damaged, naming it and the byte.
    """
    offset_path, time_path = segment.with_suffix(OFFSET_SUFFIX), segment.with_suffix(TIME_SUFFIX)
    offsets = files.read_bytes(offset_path, LIMIT_BYTES)
    entries = files.read_bytes(time_path, LIMIT_BYTES) if times else b""
    if offsets is None or entries is None:
        return None
    try:
        index = SegmentIndex.decode(base_offset, offsets, torn=torn)
    except DecodeError as error:
        raise DecodeError(f"{offset_path}: {error}") from error
    try:
        if not entries:
            return index
        return SegmentIndex.decode(base_offset, offsets, entries, torn=torn)
    except DecodeError as error:
        raise DecodeError(f"{time_path}: {error}") from error


def read_index_ends(files: Files, segment: Path, base_offset: Offset) -> SegmentIndex | None:
    """Read the last entry of each index of a segment; None if a file is missing.

    Raises:
        DecodeError: a file has no whole number of entries, or an impossible last one.
    """
    ends: list[bytes] = []
    for suffix, entry_bytes in (
        (OFFSET_SUFFIX, OFFSET_ENTRY_BYTES),
        (TIME_SUFFIX, TIME_ENTRY_BYTES),
    ):
        path = segment.with_suffix(suffix)
        there = files.stat(path)
        if there is None:
            return None
        if there.size % entry_bytes:
            raise DecodeError(f"{path}: {there.size} bytes are not a whole number of entries")
        start = max(there.size - entry_bytes, 0)
        ends.append(files.read_bytes(path, entry_bytes, start) or b"")
    return SegmentIndex.decode(base_offset, *ends)


class IndexFiles:
    """The open index files of the segment that grows.

    Invariant: they begin with the first entries of the index, as many as were written.
    """

    def __init__(self, offsets: File, times: File, index: SegmentIndex | None = None) -> None:
        self._offsets = offsets
        self._times = times
        self._offsets_written = 0 if index is None else len(index)
        self._times_written = 0 if index is None else index.time_entries
        self._synced = True

    @classmethod
    def create(cls, files: Files, segment: Path) -> IndexFiles:
        """Make empty files; the caller syncs the directory."""
        made = cls(
            files.open(segment.with_suffix(OFFSET_SUFFIX), create=True),
            files.open(segment.with_suffix(TIME_SUFFIX), create=True),
        )
        for file in (made._offsets, made._times):
            if file.stat().size:  # left by a segment that was truncated away
                file.truncate(0)
                made._synced = False
        return made

    @classmethod
    def adopt(cls, files: Files, segment: Path, index: SegmentIndex) -> IndexFiles:
        """Open the files, after replacing those that differ from the index."""
        for suffix, wanted in (
            (OFFSET_SUFFIX, index.encoded_offsets()),
            (TIME_SUFFIX, index.encoded_times()),
        ):
            path = segment.with_suffix(suffix)
            if files.read_bytes(path, LIMIT_BYTES) != wanted:
                files.replace(path, wanted)
        adopted = cls(
            files.open(segment.with_suffix(OFFSET_SUFFIX)),
            files.open(segment.with_suffix(TIME_SUFFIX)),
            index,
        )
        # The bytes there may be only in the page cache.
        adopted._synced = False
        return adopted

    def write(self, index: SegmentIndex) -> None:
        """Write the new entries (not durable yet)."""
        if len(index) > self._offsets_written:
            data = index.encoded_offsets(self._offsets_written)
            self._offsets.pwrite(data, self._offsets_written * OFFSET_ENTRY_BYTES)
            self._offsets_written = len(index)
            self._synced = False
        if index.time_entries > self._times_written:
            data = index.encoded_times(self._times_written)
            self._times.pwrite(data, self._times_written * TIME_ENTRY_BYTES)
            self._times_written = index.time_entries
            self._synced = False

    def sync(self) -> None:
        """Make them durable."""
        if not self._synced:
            self._offsets.fdatasync()
            self._times.fdatasync()
            self._synced = True

    def close(self) -> None:
        """Close them without syncing."""
        self._offsets.close()
        self._times.close()
