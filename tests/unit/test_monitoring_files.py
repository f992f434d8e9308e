"""The rules and dashboards of the chart are what the code makes, and alerts are fit for a pager."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from kraftquorum_observability import generate
from kraftquorum_observability.alerts import ALERTS, Alert, kebab
from kraftquorum_observability.dashboards import DASHBOARDS, Dashboard
from kraftquorum_observability.rules import RECORDINGS
from monitoringlib.check import metric_names, selectors


def test_the_committed_files_are_current() -> None:
    assert generate.stale() == [], "run: make dashboards"


def test_every_alert_is_seen_firing_and_silent() -> None:
    folder = generate.ROOT / "tests" / "monitoring"
    names = ("alerts.yaml", "hours.yaml", "kafka.yaml")
    cases = [yaml.safe_load((folder / name).read_text()) for name in names]
    tests = [test for document in cases for test in document["tests"]]
    asked = [one for test in tests for one in test["promql_expr_test"]]
    for alert in ALERTS:
        about = [one for one in asked if f'"{alert.name}"' in one["expr"]]
        assert any(one["exp_samples"] for one in about), f"{alert.name} is never seen firing"
        assert not all(one["exp_samples"] for one in about), f"{alert.name} is never seen silent"


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_every_panel_says_what_is_normal(board: Dashboard) -> None:
    for panel in board.panels:
        assert "Normal" in panel.description, panel.title
        assert len(panel.description) < 260, panel.title
    titles = [panel.title for panel in board.panels]
    assert len(titles) == len(set(titles)) + (board.uid == "kraftquorum-quorum")


def test_the_json_is_what_grafana_reads() -> None:
    for path, text in generate.files().items():
        if path.suffix != ".json":
            continue
        found = json.loads(text)
        assert path.stem == found["uid"]
        ids = [panel["id"] for panel in found["panels"]]
        assert len(ids) == len(set(ids))
        names = {one["name"] for one in found["templating"]["list"]}
        used = set(re.findall(r"\$([a-z]+)|\$\{([a-z]+)\}", json.dumps(found["panels"])))
        assert {name for pair in used for name in pair if name} <= names
        spots = [panel["gridPos"] for panel in found["panels"]]
        assert all(spot["x"] + spot["w"] <= 24 for spot in spots)
        assert any(link["type"] == "dashboards" for link in found["links"])


def test_quorums_of_one_name_in_two_namespaces_are_never_taken_for_one() -> None:
    """What tells quorums apart tells namespaces and clusters apart, in expressions and legends."""
    seen = 0
    for path, text in generate.files().items():
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
            named = {label.strip() for label in labels.split(",")}
            quorum = bool(named & {"quorum", "kafka_quorum"})
            assert quorum == ("namespace" in named), (path, labels)
            assert quorum <= ("cluster" in named), (path, labels)
            seen += quorum
        for legend in re.findall(r'"legendFormat": "(.*)"', text):
            named = set(re.findall(r"{{(\w+)}}", legend))
            quorum = bool(named & {"quorum", "kafka_quorum"})
            assert quorum <= ({"namespace", "cluster"} <= named), (path, legend)
    assert seen > 40


ABOUT_CLUSTERS = {
    "KraftquorumOperatorDown": "the operator serves all quorums of a cluster",
    "KraftquorumKubernetesErrors": "the operator's requests are for all quorums of a cluster",
}
"""The rules that keep no quorum's labels, and why."""


def label_of(alert: str) -> str:
    """The label with the name of what an alert is about."""
    return "kafka_quorum" if alert.startswith("KraftquorumKafka") else "quorum"


@pytest.mark.parametrize(
    ("name", "expression"),
    [(one.name, one.expression) for one in ALERTS]
    + [(one.record, one.expression) for one in RECORDINGS],
)
def test_every_rule_keeps_cluster_namespace_and_quorum(name: str, expression: str) -> None:
    """By each grouping and match; `promtool` shows the same of the results, in two clusters."""
    kept = {"cluster"} if name in ABOUT_CLUSTERS else {"cluster", "namespace", label_of(name)}
    groupings = re.findall(r"\b(by|without|on|ignoring) \(([^)]*)\)", expression)
    clusters_only = "max by (cluster) (kraftquorum_operator_active)", "on (cluster)"
    for word, labels in groupings:
        named = {label.strip() for label in labels.split(",")}
        assert word in {"by", "on"}, f"{word} ({labels}) keeps what is not known"
        if named == {"cluster"} and name == "KraftquorumOperatorNotReconciling":
            assert all(text in expression for text in clusters_only)
            continue
        assert kept <= named, f"{word} ({labels})"
    aggregated = re.findall(
        r"\b(?:sum|min|max|avg|count|group|topk|quantile)\b(?! ?by| by)\s*\(", expression
    )
    assert not aggregated, f"{aggregated} drops all labels"


