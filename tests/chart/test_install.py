"""The chart on a real API server: install, upgrade, uninstall, install again.

devcluster has no images: the Deployment's pod runs this environment's operator, with a
kubeconfig of the release's own account from a Secret, since no tokens are mounted there.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from guidelib.reader import ClusterReader
from kafkaserver import Controller, serving
from kraftquorum_demo.faults import wipe
from kraftquorum_devcluster import DevCluster, chart
from kraftquorum_devcluster.binaries import ensure_binaries
from kraftquorum_devcluster.errors import CommandError
from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_devcluster.versions import CHART_TOOLS
from kraftquorum_operator.rights import KAFKA_ADVICE
from usedrights import used, uses, uses_of_rights

pytestmark = [pytest.mark.chart, pytest.mark.timeout(900)]

LONG_S = 180.0
"""Deadline of what should take seconds: a busy machine is no reason to fail."""

VALUES = {
    "settings": {
        "KRAFTQUORUM_KUBECONFIG": "/etc/operator/kubeconfig",
        "KRAFTQUORUM_RECONCILE_BUSY_S": 0.3,
        "KRAFTQUORUM_RECONCILE_IDLE_S": 2,
    },
    "lease": {"durationSeconds": 2},
    "extraVolumes": [{"name": "account", "secret": {"secretName": "operator"}}],
    "extraVolumeMounts": [{"name": "account", "mountPath": "/etc/operator"}],
}


class Release:
    """One release, and the cluster that it is in."""

    def __init__(self, cluster: DevCluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.values = folder / "values.yaml"
        self.values.write_text(json.dumps(VALUES))

    def helm(self, *arguments: str) -> str:
        return chart.helm(
            *arguments, f"--namespace={self.namespace}", kubeconfig=self.cluster.kubeconfig
        )

    def install(self, *arguments: str, name: str = chart.RELEASE, path: Path = chart.CHART) -> str:
        values = f"--values={self.values}"
        return self.helm("upgrade", "--install", name, str(path), values, *arguments)

    def give_account(self, name: str = chart.RELEASE, url: str = "") -> None:
        """Put a token of the release's account where the pod reads it.

        Args:
            name: of the release.
            url: of a proxy of the API server; empty: the API server's.
        """
        token = self.kubectl("create", "token", name).strip()
        file = write_kubeconfig(
            self.folder / "kubeconfig", url or self.cluster.server_url, token, self.cluster.ca_file
        )
        self.kubectl("create", "secret", "generic", "operator", f"--from-file=kubeconfig={file}")

    def rolled_out(self, name: str = chart.RELEASE) -> None:
        try:
            self.kubectl("rollout", "status", f"deployment/{name}", "--timeout=150s")
        except CommandError as error:
            pods = self.kubectl("describe", "pods", "-l", "app.kubernetes.io/part-of=kraftquorum")
            raise AssertionError(f"{error}\n{pods[-3000:]}\n{self.log()}") from error

    def log(self) -> str:
        try:
            return self.kubectl("logs", "-l", "app.kubernetes.io/part-of=kraftquorum", "--tail=30")
        except CommandError as error:
            return f"{error}"  # e.g. not started yet

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        place = ("-n", self.namespace)
        return self.cluster.kubectl(*place, *arguments, stdin=stdin, timeout_s=LONG_S)


@pytest.fixture
def cluster(devcluster: DevCluster) -> Iterator[DevCluster]:
    """Without a CRD or roles of another test's."""
    clean(devcluster)
    yield devcluster
    clean(devcluster)


def clean(cluster: DevCluster) -> None:
    for one in quorums(cluster):
        meta = one["metadata"]
        place = ("-n", meta["namespace"], "krq", meta["name"])
        nothing = '{"metadata":{"finalizers":[]}}'
        # Its namespace is going, and may have taken it along.
        with suppress(CommandError):
            cluster.kubectl("patch", *place, "--type=merge", "-p", nothing)
        cluster.kubectl("delete", *place, "--ignore-not-found")
    for plural in ("kraftquorums", "kafkaquorums"):
        cluster.kubectl("delete", "crd", f"{plural}.kraftquorum.io", "--ignore-not-found")
    for kind in ("clusterrole", "clusterrolebinding"):
        cluster.kubectl("delete", kind, "-l", "app.kubernetes.io/part-of=kraftquorum")


