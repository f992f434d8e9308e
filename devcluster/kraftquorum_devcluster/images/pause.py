"""The image of a pod's sandbox: one static program on an empty file system."""

import io
import os
import subprocess
import tarfile
import tempfile
from importlib import resources
from pathlib import Path

from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.progress import BuildProgress
from kraftquorum_devcluster.toolchain import find_go, install_go

from .engine import Engine

PAUSE = "kraftquorum.local/pause:1"
_SOURCE = "pause/main.go"


def pause_source() -> str:
    """The program's text."""
    return resources.files(__package__ or "").joinpath(_SOURCE).read_text(encoding="utf-8")


def build_pause(engine: Engine, cache: Path, progress: BuildProgress) -> None:
    """Compile the program and make its image.

    Raises:
        BuildError: There is no Go, and none to be had.
        ImageError: It could not be compiled or imported.
    """
    toolchain = cache / "devcluster" / "toolchain"
    go = find_go(toolchain) or install_go(toolchain, progress)
    progress.step("compiling the sandbox's program")
    work = Path(tempfile.mkdtemp(prefix="pause-", dir=cache))
    try:
        (work / "main.go").write_text(pause_source(), encoding="utf-8")
        fixed = {
            "CGO_ENABLED": "0",
            "GO111MODULE": "off",
            "GOCACHE": str(work / "go-cache"),
            "GOFLAGS": "",
            "GOTOOLCHAIN": "local",
        }
        done = subprocess.run(
            [str(go), "build", "-trimpath", "-ldflags=-s -w", "-o", "pause", "main.go"],
            cwd=work,
            env={**os.environ, **fixed},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ImageError("compile the sandbox's program", done.stderr.strip())
        engine.import_root(
            _archive((work / "pause").read_bytes()),
            PAUSE,
            'ENTRYPOINT ["/pause"]',
            "USER 65535:65535",
        )
    finally:
        remove_tree(work)


def _archive(program: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("pause")
        entry.size, entry.mode = len(program), 0o755
        archive.addfile(entry, io.BytesIO(program))
    return buffer.getvalue()
