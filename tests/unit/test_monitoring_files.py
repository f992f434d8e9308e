"""The rules and dashboards of the chart are what the code makes, and alerts are fit for a pager."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from kraftquorum_observability import generate
from kraftquorum_observability.alerts import ALERTS, Alert, kebab
from kraftquorum_observability.dashboards import DASHBOARDS, Dashboard


def test_the_committed_files_are_current() -> None:
    assert generate.stale() == [], "run: make dashboards"


def test_every_alert_is_seen_firing_and_silent() -> None:
    cases = yaml.safe_load((generate.ROOT / "tests" / "monitoring" / "alerts.yaml").read_text())
    asked = [one for test in cases["tests"] for one in test["promql_expr_test"]]
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
    """What tells quorums apart tells their namespaces apart, in each expression and legend."""
    seen = 0
    for path, text in generate.files().items():
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
            named = [label.strip() for label in labels.split(",")]
            assert ("quorum" in named) <= ("namespace" in named), (path, labels)
            seen += "quorum" in named
        for legend in re.findall(r'"legendFormat": "(.*)"', text):
            assert ("{{quorum}}" in legend) <= ("{{namespace}}" in legend), (path, legend)
    assert seen > 40


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
    if alert.name != "KraftquorumOperatorDown":
        assert "{{ $labels.quorum }}" in alert.summary
