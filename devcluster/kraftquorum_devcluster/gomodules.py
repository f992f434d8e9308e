"""Files of a Go module, such as the CRDs that a project ships in it, by a pinned hash."""

import contextlib
import json
import os
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import DownloadError
from .files import remove_tree
from .paths import cache_root
from .progress import BuildProgress
from .toolchain import find_go, install_go


@dataclass(frozen=True)
class GoModule:
    """A module in one version.

    Attributes:
        path: As in an import.
        version: With its `v`.
        sum: Its hash, as in a go.sum.
        go_version_min: The oldest Go that reads it; None: any that builds the control plane.
    """

    path: str
    version: str
    sum: str
    go_version_min: tuple[int, int] | None = None


@contextlib.contextmanager
def downloaded_module(
    module: GoModule, directory: Path, progress: BuildProgress, step: str
) -> Generator[Path]:
    """The folder of a module's files; it is removed at the end.

    Args:
        module: What to download.
        directory: Where to put it.
        progress: Shows the step.
        step: What is downloaded, for people and errors.

    Raises:
        DownloadError: It cannot be had, or has another hash.
        ToolchainError: There is no Go, and none can be installed.
    """
    toolchain = cache_root() / "devcluster" / "toolchain"
    go = find_go(toolchain, module.go_version_min) or install_go(toolchain, progress)
    modules = directory / "mod"
    progress.step(step)
    done = subprocess.run(
        [str(go), "mod", "download", "-json", f"{module.path}@{module.version}"],
        cwd=directory,
        env={
            **os.environ,
            "GOFLAGS": "-modcacherw",
            "GOMODCACHE": str(modules),
            "GOPATH": str(directory / "path"),
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise DownloadError(step, "\n".join((done.stderr + done.stdout).splitlines()[-5:]))
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer["Sum"] != module.sum:
        raise DownloadError(step, f"its hash is {answer['Sum']}, not {module.sum}")
    yield Path(answer["Dir"])
    remove_tree(modules)
