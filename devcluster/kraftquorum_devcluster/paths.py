"""Where devcluster keeps what it makes; no I/O but creating directories."""

import os
from pathlib import Path

from .versions import CONTROL_PLANE, ProgramSet


def cache_root() -> Path:
    """The cache outside the repository: compiled programs and toolchains.

    ``KRAFTQUORUM_CACHE`` wins over ``XDG_CACHE_HOME`` over ``~/.cache``.
    """
    if explicit := os.environ.get("KRAFTQUORUM_CACHE"):
        return Path(explicit).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "kraftquorum"


def binaries_dir(wanted: ProgramSet = CONTROL_PLANE) -> Path:
    """The directory of finished programs for the pinned versions."""
    return cache_root() / "devcluster" / "bin" / wanted.key


def default_state_dir() -> Path:
    """The state directory of ``devcluster up`` when none is named."""
    if explicit := os.environ.get("KRAFTQUORUM_DEVCLUSTER_STATE"):
        return Path(explicit).absolute()
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base).absolute() / "kraftquorum" / "devcluster"


def private_dir(path: Path) -> Path:
    """Create ``path`` for its owner only and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
