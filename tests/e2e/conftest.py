"""The cluster, the release, and a case: its quorum, its writers, its figures."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2elib import evidence
from e2elib.cluster import (
    Choice,
    E2eCluster,
    NotHereError,
    OwnCluster,
    Tags,
    choose,
    current_cluster,
)
from e2elib.figures import Figures, Report
from e2elib.quorum import Quorum
from kraftquorum_demo.background import BackgroundWriters
from kraftquorum_demo.plan import SHORT
from kraftquorum_demo.report import machine
from kraftquorum_devcluster import chart
from kraftquorum_devcluster.external import kind_load, kind_up
from kraftquorum_devcluster.images import ImageSet, build_images
from kraftquorum_devcluster.paths import default_state_dir
from proofkit.certificates import replace_file
from raftnode.client import Credentials
from raftnode.client.credentials import NO_CREDENTIALS

ORDER = (
    "tutorial",
    "lifecycle",
    "neighbours",
    "security",
    "assigned_users",
    "pods",
    "disks",
    "volumes",
    "upgrades",
    "operator",
    "bad_input",
    "uninstall",
)
"""Modules in the order of the table; the last one takes the operator away."""

QUIET_S = 1.0
"""How long the writers go on undisturbed before and after what happens."""
FOLDER = Path("build") / "e2e"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ours = [item for item in items if item.path.parent == here]
    ours.sort(key=lambda item: ORDER.index(item.path.stem.removeprefix("test_")))
    for item in ours:
        item.add_marker(pytest.mark.e2e)
        # Not of the first one's cluster and images, which may have to be built.
        item.add_marker(pytest.mark.timeout(600, func_only=True))
    items[:] = [*ours, *(item for item in items if item.path.parent != here)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.when == "call" or (report.when == "setup" and not report.passed):
        item.stash[OUTCOME] = report
    return report


OUTCOME: pytest.StashKey[pytest.TestReport] = pytest.StashKey()


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Iterator[Report]:
    """The report of this run."""
    began = time.monotonic()
    partly = bool(pytestconfig.option.keyword) or any("::" in word for word in pytestconfig.args)
    found = Report(pytestconfig.rootpath / FOLDER / "report.json", partly=partly)
    yield found
    found.took("all", time.monotonic() - began)
    found.facts["machine"] = machine()
    found.write()


@pytest.fixture(scope="session")
def e2e_cluster(request: pytest.FixtureRequest, report: Report) -> Iterator[E2eCluster]:
    """The cluster, with both tags of the images on it."""
    began = time.monotonic()
    tags = Tags(
        now=os.environ.get("E2E_TAG", "e2e"),
        next=os.environ.get("E2E_NEXT_TAG", "e2e-next"),
        registry=os.environ.get("E2E_REGISTRY", Tags().registry),
    )
    choice = choose()
    if choice is Choice.CURRENT:
        place = current_cluster(tags)
    else:
        images = [build_images(tag, install=True) for tag in (tags.now, tags.next)]
        report.took("images", time.monotonic() - began)
        began = time.monotonic()
        report.facts["images"] = dict(images[0].sizes)
        place = _started(request, choice, tags, images)
    report.took("cluster", time.monotonic() - began)
    with place:
        report.facts["cluster"] = {"title": place.title, "version": place.version()}
        yield place


def _started(
    request: pytest.FixtureRequest, choice: Choice, tags: Tags, images: list[ImageSet]
) -> E2eCluster:
    archives = [path for found in images for path in found.archives if "pause" not in path.name]
    if choice is Choice.KIND:
        kubeconfig = kind_up(default_state_dir(), workers=3)
        for archive in archives:
            kind_load(archive)
        return E2eCluster(kubeconfig, tags, "kind, 3 workers")
    cluster = request.getfixturevalue("realcluster")
    cluster.import_images(archives)
    return OwnCluster(cluster, tags)


class Release:
    """The operator, as Helm installs it."""

    NAMESPACE = chart.NAMESPACE

    def __init__(self, e2e_cluster: E2eCluster) -> None:
        self._e2e_cluster = e2e_cluster

    def helm(self, *arguments: str) -> str:
        place = f"--namespace={self.NAMESPACE}"
        return chart.helm(*arguments, place, kubeconfig=self._e2e_cluster.kubeconfig)

    def install(self, operator_tag: str | None = None) -> None:
        """Install or upgrade, and wait until the operator is ready. Nodes keep their image."""
        tags = self._e2e_cluster.tags
        values = {
            "image.repository": tags.image("operator", tags.now).rpartition(":")[0],
            "image.tag": operator_tag or tags.now,
            "nodeImage.repository": tags.image("node", tags.now).rpartition(":")[0],
            "nodeImage.tag": tags.now,
        }
        settings = [f"--set={name}={value}" for name, value in values.items()]
        self.helm(
            *["upgrade", "--install", chart.RELEASE, str(chart.CHART), "--create-namespace"],
            *[*settings, "--wait", "--timeout=150s"],
        )

    def ensure(self) -> None:
        """Install it if a case before took it away, or left it as it should not be."""
        found = self._e2e_cluster.api.one("deployments", chart.RELEASE, self.NAMESPACE)
        image = self._e2e_cluster.tags.image("operator", self._e2e_cluster.tags.now)
        if found is not None:
            status = found["status"]
            current = found["spec"]["template"]["spec"]["containers"][0]["image"] == image
            if current and status.get("readyReplicas", 0) == status.get("replicas", 0) > 0:
                return
        self.install()

    def restart(self) -> None:
        """Let the operator's pods be recreated."""
        place = ("--namespace", self.NAMESPACE)
        deployment = f"deployment/{chart.RELEASE}"
        self._e2e_cluster.kubectl(*place, "rollout", "restart", deployment)
        self._e2e_cluster.kubectl(*place, "rollout", "status", deployment, "--timeout=100s")

    def uninstall(self) -> None:
        self.helm("uninstall", chart.RELEASE, "--wait")

    def pods(self) -> dict[str, str]:
        """The operators' pods with their UIDs."""
        return {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in self._e2e_cluster.api.all("pods", self.NAMESPACE)
        }


