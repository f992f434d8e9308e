"""pytest fixtures: one cluster for the session, a fresh namespace for each test.

Register with ``pytest_plugins = ["kraftquorum_devcluster.pytest_plugin"]``.
``KRAFTQUORUM_TEST_CLUSTER`` names the state directory of a cluster that is
already up, which is then used and left alone; ``KRAFTQUORUM_REAL_CLUSTER`` the
same for one with kubelets.
"""

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import DevCluster
from .images import build_images
from .realcluster import RealCluster


@pytest.fixture(scope="session")
def devcluster() -> Iterator[DevCluster]:
    """A running cluster, shared by all tests of the session."""
    if existing := os.environ.get("KRAFTQUORUM_TEST_CLUSTER"):
        yield DevCluster(Path(existing), keep_data=True).attach()
        return
    with DevCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def realcluster() -> Iterator[RealCluster]:
    """A running cluster with three kubelets and the project's images of tag ``e2e``."""
    if existing := os.environ.get("KRAFTQUORUM_REAL_CLUSTER"):
        yield RealCluster(Path(existing), keep_data=True).attach()
        return
    images = build_images("e2e", install=True)
    with RealCluster(images=images.archives) as cluster:
        yield cluster


@pytest.fixture
def namespace(devcluster: DevCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace named after the test; deleted afterwards without waiting."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40]
    name = f"{test.strip('-')}-{uuid.uuid4().hex[:6]}"
    devcluster.kubectl("create", "namespace", name)
    yield name
    devcluster.kubectl("delete", "namespace", name, "--wait=false")
