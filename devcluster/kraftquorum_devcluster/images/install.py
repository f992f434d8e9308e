"""Installs what a private Docker engine needs, on Debian and where that is allowed."""

import os
import shutil
import subprocess

from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.progress import BuildProgress

_STEP = "install a Docker engine"
_ALWAYS = ("docker.io", "debootstrap")
_WHERE_SPLIT = ("docker-cli", "docker-buildx")
"""Part of docker.io in older releases of Debian."""


def install_command() -> list[str]:
    """What installs the packages that this machine's release has them in."""
    known = [name for name in _WHERE_SPLIT if _is_known(name)]
    return ["apt-get", "install", "--yes", "--no-install-recommends", *_ALWAYS, *known]


def install_engine(progress: BuildProgress, *, allowed: bool) -> None:
    """Install docker.io and debootstrap.

    Raises:
        ImageError: Not allowed, no apt, or it failed; the message has the command to run.
    """
    if shutil.which("apt-get") is None:
        raise ImageError(
            _STEP, "no Docker engine answers, and there is no apt-get here: install Docker"
        )
    if not allowed:
        raise ImageError(
            _STEP,
            "no Docker engine answers. Let this install one (--install), or run\n    "
            + " ".join(install_command()),
        )
    progress.step("installing docker.io and debootstrap with apt-get")
    _apt(["apt-get", "update"])
    _apt(install_command())


def _is_known(package: str) -> bool:
    command = ["apt-cache", "show", "--quiet=2", package]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _apt(command: list[str]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        umask=0o022,
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-4:])
        raise ImageError(_STEP, f"`{' '.join(command)}` failed:\n{said}")
