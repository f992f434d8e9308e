"""The `stale` file: a peer has seen more of this storage than it now holds (S3).

No start opens a storage with this file: the peer that reported it may be down at the next start,
and the other peers may know less.
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
        StorageStaleError: the file is there, readable or not.
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
    """Write the file, durably."""
    files.replace(path, seal({"reason": reason}))
