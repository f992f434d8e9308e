"""The pipeline as the demo's last part: left out, failed, or with its figures in the report."""

import sys
from pathlib import Path

import pytest

from kraftquorum_demo import pipeline
from kraftquorum_demo.pipeline import Material, reason_to_leave_out, run_pipeline


def java(directory: Path, says: str) -> dict[str, str]:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory)}


def test_without_java_it_is_left_out(tmp_path):
    said = reason_to_leave_out({"JAVA_HOME": str(tmp_path)})
    assert said == "Spark needs Java 17 or later, and there is none"


def test_with_an_old_java_it_is_left_out(tmp_path):
    said = reason_to_leave_out(java(tmp_path, 'openjdk version "11.0.2" 2019-01-15'))
    assert said.startswith("Spark needs Java 17 or later, and ")
    assert said.endswith(" is 11")


def test_without_pyspark_it_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "find_spec", lambda _name: None)
    environment = java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    assert "PySpark is not installed" in reason_to_leave_out(environment)
    monkeypatch.setattr(pipeline, "find_spec", lambda name: name)
    assert reason_to_leave_out(environment) == ""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A stand-in for Python that does what a script of the test says."""

    def make(script: str) -> None:
        path = tmp_path / "program"
        path.write_text(f"#!{sys.executable}\nimport sys, pathlib, json\n{script}")
        path.chmod(0o755)
        monkeypatch.setattr(pipeline.sys, "executable", str(path))

    return make


def run(tmp_path: Path) -> tuple[pipeline.Outcome, list[str]]:
    told: list[str] = []
    data = tmp_path / "data"
    material = Material(data, tmp_path / "w.jsonl", tmp_path / "e.json", 77, "demo")
    log, owner = tmp_path / "pipeline.log", f"{tmp_path}/pipeline"
    return run_pipeline(material, tmp_path, log, owner, told.append), told


SUMMARY = {"ok": True, "rows": 9, "missing": 0, "duplicated": 0, "audit": "ok"}
WRITE = """
out = pathlib.Path(sys.argv[sys.argv.index("--output") + 1])
out.mkdir()
(out / "report.html").write_text("the page")
(out / "summary.json").write_text(json.dumps({**%r, "seconds": {"export": 1.5}}))
print("27 rows", sys.argv[sys.argv.index("--committed-end") + 1])
sys.exit(%d)
"""


def test_its_figures_go_to_the_report_and_its_page_beside_it(tmp_path, program):
    program(WRITE % (SUMMARY, 0))
    outcome, told = run(tmp_path)
    assert outcome.ok
    assert told == ["    27 rows 77"]
    seconds = outcome.figures.pop("seconds")
    assert outcome.figures == {**SUMMARY, "parts_s": {"export": 1.5}}
    assert 0 < seconds < 60
    assert (tmp_path / "report.html").read_text() == "the page"


def test_a_missing_write_is_a_broken_promise(tmp_path, program):
    program(WRITE % ({**SUMMARY, "ok": False, "missing": 1}, 8))
    outcome, _ = run(tmp_path)
    assert not outcome.ok
    assert outcome.figures["missing"] == 1
    assert outcome.said == ""


def test_a_pipeline_that_fails_says_how(tmp_path, program):
    program("sys.stderr.write('no room on the disk\\n'); sys.exit(1)")
    outcome, _ = run(tmp_path)
    assert not outcome.ok
    assert outcome.figures["error"] == "it ended with 1"
    assert "no room on the disk" in outcome.said


def test_a_pipeline_that_hangs_is_ended(tmp_path, program, monkeypatch):
    monkeypatch.setattr(pipeline, "LIMIT_S", 0.5)
    program("import time; time.sleep(60)")
    outcome, _ = run(tmp_path)
    assert not outcome.ok
    assert "did not end within" in outcome.said