OF_THE_OPERATOR = ("kraftquorum_operator_", "kraftquorum_api_")
"""The operator's own series: by cluster only, and by the process of the operator."""


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_every_series_of_a_dashboard_is_selected_by_its_variables(board: Dashboard) -> None:
    names = [variable.name for variable in board.variables]
    assert names[:3] == ["cluster", "namespace", names[2]]
    assert names[2] in {"quorum", "kafka"}
    expressions = [
        *(query.expression for panel in board.panels for query in panel.queries),
        *(annotation.expression for annotation in board.annotations),
    ]
    asked = 0
    for expression in expressions:
        for metric, selector in selectors(expression):
            own = metric.startswith(OF_THE_OPERATOR) or (
                metric.startswith("process_") and board.uid == "kraftquorum-operator"
            )
            wanted = {"cluster"} if own else {"cluster", "namespace", names[2]}
            if "node" in names and metric.startswith(("raftnode_", "process_", "node:")):
                wanted |= {"node"}
            used = set(re.findall(r'"\$(\w+)"', selector))
            assert wanted <= used, f"{metric}{{{selector}}} in {expression}"
            several = {one.name for one in board.variables if one.several}
            for label, sign, name in re.findall(r'(\w+)(=~?)"\$(\w+)"', selector):
                assert label == {"node": "node_id", "kafka": "kafka_quorum"}.get(name, name)
                assert sign == ("=~" if name in several else "="), f"{label}{sign}"
            asked += 1
    assert asked >= 10


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_each_variable_is_chosen_within_those_before_it(board: Dashboard) -> None:
    for place, variable in enumerate(board.variables):
        used = re.findall(r'"\$(\w+)"', variable.selector)
        assert used == [one.name for one in board.variables[:place]]


ON_NO_PANEL: dict[str, str] = {
    "raftnode_access_file_loaded_timestamp_seconds": "for a person who has changed the file",
}
"""Documented metrics that no panel and no rule shows, each with its reason."""


def test_every_documented_metric_is_on_a_panel_or_in_a_rule() -> None:
    asked = {
        name
        for expression in (
            *(one.expression for one in ALERTS),
            *(one.expression for one in RECORDINGS),
            *(q.expression for b in DASHBOARDS for panel in b.panels for q in panel.queries),
        )
        for name in metric_names(expression)
    }
    asked |= {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    documented: set[str] = set()
    for page in ("node-metrics.md", "operator-metrics.md"):
        text = (generate.ROOT / "docs" / "reference" / page).read_text()
        documented |= set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert len(documented) > 70
    assert documented - asked == set(ON_NO_PANEL)
    ours = {name for name in asked if name.startswith(("raftnode_", "kraftquorum_"))}
    known = documented | {
        f"{name}{end}" for name in documented for end in ("_bucket", "_count", "_sum")
    }
    assert ours <= known, "a panel or rule asks for a metric that no page has"


def test_a_file_that_is_no_longer_made_is_stale(tmp_path) -> None:
    for path, text in generate.files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert generate.stale(tmp_path) == []
    (tmp_path / generate.RULES).with_name("old.yaml").write_text("")
    assert [path.name for path in generate.stale(tmp_path)] == ["old.yaml"]


def test_names_are_told_apart_and_runbooks_too() -> None:
    assert kebab("KraftquorumNoLeader") == "kraftquorum-no-leader"
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_says_whom_it_is_about_and_what_to_read(alert: Alert) -> None:
    assert re.fullmatch(r"Kraftquorum([A-Z][a-z]+)+", alert.name)
    assert re.fullmatch(r"\d+[mh]", alert.lasts)
    assert alert.runbook_url.endswith(f"/{kebab(alert.name)}.md")
    assert len(alert.summary) < 220
    assert alert.description.endswith(".")
    if alert.name not in ABOUT_CLUSTERS:
        assert f"{{{{ $labels.{label_of(alert.name)} }}}}" in alert.summary
