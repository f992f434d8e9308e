"""The start of the log and how far it is known to be durable: files with one number each.

`recovery-point-offset-checkpoint` (Kafka's text form, fsynced) moves when a segment is rolled, on
a start and on a clean stop. A start does not read the log below it again.

`flushed-offset` (ours, binary) follows every fdatasync of the log and is itself not synced, so
that it costs two microseconds. Whatever value survives a crash was true once and still is, because
a truncation first lowers it, durably. Damage below either number cannot be a torn tail: cutting
there would drop acknowledged records.

`log-start-offset-checkpoint` (Kafka's text form, fsynced) moves before a segment is removed
behind a snapshot. A log without the file begins at 0.
"""

from __future__ import annotations

import struct
from pathlib import Path

import crc32c

from raftnode.core.types import FIRST_OFFSET, Offset
from raftnode.errors import StorageCorruptError
from raftnode.storage.files import File, Files

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
FLUSHED_OFFSET_FILE = "flushed-offset"
TOPIC = "__cluster_metadata"

_MARK = struct.Struct(">qI")


def write_recovery_point(files: Files, path: Path, offset: Offset) -> None:
    """Replace the file durably."""
    files.replace(path, f"0\n1\n{TOPIC} 0 {offset}\n".encode())


def read_recovery_point(files: Files, path: Path) -> Offset | None:
    """Read the file; None if there is none.

    Raises:
        StorageCorruptError: it is not what `write_recovery_point` writes.
    """
    data = files.read_bytes(path)
    if data is None:
        return None
    head, _, number = data.decode("ascii", "replace").rpartition(" ")
    digits = number.removesuffix("\n")
    if head != f"0\n1\n{TOPIC} 0" or not digits.isdecimal() or len(digits) > 19:
        raise StorageCorruptError(f"{path} is damaged: {data[:80]!r}")
    return Offset(int(digits))


def write_log_start(files: Files, path: Path, offset: Offset) -> None:
    """Replace the file durably; segments below the offset may be removed after that."""
    write_recovery_point(files, path, offset)


def read_log_start(files: Files, path: Path) -> Offset:
    """Read the file; 0 if there is none.

    Raises:
        StorageCorruptError: it is not what `write_log_start` writes.
    """
    return read_recovery_point(files, path) or FIRST_OFFSET


def read_flushed_offset(files: Files, path: Path) -> Offset:
    """What the file says; 0 if it is missing or damaged."""
    return _decode_mark(files.read_bytes(path, _MARK.size + 1) or b"")


def _decode_mark(data: bytes) -> Offset:
    if len(data) != _MARK.size:
        return FIRST_OFFSET
    offset, crc = _MARK.unpack(data)
    if offset < 0 or crc != crc32c.crc32c(data[:8]):
        return FIRST_OFFSET
    return Offset(offset)


class FlushedMark:
    """The open `flushed-offset` file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.offset = self._read()

    @classmethod
    def open(cls, files: Files, path: Path) -> FlushedMark:
        """Open or make the file; a damaged one counts as 0, which only detects less."""
        return cls(files.open(path, create=True))

    def _read(self) -> Offset:
        return _decode_mark(self._file.pread(_MARK.size + 1, 0))

    def raise_to(self, offset: Offset) -> None:
        """Note that the log below an offset is durable; call it only after the sync returned."""
        if offset > self.offset:
            self._write(offset)

    def lower_to(self, offset: Offset) -> None:
        """Lower the mark, durably, before a truncation."""
        if offset < self.offset:
            self._write(offset)
            self._file.fsync()

    def _write(self, offset: Offset) -> None:
        body = offset.to_bytes(8, "big")
        self._file.pwrite(body + crc32c.crc32c(body).to_bytes(4, "big"), 0)
        self.offset = offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()
