"""The file `leader-epoch-checkpoint`: where each epoch starts in the log.

The file is written before the first batch of a new epoch and after a truncation, so at any crash
it covers the epochs in the log. The leader epoch of a batch lies outside its checksum. A start
compares the log with this file, which finds a flipped bit there.
"""

from __future__ import annotations

from pathlib import Path

from raftnode.errors import DecodeError, StorageCorruptError
from raftnode.logformat.epochs import EpochIndex, decode_epochs, encode_epochs
from raftnode.storage.files import Files

FILE_NAME = "leader-epoch-checkpoint"
_LIMIT_BYTES = 16 << 20


def write_epochs(files: Files, path: Path, index: EpochIndex) -> None:
    """Replace the file durably."""
    files.replace(path, encode_epochs(index))


def read_epochs(files: Files, path: Path) -> EpochIndex | None:
    """Read the file; None if there is none.

    Raises:
        StorageCorruptError: it is not what `write_epochs` writes.
    """
    data = files.read_bytes(path, _LIMIT_BYTES)
    if data is None:
        return None
    try:
        return decode_epochs(data)
    except DecodeError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error