def quorums(cluster: DevCluster) -> list[dict[str, Any]]:
    """Those of every namespace; none where their CRD is not there, or is listed but going."""
    try:
        return json.loads(cluster.kubectl("get", "krq", "-A", "-o", "json"))["items"]
    except CommandError as error:
        if not any(words in error.stderr for words in ("could not find", "resource type")):
            raise
        return []


@pytest.fixture
def release(cluster: DevCluster, namespace: str, tmp_path: Path) -> Iterator[Release]:
    """Not installed yet; in a namespace that enforces Pod Security's `restricted`."""
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, enforce)
    release = Release(cluster, namespace, tmp_path)
    yield release
    for one in json.loads(release.helm("list", "-o", "json")):
        release.helm("uninstall", one["name"])


@pytest.fixture
def elsewhere(cluster: DevCluster) -> Iterator[Callable[[], str]]:
    """Makes namespaces for quorums."""
    made: list[str] = []

    def make() -> str:
        made.append(f"quorums-{time.monotonic_ns() % 10**9}")
        cluster.kubectl("create", "namespace", made[-1])
        return made[-1]

    yield make
    for name in made:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


class Quorum:
    """A KRaftQuorum named `demo`."""

    def __init__(self, release: Release, namespace: str) -> None:
        self.release, self.namespace = release, namespace

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        place = ("-n", self.namespace)
        return self.release.cluster.kubectl(*place, *arguments, stdin=stdin, timeout_s=LONG_S)

    def apply(self, voters: int) -> None:
        body = {
            "apiVersion": "kraftquorum.io/v1alpha1",
            "kind": "KRaftQuorum",
            "metadata": {"name": "demo"},
            "spec": {"voters": voters, "replacement": {"gracePeriodSeconds": 2}},
        }
        # The CRD may be established a moment after `helm` returns.
        self.until("applied", lambda: self._try("apply", "-f", "-", stdin=json.dumps(body)))

    def _try(self, *arguments: str, stdin: str) -> bool:
        try:
            self.kubectl(*arguments, stdin=stdin)
        except CommandError:
            return False
        return True

    def get(self, kind: str, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", kind, *arguments, "-o", "json"))

    def told_voters(self) -> list[tuple[int, str]]:
        status = self.get("krq", "demo").get("status", {})
        return sorted((v["nodeId"], v["directoryId"]) for v in status.get("voters", []))

    def voters(self) -> list[tuple[int, str]]:
        """As soon as the status names them: one slow look leaves it without any."""
        found: list[tuple[int, str]] = []

        def are_told() -> bool:
            found[:] = self.told_voters()
            return bool(found)

        self.until("voters told", are_told)
        return found

    def ready(self, voters: int) -> None:
        def is_ready() -> bool:
            body = self.get("krq", "demo")
            status = body.get("status", {})
            conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
            return (
                status.get("observedGeneration") == body["metadata"]["generation"]
                and conditions.get("Ready") == "True"
                and len(status.get("voters", [])) == voters
            )

        self.until(f"{voters} voters and ready", is_ready)

    def until(self, what: str, holds: Callable[[], bool], timeout_s: float = LONG_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline, f"not {what}:\n{self.release.log()}"
            time.sleep(0.3)


def crd(cluster: DevCluster) -> dict[str, Any]:
    return json.loads(cluster.kubectl("get", "crd", "kraftquorums.kraftquorum.io", "-o", "json"))


def older_chart(folder: Path) -> Path:
    """The chart with a CRD from before `spec.pause`."""
    path = folder / "older"
    shutil.copytree(chart.CHART, path)
    file = path / "files" / "crds" / "kraftquorums.yaml"
    body = yaml.safe_load(file.read_text())
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["pause"]
    file.write_text(yaml.safe_dump(body))
    return path


def has_pause(cluster: DevCluster) -> bool:
    schema = crd(cluster)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return "pause" in schema["properties"]["spec"]["properties"]


def test_a_release_from_install_to_the_next_install(
    release: Release, elsewhere: Callable[[], str]
) -> None:
    cluster = release.cluster
    notes = release.install(path=older_chart(release.folder))
    assert "watches all namespaces" in notes
    assert not has_pause(cluster)
    release.give_account()
    release.rolled_out()
    quorum = Quorum(release, elsewhere())
    quorum.apply(3)
    quorum.ready(3)
    first = quorum.voters()
    image = quorum.get("sts", "demo")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "ghcr.io/kraftquorum/node:0.1.0"
    lease = json.loads(release.kubectl("get", "lease", chart.RELEASE, "-o", "json"))
    pods = release.kubectl("get", "pods", "-o", "name").split()
    assert f"pod/{lease['spec']['holderIdentity']}" in pods

    # Upgrade: the CRD with it, a third operator, the quorum as it was.
    release.install("--set=replicas=3")
    assert has_pause(cluster)
    release.rolled_out()
    assert quorum.voters() == first
    quorum.kubectl("scale", "krq", "demo", "--replicas=5")
    quorum.ready(5)
    quorum.kubectl("scale", "krq", "demo", "--replicas=3")
    quorum.ready(3)
    budget = json.loads(release.kubectl("get", "pdb", chart.RELEASE, "-o", "json"))
    assert budget["spec"]["maxUnavailable"] == 1

    # A value that cannot be changes nothing.
    with pytest.raises(CommandError, match="/replicas"):
        release.install("--set=replicas=two")
    assert release.helm("status", chart.RELEASE).count("REVISION: 2") == 1

    # Uninstall: the operator goes, the quorum runs on.
    release.helm("uninstall", chart.RELEASE, "--wait")
    assert crd(cluster)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert release.kubectl("get", "deploy,sa,role,rolebinding", "-o", "name").split() == [
        "serviceaccount/default"
    ]
    left = cluster.kubectl("get", "clusterrole,clusterrolebinding", "-o", "name")
    assert "/kraftquorum" not in left
    running = quorum.get("pods")["items"]
    assert [pod["status"]["phase"] for pod in running] == ["Running"] * 3

    # Another name does not get hold of the CRD by accident; the same one adopts everything.
    with pytest.raises(CommandError, match="cannot be imported into the current release"):
        release.install(name="other")
    release.kubectl("delete", "secret", "operator")  # its token is of the old account
    release.install()
    release.give_account()
    release.rolled_out()
    quorum.ready(3)
    assert quorum.voters() == first
    old = dict(first)[1]
    wipe(cluster.volume_dir(quorum.namespace, "data-demo-1"))
    quorum.until("replaced", lambda: dict(quorum.told_voters()).get(1, old) != old)
    quorum.ready(3)
    assert {pod["metadata"]["uid"] for pod in running} & {
        pod["metadata"]["uid"] for pod in quorum.get("pods")["items"]
    }, "the others were not restarted"
    quorum.kubectl("delete", "krq", "demo", "--timeout=150s")


def test_a_release_for_some_namespaces_sees_these_only(
    release: Release, elsewhere: Callable[[], str]
) -> None:
    cluster = release.cluster
    ours, other = elsewhere(), elsewhere()
    release.values.write_text(
        json.dumps(
            VALUES
            | {
                "watch": {"namespaces": [ours]},
                "crds": {"install": False},
                "rbac": {"aggregate": False},
                "metrics": {"access": "local"},
            }
        )
    )
    release.install()
    release.give_account()
    # Without the CRD it waits, and says for what.
    waiting = Quorum(release, ours)
    waiting.until("told", lambda: "apply the CRD" in release.log(), 120)
    cluster.kubectl("apply", "--server-side", "-f", str(chart.ROOT / "crds"))
    release.rolled_out()
    assert "kraftquorum" not in cluster.kubectl(
        "get", "clusterrole,clusterrolebinding", "-o", "name"
    )
    quorum, foreign = Quorum(release, ours), Quorum(release, other)
    foreign.apply(1)
    quorum.apply(3)
    quorum.ready(3)
    assert "status" not in foreign.get("krq", "demo")
    # The CRD that was applied by hand becomes the release's, if it is told to.
    with pytest.raises(CommandError, match="cannot be imported into the current release"):
        release.install("--set=crds.install=true")
    release.install("--set=crds.install=true", "--take-ownership")
    assert crd(cluster)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    quorum.kubectl("delete", "krq", "demo", "--timeout=150s")


def test_the_commands_of_the_pages_keep_the_values_of_a_release(
    release: Release, tmp_path: Path
) -> None:
    (tmp_path / "charts").symlink_to(chart.CHART.parent)
    (tmp_path / "crds").symlink_to(chart.ROOT / "crds")

    def reader_of(page: str) -> ClusterReader:
        programs = ensure_binaries(wanted=CHART_TOOLS)
        place = (release.cluster, release.namespace)
        return ClusterReader(page, tmp_path, *place, programs=programs)

    def values() -> dict[str, Any]:
        return json.loads(release.helm("get", "values", chart.RELEASE, "-o", "json"))

    install = reader_of("operations/install.md")
    install.run("install")
    release.install("--set=replicas=3")
    reader_of("howto/cert-manager.md").run("rights")
    reader_of("howto/kafka.md").run("advise")
    install.run("upgrade")
    reader_of("operations/upgrade.md").run("upgrade")
    set_by = VALUES | {"replicas": 3, "rbac": {"certManager": True}, "kafka": {"advise": True}}
    assert values() == set_by
    install.run("crds")
    install.run("uninstall")


def kafka_quorum(addresses: list[str]) -> str:
    """A KafkaQuorum with credentials, and with pods that there are none of."""
    meta = {"name": "orders"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "advisor"},
        "stringData": {"client.properties": "security.protocol=PLAINTEXT"},
    }
    pods = {"matchLabels": {"app": "kafka"}}
    spec = {"addresses": addresses, "pods": pods, "credentialsSecret": "advisor"}
    body = {"apiVersion": "kraftquorum.io/v1alpha1", "kind": "KafkaQuorum", "metadata": meta}
    return yaml.safe_dump_all([secret, body | {"spec": spec}])


async def test_advice_about_kafka_needs_what_the_chart_grants_for_it_and_no_more(
    release: Release, elsewhere: Callable[[], str], tmp_path: Path
) -> None:
    cluster = release.cluster
    settings = VALUES["settings"] | {"KRAFTQUORUM_KAFKA_CHECK_INTERVAL_S": 1}
    release.values.write_text(json.dumps(VALUES | {"settings": settings}))
    place = elsewhere()

    def kafka_rules() -> set[tuple[str, str, str]]:
        """What the release's role allows on KafkaQuorums."""
        text = cluster.kubectl("get", "clusterrole", chart.RELEASE, "-o", "json")
        return {use for use in uses(json.loads(text)["rules"]) if "kafkaquorums" in use[1]}

    def may(*words: str) -> bool:
        account = f"--as=system:serviceaccount:{release.namespace}:{chart.RELEASE}"
        try:
            cluster.kubectl("-n", place, "auth", "can-i", *words, account)
        except CommandError:
            return False
        return True

    def conditions() -> dict[str, tuple[str, str]]:
        text = cluster.kubectl("-n", place, "get", "kfq", "orders", "-o", "json")
        status = json.loads(text).get("status", {})
        return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", [])}

    def live(url: str, addresses: list[str]) -> None:
        release.install("--set=kafka.advise=true")
        release.give_account(url=url)
        release.rolled_out()
        quorum = Quorum(release, place)
        quorum.kubectl("apply", "-f", "-", stdin=kafka_quorum(addresses))
        quorum.until("advice", lambda: conditions().get("Ready") == ("True", "Confirmed"))
        assert conditions()["Safe"] == ("True", "VotersToSpare")
        events = ("get", "events", "-o", "jsonpath={.items[*].reason}")
        quorum.until("event posted", lambda: "Confirmed" in quorum.kubectl(*events))

    async with serving([Controller()]) as addresses, FaultProxy(cluster, tmp_path) as proxy:
        await asyncio.to_thread(live, proxy.server_url, addresses)
        refused = [entry.request for entry in proxy.log if entry.status in {401, 403}]
        assert refused == []
        about_kafka = {use for use in used(proxy) if "kafkaquorums" in use[1]}
        assert about_kafka == uses_of_rights(KAFKA_ADVICE) == await asyncio.to_thread(kafka_rules)
        # The API server says the same of the account, whatever roles it has.
        assert may("patch", "kafkaquorums", "--subresource=status")
        for verb in ("get", "create", "update", "patch", "delete"):
            assert not may(verb, "kafkaquorums")
        # Without the value the rights go; the CRD, and with it what people wrote, stays.
        await asyncio.to_thread(release.install)
        assert await asyncio.to_thread(kafka_rules) == set()
        assert not may("list", "kafkaquorums")
        assert conditions()["Ready"] == ("True", "Confirmed")


def test_the_kustomize_base_is_taken_by_the_api_server(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.kubectl("apply", "--server-side", "-k", str(chart.BASE))
    # Twice changes nothing.
    again = cluster.kubectl("apply", "--server-side", "-k", str(chart.BASE))
    assert "created" not in again
    found = cluster.kubectl("-n", chart.NAMESPACE, "get", "deploy,sa,role", "-o", "name").split()
    assert f"deployment.apps/{chart.RELEASE}" in found
    cluster.kubectl("delete", "-k", str(chart.BASE), "--wait=false")
