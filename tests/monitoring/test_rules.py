"""Prometheus' own tool takes the rules, and each alert fires when it should and only then."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraftquorum_observability.generate import ROOT, RULES
from monitoringlib.check import boards, filled, panels
from monitoringlib.programs import ensure
from monitoringlib.scenario import Course

pytestmark = pytest.mark.prometheus

CASES = ("alerts.yaml", "hours.yaml", "days.yaml", "kafka.yaml")
CLUSTERS = ("east", "west")


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [str(ensure("promtool")), *arguments], capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_promtool_takes_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(ROOT / RULES))


def test_promtool_takes_each_expression_of_the_dashboards(tmp_path: Path) -> None:
    course = Course("default", "demo", 0.0)
    expressions = [
        filled(target["expr"], course)
        for board in boards().values()
        for one in (*panels(board), {"targets": board["annotations"].get("list", [])})
        for target in one["targets"]
        if "expr" in target
    ]
    assert len(expressions) > 80
    rules = [
        {"record": f"panel:number_{number}", "expr": text}
        for number, text in enumerate(expressions)
    ]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


@pytest.mark.parametrize("cases", CASES)
def test_each_alert_fires_when_it_should_and_only_then(cases: str) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(Path(__file__).with_name(cases)))


@pytest.mark.parametrize("cases", CASES)
def test_two_clusters_with_the_same_names_are_kept_apart(cases: str, tmp_path: Path) -> None:
    """Each case in two clusters at once: each outcome is there twice, with its cluster's name.

    A rule that drops the label gives one outcome for both, or a match of many to many.
    """
    document = yaml.safe_load(Path(__file__).with_name(cases).read_text())
    document["rule_files"] = [str(ROOT / RULES)]
    for test in document["tests"]:
        test["input_series"] = [
            {**one, "series": labelled(one["series"], cluster)}
            for one in test["input_series"]
            for cluster in CLUSTERS
        ]
        for asked in test.get("promql_expr_test", []):
            asked["expr"] = asked["expr"].replace(" by (", " by (cluster, ")
            asked["exp_samples"] = [
                {**one, "labels": labelled(one["labels"], cluster)}
                for one in asked["exp_samples"]
                for cluster in CLUSTERS
            ]
        for asked in test.get("alert_rule_test", []):
            asked["exp_alerts"] = [
                in_cluster(one, cluster) for one in asked["exp_alerts"] for cluster in CLUSTERS
            ]
    path = tmp_path / cases
    path.write_text(yaml.safe_dump(document))
    assert "SUCCESS" in promtool("test", "rules", str(path))


def labelled(series: str, cluster: str) -> str:
    """A series in Prometheus' notation, with the label `cluster`."""
    name, brace, rest = series.partition("{")
    return f'{name}{{cluster="{cluster}", {rest}' if brace else f'{name}{{cluster="{cluster}"}}'


def in_cluster(alert: dict[str, Any], cluster: str) -> dict[str, Any]:
    annotations = dict(alert["exp_annotations"])
    annotations["summary"] = re.sub(
        r"(quorum \S+/\S+)",
        rf"\1 in cluster {cluster}",
        annotations["summary"],
        flags=re.IGNORECASE,
    )
    return {
        "exp_labels": alert["exp_labels"] | {"cluster": cluster},
        "exp_annotations": annotations,
    }
