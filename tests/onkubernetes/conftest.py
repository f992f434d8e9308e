"""One kubelet with the images of the node, the operator and the pipeline, and a quorum on it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2elib.cluster import OwnCluster, Tags
from e2elib.quorum import Quorum
from kraftquorum_demo.background import BackgroundWriters
from kraftquorum_demo.plan import SHORT
from kraftquorum_devcluster import chart
from kraftquorum_devcluster.images import PipelineImage, build_images, build_pipeline
from kraftquorum_devcluster.realcluster import RealCluster
from raftnode.client import Credentials

TAG = "e2e"
NAMESPACE = "history"
EXTRAS = chart.CHART / "extras" / "spark"
WRITING_S = 5.0


@dataclass
class Site:
    """A cluster with a quorum that clients have written to."""

    cluster: RealCluster
    pipeline: PipelineImage
    acknowledged: int

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        place = ("--namespace", NAMESPACE)
        return self.cluster.kubectl(*place, *arguments, stdin=stdin, timeout_s=timeout_s)

    def get(self, *what: str) -> dict[str, Any]:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def apply(self, name: str) -> None:
        """Apply a file of the extras as it is, save for the tag of the image under test."""
        self.kubectl("apply", "-f", "-", stdin=self.with_image((EXTRAS / name).read_text()))

    def apply_suspended(self, name: str) -> None:
        """Likewise a CronJob, whose own hour shall not come while a test runs it by hand."""
        self.apply(name)
        cronjob = f"demo-{name.partition('-')[0]}"
        self.kubectl("patch", "cronjob", cronjob, "--patch", '{"spec": {"suspend": true}}')

    def with_image(self, text: str) -> str:
        published = self.pipeline.name.replace(f":{TAG}", ":0.1.0")
        assert published in text
        return text.replace(published, self.pipeline.name)

    def run_job(self, cronjob: str, name: str) -> tuple[int, str]:
        """Run what a CronJob would run; its pod's exit code and log."""
        self.kubectl("create", "job", f"--from=cronjob/{cronjob}", name)
        try:
            deadline = time.monotonic() + 600
            while True:
                pods = self.get("pods", "-l", f"batch.kubernetes.io/job-name={name}")["items"]
                states = [
                    state
                    for pod in pods
                    for one in pod["status"].get("containerStatuses", [])
                    if (state := one["state"].get("terminated"))
                ]
                if states:
                    return states[0]["exitCode"], self.kubectl("logs", f"job/{name}")
                assert time.monotonic() < deadline, self.kubectl("describe", "pods")
                time.sleep(1)
        finally:
            self.kubectl("delete", "job", name, "--wait=false")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    images, pipeline = build_images(TAG, install=True), build_pipeline(TAG, install=True)
    with RealCluster(nodes=1, images=[*images.archives, pipeline.archive]) as cluster:
        tags = Tags(now=TAG, next=TAG)
        values = {
            "image.repository": images.operator.rpartition(":")[0],
            "image.tag": TAG,
            "nodeImage.repository": images.node.rpartition(":")[0],
            "nodeImage.tag": TAG,
        }
        chart.helm(
            *["install", chart.RELEASE, str(chart.CHART), "--create-namespace"],
            *[f"--namespace={chart.NAMESPACE}", "--wait", "--timeout=150s"],
            *[f"--set={name}={value}" for name, value in values.items()],
            kubeconfig=cluster.kubeconfig,
        )
        cluster.kubectl("create", "namespace", NAMESPACE)
        enforce = "pod-security.kubernetes.io/enforce=restricted"
        cluster.kubectl("label", "namespace", NAMESPACE, enforce)
        with OwnCluster(cluster, tags) as e2e_cluster:
            quorum = Quorum(e2e_cluster, NAMESPACE)
            example = yaml.safe_load((chart.ROOT / "examples" / "quorum.yaml").read_text())
            clients = [*e2e_cluster.clients(), {"podSelector": {}}]  # the jobs, which have no label
            quorum.apply(**example["spec"] | {"networkPolicy": {"clientsFrom": clients}})
            quorum.until_ready(example["spec"]["voters"])
            ca_file = tmp_path_factory.mktemp("ca") / "ca.crt"
            ca_file.write_bytes(quorum.client_ca() or b"")
            writers = BackgroundWriters(
                quorum.endpoints(),
                None,
                SHORT,
                e2e_cluster.resolver(),
                Credentials(ca_file=ca_file),
            ).start()
            time.sleep(WRITING_S)
            account = writers.finish()
            assert account.verdict.ok, account.verdict.differences
            assert account.acknowledged > 0
            yield Site(cluster, pipeline, account.acknowledged)
