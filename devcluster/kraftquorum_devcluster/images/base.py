"""The Debian image that the images are collected from.

The public one where a registry can be reached; else one of the same release,
made by debootstrap from Debian's packages and kept in the cache. The stand-in
has a name of its own, so that it is not mistaken for the public image.
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.progress import BuildProgress

from .engine import Engine

PUBLIC = "debian:trixie-slim"
STAND_IN = "kraftquorum.local/debian:trixie"
RELEASE = "trixie"
_PACKAGES = "python3,python3-venv,ca-certificates"
_PULL_TIMEOUT_S = 300
_UNUSED = ("var/cache/apt/archives", "var/lib/apt/lists", "var/log")


def ensure_base(engine: Engine, cache: Path, progress: BuildProgress, name: str | None) -> str:
    """Have a base in the engine, and return its name.

    Args:
        engine: Where to.
        cache: The cache's root.
        progress: Is called with what is done.
        name: The base to take; None: the public one, or the stand-in for it.

    Raises:
        ImageError: There is none, and none can be made.
    """
    wanted = name or PUBLIC
    if engine.has(wanted):
        return wanted
    progress.step(f"pulling {wanted}")
    problem = engine.pull(wanted, _PULL_TIMEOUT_S)
    if problem is None:
        return wanted
    if name is not None:
        raise ImageError(f"pull the base {name}", problem)
    progress.note(f"{PUBLIC} cannot be pulled ({problem}); using {STAND_IN} in its place")
    if not engine.has(STAND_IN):
        archive = stand_in_archive(cache)
        if not archive.is_file():
            make_stand_in(archive, progress)
        engine.import_root(archive, STAND_IN)
    return STAND_IN


def stand_in_archive(cache: Path) -> Path:
    """Where the stand-in's root file system is kept."""
    return cache / "images" / f"base-{RELEASE}-{platform.machine()}.tar"


def make_stand_in(archive: Path, progress: BuildProgress) -> None:
    """Make the stand-in's root file system: one to two minutes, 160 MB.

    Raises:
        ImageError: Not root, no debootstrap, or Debian's packages cannot be reached.
    """
    step = f"make a Debian {RELEASE} with debootstrap"
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise ImageError(step, "there is no debootstrap; on Debian: apt-get install debootstrap")
    if os.geteuid() != 0:
        raise ImageError(step, "this needs root; or name a base that you have with --base")
    progress.step(f"making a Debian {RELEASE} from its packages (one to two minutes)")
    archive.parent.mkdir(parents=True, exist_ok=True)
    root = archive.with_suffix(".partial")
    remove_tree(root)
    mirror = os.environ.get("KRAFTQUORUM_DEBIAN_MIRROR")
    try:
        done = subprocess.run(
            [
                # What it mounts is gone with it, whatever happens: the tree is removed below.
                *["unshare", "--mount", "--propagation", "private"],
                *[program, "--variant=minbase", f"--include={_PACKAGES}", RELEASE, str(root)],
                *([mirror] if mirror else []),
            ],
            capture_output=True,
            text=True,
            check=False,
            umask=0o022,  # it copies what it is given into every directory that it makes
        )
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
            raise ImageError(step, f"{said}\nKRAFTQUORUM_DEBIAN_MIRROR names another mirror.")
        for name in _UNUSED:
            remove_tree(root / name)
        _pack(root, archive)
    finally:
        remove_tree(root)


def _pack(root: Path, archive: Path) -> None:
    partial = archive.with_suffix(".tar.partial")
    command = ["tar", "--numeric-owner", "-C", str(root), "-cf", str(partial), "."]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        partial.unlink(missing_ok=True)
        raise ImageError("pack the Debian", done.stderr.strip())
    partial.rename(archive)
