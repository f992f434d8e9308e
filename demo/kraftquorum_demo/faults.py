"""What the demo breaks: a process by SIGKILL, a disk by deleting what is on it."""

import os
import shutil
import signal
import time
from pathlib import Path

from .errors import DemoError

_PASSES = 5


def kill(pid: int) -> None:
    """End a process without warning."""
    os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended but was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(") ")[2][:1] not in {"Z", "X"}


def wipe(volume: Path) -> int:
    """Delete everything on a volume while the process that uses it goes on (S4).

    Returns:
        How many entries of the volume's root were deleted.

    Raises:
        DemoError: Something could not be deleted.
    """
    deleted = 0
    for _ in range(_PASSES):  # the node may make a file while we delete
        entries = list(volume.iterdir())
        if not entries:
            return deleted
        deleted += len(entries)
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        time.sleep(0.005)
    left = ", ".join(entry.name for entry in volume.iterdir())
    if left:
        raise DemoError(f"{volume} could not be emptied: {left}")
    return deleted
