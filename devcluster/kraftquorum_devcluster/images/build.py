"""Builds the images, and writes the archives that a container runtime imports."""

import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.files import remove_tree, write_atomically
from kraftquorum_devcluster.paths import cache_root
from kraftquorum_devcluster.progress import BuildProgress, make_progress

from .base import ensure_base
from .engine import Engine, engine
from .inputs import (
    INPUTS,
    PIPELINE_INPUTS,
    check_tag,
    checkout_name,
    content_hash,
    source_root,
)
from .pause import PAUSE, build_pause, pause_source
from .secrets import build_secrets, read_pip_settings

REGISTRY = "ghcr.io/kraftquorum"
TARGETS = ("node", "operator")
PIPELINE = "pipeline"
_PAUSE = "pause-1"


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Images of one tag, as archives in the form of `docker save`.

    Attributes:
        node: Name of the node's image.
        operator: Name of the operator's.
        pause: Name of the sandbox's.
        archives: One file each, to be read by `ctr -n k8s.io images import`.
        sizes: Bytes of each image's layers, unpacked, by name.
    """

    node: str
    operator: str
    pause: str
    archives: tuple[Path, ...]
    sizes: dict[str, int]


@dataclass(frozen=True, slots=True)
class PipelineImage:
    """The image with Spark.

    Attributes:
        name: Of the image.
        archive: As an `ImageSet` has them.
        size: Bytes of its layers, unpacked.
    """

    name: str
    archive: Path
    size: int


def build_images(
    tag: str,
    *,
    cache: Path | None = None,
    progress: BuildProgress | None = None,
    base: str | None = None,
    install: bool = False,
) -> ImageSet:
    """Build the node's and the operator's image; takes milliseconds when nothing has changed.

    The tag is also the images' version label, so that two tags of the same
    sources are two images. A first build takes two to four minutes.

    Args:
        tag: What comes after the colon.
        cache: The cache's root; None: the usual one.
        progress: Is called with what is done; None: shown on standard error.
        base: The Debian image to build from; None: the public one or its stand-in.
        install: Whether missing Debian packages may be installed.

    Raises:
        ImageError: Naming the step that failed and what to do.
    """
    plan = _make_plan(tag, cache, base, (*TARGETS, _PAUSE), INPUTS)
    sizes = _finish(plan, progress, base, install=install)
    names = list(sizes)
    archives = tuple(plan.archive(name) for name in plan.names)
    return ImageSet(names[0], names[1], names[2], archives, sizes)


def build_pipeline(
    tag: str,
    *,
    cache: Path | None = None,
    progress: BuildProgress | None = None,
    base: str | None = None,
    install: bool = False,
) -> PipelineImage:
    """Build the image with Spark under a tag; arguments and errors are those of `build_images`."""
    plan = _make_plan(tag, cache, base, (PIPELINE,), PIPELINE_INPUTS)
    ((name, size),) = _finish(plan, progress, base, install=install).items()
    return PipelineImage(name, plan.archive(f"{PIPELINE}-{tag}"), size)


@dataclass(frozen=True, slots=True)
class _Plan:
    cache: Path
    root: Path
    tag: str
    key: str
    images: tuple[str, ...]

    @property
    def directory(self) -> Path:
        return self.cache / "images"

    @property
    def own_directory(self) -> Path:
        """For images of these sources: another checkout builds others under the same tag."""
        return self.directory / checkout_name(self.root)

    @property
    def names(self) -> dict[str, str]:
        """The archives' names, and of which image each is."""
        return {
            name if name == _PAUSE else f"{name}-{self.tag}": self.image(name)
            for name in self.images
        }

    @property
    def targets(self) -> tuple[str, ...]:
        """The Dockerfile's targets among the images."""
        return tuple(name for name in self.images if name != _PAUSE)

    def image(self, name: str) -> str:
        return PAUSE if name == _PAUSE else f"{REGISTRY}/{name}:{self.tag}"

    def archive(self, name: str) -> Path:
        directory = self.directory if name == _PAUSE else self.own_directory
        return directory / f"{name}.tar"

    def size(self, name: str) -> int | None:
        """Bytes of an image, if its archive is there and made of what the sources are now."""
        try:
            note = json.loads(self.archive(name).with_suffix(".json").read_bytes())
            current = note["key"] == self.key_of(name) and self.archive(name).is_file()
            return int(note["size_bytes"]) if current else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def finished(self) -> dict[str, int] | None:
        """The sizes by image, if all of it is there."""
        sizes: dict[str, int] = {}
        for name, image in self.names.items():
            if (size := self.size(name)) is None:
                return None
            sizes[image] = size
        return sizes

    def key_of(self, name: str) -> str:
        return self.key if name != _PAUSE else pause_source()


