"""The `incarnation` file: how often this storage was opened (S3).

It only ever grows; a peer that has seen a larger number knows that this volume was
put back to an earlier state.
"""

from __future__ import annotations

from pathlib import Path

from raftnode.errors import StorageCorruptError
from raftnode.storage.files import Files
from raftnode.storage.sealed import integer, seal, unseal

FILE_NAME = "incarnation"


def read_incarnation(files: Files, path: Path) -> int:
    """The number of openings so far.

    Raises:
        StorageCorruptError: the file is missing or is not what `write_incarnation` writes.
    """
    data = files.read_bytes(path)
    if data is None:
        raise StorageCorruptError(f"{path} is missing")
    try:
        fields, intact = unseal(data)
        if intact:
            return integer(fields, "incarnation", 0)
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error
    raise StorageCorruptError(f"{path} is damaged: its checksum is wrong")


def write_incarnation(files: Files, path: Path, incarnation: int) -> None:
    """Replace the file durably."""
    files.replace(path, seal({"incarnation": incarnation}))
