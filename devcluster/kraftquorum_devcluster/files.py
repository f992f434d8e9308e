"""Small helpers for files that others read while we write them."""

import contextlib
import os
import shutil
import stat
import uuid
from pathlib import Path


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace ``path`` in one step: a reader sees the old text or the new."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
        ) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_link(link: Path, target: Path) -> None:
    """Point the symbolic link at ``target`` in one step."""
    temporary = link.with_name(f".{link.name}.{uuid.uuid4().hex}")
    temporary.symlink_to(target)
    temporary.rename(link)


def remove_tree(path: Path) -> None:
    """Delete a directory with all in it, even where write permission was taken away."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    for directory, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            Path(directory).chmod(stat.S_IRWXU)
    shutil.rmtree(path)
