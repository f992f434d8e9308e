"""Prometheus' own tool takes the rules, and each alert fires when it should and only then."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kraftquorum_observability.generate import ROOT, RULES
from monitoringlib.programs import ensure

pytestmark = pytest.mark.prometheus

CASES = ("alerts.yaml", "days.yaml")


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [str(ensure("promtool")), *arguments], capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_promtool_takes_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(ROOT / RULES))


@pytest.mark.parametrize("cases", CASES)
def test_each_alert_fires_when_it_should_and_only_then(cases: str) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(Path(__file__).with_name(cases)))
