"""The rules and dashboards of the chart are what the code makes, and alerts are fit for a pager."""

from __future__ import annotations

import re

import pytest

from kraftquorum_devcluster.monitoring import generate
from kraftquorum_devcluster.monitoring.alerts import ALERTS, Alert, kebab


def test_the_committed_files_are_current() -> None:
    assert generate.stale() == [], "run: make dashboards"


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
