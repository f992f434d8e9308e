"""The `stale` file: a peer has seen more of this storage than it now holds (S3).

Once it is there the storage is never opened again: what told on it may be away at the next
start, and the others may know less.
"""

from __future__ import annotations

from pathlib import Path

from raftnode.errors import StorageStaleError
from raftnode.logformat.sealed_json import seal, text, unseal
from raftnode.storage.files import Files

FILE_NAME = "stale"


def check_not_stale(files: Files, path: Path) -> None:
    """Refuse to go on if the file is there.

    Raises:
        StorageStaleError: it is, readable or not.
    """
    data = files.read_bytes(path)
    if data is None:
        return
    try:
        reason = text(unseal(data)[0], "reason")
    except ValueError as error:
        reason = f"{path} cannot be read: {error}"
    raise StorageStaleError(reason)


def write_stale_mark(files: Files, path: Path, reason: str) -> None:
    """Leave the file, durably."""
    files.replace(path, seal({"reason": reason}))
