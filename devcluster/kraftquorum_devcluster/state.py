"""Files of a state directory by which a supervisor and its users know each other."""

import dataclasses
import fcntl
import os
from pathlib import Path
from typing import TextIO

from .errors import AlreadyRunningError

LOCK = "lock"
READY = "cluster.json"
FAILED = "failed.txt"


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What ``cluster.json`` says.

    Attributes:
        kubelet_url: Of the process node, "" if there is none.
        nodes: First process of each node that has a kubelet, by its name.
    """

    pid: int
    server_url: str
    kubelet_url: str
    token: str
    subnet: int
    ready_after_s: float
    nodes: dict[str, int] = dataclasses.field(default_factory=dict[str, int])


def programs_dir(state_dir: Path) -> Path:
    """Folder of programs that pods find before those of this Python's environment."""
    return state_dir / "programs"


def take_lock(state_dir: Path) -> TextIO:
    """Hold the state directory for this process's life.

    Raises:
        AlreadyRunningError: Another supervisor holds it.
    """
    lock = (state_dir / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise AlreadyRunningError(f"a cluster is already up in {state_dir}") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def supervisor_pid(state_dir: Path) -> int | None:
    """Process id of the living supervisor, None if there is none."""
    if not is_locked(state_dir):
        return None
    text = (state_dir / LOCK).read_text(encoding="utf-8")
    return int(text) if text.isdigit() else None


def is_locked(state_dir: Path) -> bool:
    """Whether a living supervisor holds the state directory."""
    path = state_dir / LOCK
    if not path.exists():
        return False
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