def _make_plan(
    tag: str, cache: Path | None, base: str | None, images: Sequence[str], inputs: Sequence[str]
) -> _Plan:
    check_tag(tag)
    root = source_root()
    key = content_hash(root, tag, base or "", pause_source(), inputs=inputs)
    return _Plan(cache or cache_root(), root, tag, key, tuple(images))


def _finish(
    plan: _Plan, progress: BuildProgress | None, base: str | None, *, install: bool
) -> dict[str, int]:
    """Build what a plan lacks; returns the images' sizes."""
    if (sizes := plan.finished()) is not None:
        return sizes
    with progress or make_progress() as shown, _lock(plan.cache, shown):
        if (sizes := plan.finished()) is None:
            with engine(plan.cache, shown, install=install) as docker:
                _build(plan, docker, base, shown)
            sizes = plan.finished()
    if sizes is None:
        raise ImageError("write the archives", f"they vanished from {plan.directory}")
    return sizes


@contextlib.contextmanager
def _lock(cache: Path, progress: BuildProgress) -> Generator[None]:
    directory = cache / "images"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "build.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise ImageError("open the cache", f"{error}. KRAFTQUORUM_CACHE names another.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("another build of images is under way, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(plan: _Plan, docker: Engine, base: str | None, progress: BuildProgress) -> None:
    chosen = ensure_base(docker, plan.cache, progress, base)
    private = Path(tempfile.mkdtemp(prefix="kraftquorum-build-"))
    try:
        secrets = build_secrets(read_pip_settings(), os.environ, private)
        for target in plan.targets:
            progress.step(f"building the image of the {target}")
            docker.build(_arguments(plan, target, plan.image(target), chosen, secrets), progress)
    finally:
        remove_tree(private)
    stale = {name: image for name, image in plan.names.items() if plan.size(name) is None}
    if _PAUSE in stale:
        build_pause(docker, plan.cache, progress)
    progress.step("writing the archives", len(stale))
    plan.own_directory.mkdir(exist_ok=True)
    for name, image in stale.items():
        _save(docker, image, plan.archive(name), plan.key_of(name))
        progress.advance()
    if docker.private:  # what an earlier build of this tag was
        docker.ask("image", "prune", "--force", timeout_s=600)


def _arguments(
    plan: _Plan, target: str, image: str, base: str, secrets: dict[str, Path]
) -> list[str]:
    values = {"BASE": base, "VERSION": plan.tag, "REVISION": revision(plan.root)}
    return [
        *["--target", target, "--tag", image],
        *[word for key, value in values.items() for word in ("--build-arg", f"{key}={value}")],
        *[word for key, path in secrets.items() for word in ("--secret", f"id={key},src={path}")],
        str(plan.root),
    ]


def _save(docker: Engine, image: str, archive: Path, key: str) -> None:
    note = archive.with_suffix(".json")
    note.unlink(missing_ok=True)
    partial = archive.with_suffix(".tar.partial")
    docker.ask("save", "--output", str(partial), image, timeout_s=600)
    partial.rename(archive)
    identity, size = docker.ask("image", "inspect", "--format", "{{.Id}} {{.Size}}", image).split()
    written = {"image": image, "id": identity, "size_bytes": int(size), "key": key}
    write_atomically(note, json.dumps(written, indent=2) + "\n")


def revision(root: Path) -> str:
    """The commit that the sources are at, `-dirty` behind it if they differ; else `unknown`."""
    command = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"
