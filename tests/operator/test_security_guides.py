"""The commands of the pages on access, TLS and metrics, run as a reader runs them, on real nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from guidelib.pages import ROOT
from guidelib.reader import ClusterReader
from kraftquorum_devcluster import DevCluster
from proofkit.loopback import LoopbackNetwork

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

BASE = ROOT / "deploy" / "kustomize" / "base" / "operator.yaml"
READERS = "kraftquorum-metrics-reader"

Open = Callable[[str], ClusterReader]


@pytest.fixture
def open_page(krq, tmp_path: Path, network: LoopbackNetwork) -> Open:
    """Opens a how-to for a reader of the test's namespace."""

    def open_page(page: str) -> ClusterReader:
        place = {"forwarded": network.host(1), "operator": network.host(2)}
        return ClusterReader(f"howto/{page}", tmp_path, krq.cluster, krq.namespace, **place)

    return open_page


@pytest.fixture
def readers_role(devcluster: DevCluster) -> Iterator[None]:
    """The role that an installation has for readers of the metrics."""
    bodies = yaml.safe_load_all(BASE.read_text())
    [role] = [body for body in bodies if body["metadata"]["name"] == READERS]
    devcluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(role))
    yield
    devcluster.kubectl("delete", "clusterrole", READERS)
    devcluster.kubectl("delete", "clusterrolebinding", "reader", "--ignore-not-found")


def test_an_application_gets_access_as_the_page_says(krq, operators, open_page: Open) -> None:
    operators.start()
    krq.apply(voters=1, tls=None)
    krq.ready(1)
    reader = open_page("give-an-application-access.md")
    reader.run("token")
    reader.save("access", "access.yaml")
    reader.run("patch")
    reader.until_shows("check")
    reader.run("allowed")
    reader.run("refused", fails=True)
    reader.run("remove")
    assert not (reader.folder / "token").exists()


def test_a_new_quorum_has_tls_as_the_page_says(krq, operators, open_page: Open) -> None:
    operators.start()
    reader = open_page("tls.md")
    reader.save("resource", "demo.yaml")
    reader.run("apply")
    reader.run("connect")


def test_a_serving_quorum_gets_tls_as_the_page_says(krq, operators, open_page: Open) -> None:
    operators.start()
    krq.apply(voters=1)
    krq.ready(1)
    reader = open_page("tls.md")
    for step in ("both", "required"):
        reader.run(step)
        reader.run("connect")
    assert not reader.run("waiting").splitlines()[0]


def test_the_metrics_are_locked_down_as_the_page_says(
    krq, operators, open_page: Open, network: LoopbackNetwork, readers_role: None
) -> None:
    operators.start(metrics_access="authenticated", metrics_host=network.host(2), metrics_port=8080)
    krq.apply(voters=1, tls=None)
    krq.ready(1)
    reader = open_page("lock-down-metrics.md")
    reader.run("account")
    reader.run("read")
    reader.run("stranger")
    reader.run("remove")
    reader.run("separate")
    reader.run("scrape")