@pytest.fixture(scope="session")
def release(e2e_cluster: E2eCluster, report: Report) -> Release:
    """The operator, installed."""
    began = time.monotonic()
    found = Release(e2e_cluster)
    before = set(found.pods())
    found.install()
    if before & set(found.pods()):  # of an earlier run, and perhaps of an earlier image
        found.restart()
    report.took("install", time.monotonic() - began)
    return found


class Writing:
    """Clients that write to one quorum all along."""

    def __init__(self, case: Case, quorum: Quorum, credentials: Credentials) -> None:
        self._case, self._quorum = case, quorum
        self._writers = BackgroundWriters(
            quorum.endpoints(), None, SHORT, case.e2e_cluster.resolver(), credentials
        ).start()
        self._ended = False

    @property
    def acknowledged(self) -> int:
        return self._writers.acknowledged

    def go_on(self, seconds: float = QUIET_S) -> None:
        """Let them write undisturbed: so long, and at least one more write."""
        before, began = self.acknowledged, time.monotonic()
        time.sleep(seconds)
        self._case.follow(self._quorum)
        while self.acknowledged == before:
            assert time.monotonic() - began < 120, "nothing is acknowledged any more"
            time.sleep(0.05)

    def finish(self, *, failed_max: int | None = None) -> float:
        """End, read all back, count; returns the longest stall.

        Args:
            failed_max: How many writes may be refused or of unknown outcome; None: any number.
        """
        self._ended = True
        account = self._writers.finish()
        figures = self._case.figures
        figures.count(account)
        assert account.verdict.ok, account.verdict.differences
        assert account.acknowledged > 0
        if failed_max is not None:
            assert account.refused + account.unknown <= failed_max, account
        return account.stall.seconds

    def give_up(self) -> None:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(Exception):
                self._case.figures.count(self._writers.finish())


