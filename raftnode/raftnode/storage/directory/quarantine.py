"""The quarantine of damaged storage: nothing of it is deleted, and no start uses it again.

First the file `corrupt` is written into the data directory, with the damage that was found. Then
the log's directory is renamed to `__cluster_metadata-0.quarantined`. Whatever a crash leaves of
the two steps, the next start refuses with the same reason and finishes the move. Without the file,
a later start might not meet the damage, which may lie where no start reads, and the node would
answer as if nothing had been found.

The other files of the data directory stay where they are: they have its identity. A person who
knows that the storage is usable renames the directory back and removes `corrupt`.
"""

from __future__ import annotations

from pathlib import Path

from raftnode.errors import StorageCorruptError, StorageError
from raftnode.logformat.sealed_json import seal, text, unseal
from raftnode.storage.directory.identity import LOG_DIRECTORY
from raftnode.storage.files import Files

MARK_FILE = "corrupt"
SUFFIX = ".quarantined"


def read_mark(files: Files, root: Path) -> str | None:
    """The damage because of which this storage was set aside; None: it was not set aside."""
    data = files.read_bytes(root / MARK_FILE)
    if data is None:
        return None
    try:
        return text(unseal(data)[0], "reason")
    except ValueError as error:
        return f"{root / MARK_FILE} cannot be read: {error}"


def refuse_quarantined(files: Files, root: Path) -> None:
    """Refuse a storage that was set aside, and finish a move that a crash interrupted.

    Raises:
        StorageCorruptError: it was set aside; the error has the first reason and where the files
            are.
    """
    reason = read_mark(files, root)
    if reason is not None:
        raise quarantine(files, root, reason)


def quarantine(files: Files, root: Path, reason: str) -> StorageCorruptError:
    """Set the storage aside, as far as the disk allows it; the caller holds its lock.

    Args:
        files: the file layer; if it has failed already, its system calls are used all the same.
        root: the data directory.
        reason: what was found.

    Returns:
        The error to raise: the reason, and where the files are now.
    """
    fresh = Files(files.calls)
    try:
        if fresh.stat(root / MARK_FILE) is None:
            fresh.replace(root / MARK_FILE, seal({"reason": reason}))
        where = f"the log's files are kept in {_move(fresh, root)}"
    except StorageError as error:
        where = f"the log's files could not be moved: {error}"
    return StorageCorruptError(f"{reason}; {where}")


def _move(files: Files, root: Path) -> str:
    """Give the log's directory another name, durably; returns the names of all there are."""
    names = set(files.listdir(root))
    if LOG_DIRECTORY in names:
        number = 1
        while (name := _name(number)) in names:
            number += 1
        source, target = root / LOG_DIRECTORY, root / name
        files.run("rename", target, files.calls.rename, str(source), str(target))
        files.fsync_dir(root)
        names.add(name)
    kept = sorted(name for name in names if name.startswith(LOG_DIRECTORY + SUFFIX))
    return ", ".join(str(root / name) for name in kept) or str(root)


def _name(number: int) -> str:
    return LOG_DIRECTORY + SUFFIX + ("" if number == 1 else f"-{number}")
