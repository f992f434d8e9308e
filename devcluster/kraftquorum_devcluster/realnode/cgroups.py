"""The cluster's cgroups: one parent in each hierarchy, removed when nothing runs in it."""

import contextlib
import hashlib
import os
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_WAIT_S = 10.0


def cgroup_name(state_dir: Path) -> str:
    """Name of the cluster's parent, the same each time for the same state directory."""
    return f"kraftquorum-{hashlib.sha256(str(state_dir).encode()).hexdigest()[:10]}"


def left_cgroups(state_dir: Path) -> list[Path]:
    """The cluster's parents that are there, in whichever hierarchy."""
    name = cgroup_name(state_dir)
    return [path for path in (_ROOT / name, *_ROOT.glob(f"*/{name}")) if path.is_dir()]


def remove_cgroups(state_dir: Path) -> None:
    """Remove the cluster's cgroups. Duty of the caller: end its processes first.

    Raises:
        OSError: A cgroup is still in use after some seconds.
    """
    deadline = time.monotonic() + _WAIT_S
    for parent in left_cgroups(state_dir):
        while parent.is_dir():
            try:
                for directory, _, _ in os.walk(parent, topdown=False):
                    with contextlib.suppress(FileNotFoundError):
                        Path(directory).rmdir()
            except OSError:  # the kernel is not through with its last process
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