class Case:
    """One case in a namespace of its own."""

    def __init__(
        self, e2e_cluster: E2eCluster, release: Release, figures: Figures, folder: Path
    ) -> None:
        self.e2e_cluster, self.release, self.figures = e2e_cluster, release, figures
        self._folder = folder
        self.quorums: list[Quorum] = []
        self.writings: list[Writing] = []

    def quorum(self, name: str = "demo") -> Quorum:
        """A quorum in a new namespace, not applied yet."""
        namespace = f"e2e-{re.sub(r'[^a-z0-9]+', '-', self.figures.name)[:40].strip('-')}"
        namespace = f"{namespace}-{uuid.uuid4().hex[:5]}"
        self.e2e_cluster.kubectl("create", "namespace", namespace)
        enforce = "pod-security.kubernetes.io/enforce=restricted"
        self.e2e_cluster.kubectl("label", "namespace", namespace, enforce)
        found = Quorum(self.e2e_cluster, namespace, name)
        self.quorums.append(found)
        return found

    def formed(self, voters: int = 3, **spec: Any) -> Quorum:
        """A quorum that has formed."""
        quorum = self.quorum()
        quorum.apply(voters=voters, **spec)
        quorum.until_ready(voters)
        return quorum

    def credentials(self, quorum: Quorum) -> Credentials:
        """What a client without a token of its own needs: the CAs, or nothing for a plain quorum."""
        if not quorum.has_tls():
            return NO_CREDENTIALS
        quorum.until("CAs for clients", lambda: quorum.client_ca() is not None)
        return Credentials(ca_file=self.follow(quorum))

    def follow(self, quorum: Quorum) -> Path:
        """Take the CAs that clients trust, as a mounted ConfigMap does; returns their file."""
        path, ca = self._folder / f"{quorum.namespace}.crt", quorum.client_ca()
        if ca is not None:
            replace_file(path, ca)
        return path

    def writing(self, quorum: Quorum, credentials: Credentials | None = None) -> Writing:
        """Begin to write; the first writes are acknowledged when this returns."""
        found = Writing(self, quorum, credentials or self.credentials(quorum))
        self.writings.append(found)
        found.go_on()
        return found

    @contextlib.contextmanager
    def timed(self, quorum: Quorum) -> Iterator[Callable[[], float]]:
        """Write all through; what happens inside is timed, and at the end everything counted."""
        writing = self.writing(quorum)
        began = time.monotonic()
        yield lambda: time.monotonic() - began
        self.figures.seconds = round(time.monotonic() - began, 1)
        writing.go_on()
        writing.finish()

    def clear(self) -> None:
        for writing in self.writings:
            writing.give_up()
        for quorum in self.quorums:
            quorum.remove()
            self.e2e_cluster.kubectl("delete", "namespace", quorum.namespace, "--wait=false")


@pytest.fixture
def case(
    request: pytest.FixtureRequest,
    e2e_cluster: E2eCluster,
    release: Release,
    report: Report,
    tmp_path: Path,
) -> Iterator[Case]:
    """The case of a test, whose docstring's first line is its title in the table."""
    parameters = getattr(request.node, "callspec", None)
    of = "".join(f", {value}" for value in parameters.params.values()) if parameters else ""
    title = (request.function.__doc__ or request.node.name).splitlines()[0].rstrip(".") + of
    figures = Figures(request.node.name.removeprefix("test_"), title)
    release.ensure()
    found = Case(e2e_cluster, release, figures, tmp_path)
    yield found
    outcome = request.node.stash.get(OUTCOME, None)
    figures.outcome = outcome.outcome if outcome is not None else "failed"
    if figures.outcome == "failed":
        crash = getattr(outcome.longrepr, "reprcrash", None) if outcome is not None else None
        figures.why = str(getattr(crash, "message", "its end was not seen")).splitlines()[0]
        folder = request.config.rootpath / FOLDER / figures.name
        for writing in found.writings:
            writing.give_up()
        namespaces = [*(quorum.namespace for quorum in found.quorums), release.NAMESPACE]
        sys.stdout.write(f"\n{evidence.keep(e2e_cluster, namespaces, folder)}\n")
        sys.stdout.write(f"more of it in {FOLDER / figures.name}\n")
    elif figures.outcome == "skipped":
        figures.why = str(outcome.longrepr[2]) if isinstance(outcome.longrepr, tuple) else ""
    found.clear()
    sys.stdout.write(f"\n{figures}\n")
    report.add(figures)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    try:
        return (yield)
    except NotHereError as error:
        pytest.skip(str(error))
