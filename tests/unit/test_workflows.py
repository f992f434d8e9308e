"""What the workflows do before they publish, and that no look-up is left out there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = Path(__file__).resolve().parents[2] / ".github" / "workflows"
ALL = sorted(WORKFLOWS.glob("*.yml"))


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    return yaml.safe_load(path.read_text())["jobs"]


def commands_of(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


def needed_by(jobs: dict[str, dict[str, Any]], name: str) -> set[str]:
    """The jobs that must have passed before one runs."""
    needs = jobs[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(needed_by(jobs, each) for each in direct))


def test_nothing_is_published_before_the_gate_and_the_scan_have_passed() -> None:
    jobs = jobs_of(WORKFLOWS / "release.yml")
    publishing = {
        name for name, job in jobs.items() if "write" in (job.get("permissions") or {}).values()
    }
    assert publishing == {"images", "chart", "wheel"}
    for name in publishing:
        before = [commands_of(jobs[each]) for each in needed_by(jobs, name)]
        assert any(" make scan " in text for text in before), name
        assert any(text.endswith(".ci/run") for text in before), name
    assert not any(job.get("continue-on-error") for job in jobs.values())
    assert not any(" || " in commands_of(job) for job in jobs.values())


def test_the_gate_looks_at_the_supply_chain() -> None:
    """The Dockerfile, the locks and the contents of the images; without root it says what it lacks."""
    gate = (WORKFLOWS.parents[1] / ".ci" / "run").read_text()
    for step in (
        "make dockerfile",
        "make workflows",
        "audit_locks.py",
        "make image-test",
        "make sbom",
    ):
        lines = [line.strip() for line in gate.splitlines() if step in line]
        assert [line for line in lines if not line.startswith("#")], step
    assert "leave_out images" in gate
    assert "leave_out sbom" in gate


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_an_audit_without_data_fails_the_workflow(path: Path) -> None:
    """Elsewhere it is left out, with a line that says so."""
    lines = [line for job in jobs_of(path).values() for line in commands_of(job).splitlines()]
    audits = [line for line in lines if ".ci/run" in line or "make audit" in line]
    assert audits
    assert all("REQUIRED=1" in line.split() for line in audits), audits
