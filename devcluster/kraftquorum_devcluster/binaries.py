"""The programs of the control plane: found in the cache, or built into it."""

from pathlib import Path

from .paths import binaries_dir


def ensure_binaries() -> Path:
    """Return the directory of finished programs."""
    return binaries_dir()
