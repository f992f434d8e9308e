"""The images as built, and an engine to run them; skipped where neither can be had."""

import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraftquorum_devcluster.images import ImageSet, PipelineImage, build_images, build_pipeline
from kraftquorum_devcluster.images.engine import (
    Engine,
    engine,
    missing_packages_hint,
    running_engine,
)
from kraftquorum_devcluster.images.inputs import source_root
from kraftquorum_devcluster.paths import cache_root
from kraftquorum_devcluster.progress import make_progress

TAG = os.environ.get("KRAFTQUORUM_IMAGE_TAG", "e2e")

RESTRICTED = (
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--network=host",
)
"""What the pod security standard "restricted" and the StatefulSet ask for."""


PACKAGES_OF_THIS_TREE = {
    path.parent.name
    for pattern in ("*/*/__init__.py", "tests/lib/*/__init__.py")
    for path in source_root().glob(pattern)
}


class Archive:
    """An image in the form of `docker save`."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as outer:
            (manifest,) = json.load(outer.extractfile("manifest.json"))
            self.names = manifest["RepoTags"]
            self.document = json.load(outer.extractfile(manifest["Config"]))
            self.members = {}
            self.texts = {}
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=outer.extractfile(layer)) as inner:
                    for member in inner:
                        self.members[member.name.rstrip("/")] = member
                        if member.isfile() and member.size < 100_000:
                            self.texts[member.name] = inner.extractfile(member).read()
        self.config = self.document["config"]

    @property
    def packages_of_this_tree(self) -> set[str]:
        """Those of the product and of what proves, shows and develops it, wherever they lie."""
        folders = {part for name in self.members for part in name.split("/")[:-1]}
        return folders & PACKAGES_OF_THIS_TREE


@dataclass
class Docker:
    """Runs containers as the StatefulSet's pods run, and removes them."""

    engine: Engine
    images: ImageSet

    def ask(self, *arguments: str) -> str:
        return self.engine.ask(*arguments)

    def run(self, *arguments: str, image: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.engine.program), "run", "--rm", *RESTRICTED, image, *arguments],
            env=self.engine.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *options: str, image: str, arguments: tuple[str, ...] = ()) -> str:
        return self.ask("run", "--detach", *RESTRICTED, *options, image, *arguments)


@pytest.fixture(scope="session")
def read_archive() -> Callable[[Path], Archive]:
    """Tests cannot import this module."""
    return Archive


@pytest.fixture(scope="session")
def images() -> ImageSet:
    if running_engine() is None and (os.geteuid() != 0 or missing_packages_hint() is not None):
        pytest.skip("no Docker engine, and none can be started: see `devcluster image build`")
    return build_images(TAG)


@pytest.fixture(scope="session")
def pipeline_image(images: ImageSet) -> PipelineImage:
    return build_pipeline(images.node.rpartition(":")[2])


@pytest.fixture(scope="session")
def docker(images: ImageSet, pipeline_image: PipelineImage) -> Iterator[Docker]:
    # Both are built by now: while this engine runs no other one can.
    with engine(cache_root(), make_progress(), install=False) as running:
        for archive in images.archives:
            running.ask("load", "--quiet", "--input", str(archive), timeout_s=300)
        yield Docker(running, images)


@pytest.fixture(scope="session")
def figures(
    images: ImageSet, pipeline_image: PipelineImage, pytestconfig: pytest.Config
) -> Iterator[dict[str, float]]:
    """Seconds that the tests measure; written with the sizes to build/image-figures.json."""
    seconds: dict[str, float] = {}
    yield seconds
    path = pytestconfig.rootpath / "build" / "image-figures.json"
    path.parent.mkdir(exist_ok=True)
    sizes = images.sizes | {pipeline_image.name: pipeline_image.size}
    path.write_text(json.dumps({"seconds": seconds, "bytes": sizes}, indent=2) + "\n")


@pytest.fixture
def containers(docker: Docker) -> Iterator[list[str]]:
    """Containers that the test starts; removed at its end."""
    started: list[str] = []
    yield started
    for name in started:
        docker.ask("rm", "--force", name)
