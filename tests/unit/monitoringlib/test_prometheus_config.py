"""What the guide shows is what the test runs, and pods come with the labels it asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitoringlib import prometheus
from monitoringlib.discovery import targets
from raftnode.client import Credentials

POD = {
    "metadata": {
        "name": "demo-1",
        "namespace": "data",
        "labels": {"app.kubernetes.io/instance": "demo", "apps.kubernetes.io/pod-index": "1"},
    },
    "spec": {"containers": [{"ports": [{"name": "api", "containerPort": 9080}]}]},
    "status": {"podIP": "127.0.0.9"},
}


SCRAPER = Credentials(ca_file=Path("/ca.crt"), token_file=Path("/token"))


def test_the_guide_shows_a_configuration_for_both_jobs(tmp_path) -> None:
    config = prometheus.configuration(tmp_path / "pods.json", "127.0.0.1:9180", SCRAPER)
    operator, nodes = config["scrape_configs"]
    assert operator["honor_labels"]
    assert operator["static_configs"] == [{"targets": ["127.0.0.1:9180"]}]
    assert nodes["file_sd_configs"][0]["files"] == [str(tmp_path / "pods.json")]
    assert nodes["scheme"] == "https"
    assert nodes["tls_config"]["ca_file"] == "/ca.crt"
    assert nodes["authorization"] == {"credentials_file": "/token"}
    given = {one["target_label"] for one in nodes["relabel_configs"] if "target_label" in one}
    assert given == {"namespace", "quorum", "node_id"}


def test_each_node_is_scraped_at_the_port_that_has_its_metrics(tmp_path) -> None:
    config = prometheus.configuration(tmp_path / "pods.json", "127.0.0.1:9180", SCRAPER)
    [rule] = [
        rule
        for rule in config["scrape_configs"][1]["relabel_configs"]
        if "__meta_kubernetes_pod_container_port_name" in rule["source_labels"]
    ]
    assert rule["action"] == "keep"

    def kept(*ports: str, **labels: str) -> list[str]:
        given = [{"name": port, "containerPort": 1} for port in ports]
        pod = {
            **POD,
            "metadata": {**POD["metadata"], "labels": labels},
            "spec": {"containers": [{"ports": given}]},
        }
        labelled = [target["labels"] for target in targets([pod])]
        return [
            each["__meta_kubernetes_pod_container_port_name"]
            for each in labelled
            if re.fullmatch(
                rule["regex"], ";".join(each.get(name, "") for name in rule["source_labels"])
            )
        ]

    assert kept("peer", "api") == ["api"]
    separate = {"kraftquorum.io/metrics-port": "metrics"}
    assert kept("peer", "api", "metrics", **separate) == ["metrics"]


def test_a_guide_without_one_is_told() -> None:
    with pytest.raises(AssertionError, match="shows no configuration"):
        prometheus.guide_config("# nothing\n```yaml\nmonitoring: {}\n```\n")


def test_a_pod_is_a_target_for_each_port_once_it_has_an_address() -> None:
    [found] = targets([POD])
    assert found["targets"] == ["127.0.0.9:9080"]
    assert found["labels"]["__meta_kubernetes_pod_label_apps_kubernetes_io_pod_index"] == "1"
    assert found["labels"]["__meta_kubernetes_pod_container_port_name"] == "api"
    assert targets([{**POD, "status": {}}]) == []
