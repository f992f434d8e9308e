"""What the images are made of: the source tree, and a hash over it. No other I/O than reading."""

import hashlib
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from kraftquorum_devcluster.errors import ImageError

INPUTS = (
    ".dockerignore",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "operator",
    "pyproject.toml",
    "raftnode",
    "requirements/build.txt",
    "requirements/node.txt",
    "requirements/operator.txt",
    "tools/collect_runtime.py",
)
"""Files and folders that the build reads; a test holds them against the Dockerfile."""

PIPELINE_INPUTS = (
    *INPUTS,
    "pipeline",
    "requirements/java.txt",
    "requirements/pipeline.txt",
    "tools/pipeline_main.py",
    "tools/spark_submit.py",
)
"""Likewise for the pipeline's image."""

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def source_root() -> Path:
    """The source tree that this package runs from.

    Raises:
        ImageError: It was installed without one.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / "Dockerfile").is_file():
        raise ImageError("find the sources", f"{root} has no Dockerfile; run it from a checkout")
    return root


def checkout_name(root: Path) -> str:
    """A name for a source tree that no other one on this machine has: its folder's, and a hash."""
    return f"{root.name}-{hashlib.sha256(str(root).encode()).hexdigest()[:6]}"


def check_tag(tag: str) -> None:
    """Pass what can be the tag of an image.

    Raises:
        ImageError: It cannot.
    """
    if not _TAG.fullmatch(tag):
        raise ImageError(
            "read the tag", f"{tag!r} is none: letters, digits, `_`, `.` and `-`, at most 128"
        )


def input_files(root: Path, inputs: Sequence[str] = INPUTS) -> list[Path]:
    """Every file that goes into the images, sorted.

    Raises:
        ImageError: One of `inputs` is missing.
    """
    files: list[Path] = []
    for name in inputs:
        path = root / name
        if path.is_dir():
            files += [
                file
                for file in path.rglob("*")
                if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc"
            ]
        elif path.is_file():
            files.append(path)
        else:
            raise ImageError("read the sources", f"{path} is missing")
    return sorted(files)


def content_hash(root: Path, *parts: str, inputs: Sequence[str] = INPUTS) -> str:
    """A hash over all that decides what is built, and over what the caller adds."""
    digest = hashlib.sha256()

    def add(text: bytes) -> None:
        digest.update(len(text).to_bytes(8, "big") + text)

    for part in (platform.machine(), *parts):
        add(part.encode())
    for path in input_files(root, inputs):
        add(str(path.relative_to(root)).encode())
        add(path.read_bytes())
    return digest.hexdigest()
