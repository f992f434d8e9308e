"""The audit of locks: a vulnerability fails, and what was not checked is never called safe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import audit_locks

ROOT = Path(__file__).resolve().parents[2]

SAFE = {"name": "idna", "version": "3.20", "vulns": []}
SKIPPED = {"name": "kio", "skip_reason": "Dependency not found on PyPI and could not be audited"}
BAD = {
    "name": "urllib3",
    "version": "1.25",
    "vulns": [{"id": "PYSEC-2020-148", "fix_versions": ["1.25.9"], "aliases": ["CVE-2020-26137"]}],
}


def report(*packages: dict[str, Any]) -> audit_locks.Report:
    return audit_locks.read({"dependencies": list(packages)}, "node.txt")


@pytest.mark.parametrize(
    ("packages", "code", "required_code"),
    [
        ([SAFE], 0, 0),
        ([SAFE, BAD], 1, 1),
        ([BAD, SKIPPED], 1, 1),
        ([SKIPPED], 75, 1),
        ([SAFE, SKIPPED], 75, 1),
        ([], 75, 1),
    ],
)
def test_only_packages_that_were_checked_are_called_safe(
    packages: list[dict[str, Any]], code: int, required_code: int
) -> None:
    """pip-audit itself exits with 0 and "No known vulnerabilities found" if it skipped all."""
    assert audit_locks.exit_code(report(*packages), required=False) == code
    assert audit_locks.exit_code(report(*packages), required=True) == required_code


def test_a_vulnerability_is_named_with_its_fix_and_its_lock() -> None:
    lines = list(audit_locks.summary(report(SAFE, BAD, SKIPPED) + report(BAD)))
    assert lines[0] == "VULNERABLE urllib3 1.25: PYSEC-2020-148; fixed in 1.25.9 (node.txt)"
    assert lines[1] == "2 packages checked, 1 vulnerabilities, 1 packages NOT CHECKED"
    assert "kio" in lines[2]


def test_a_run_without_a_report_is_not_a_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'cannot reach the source' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert audit_locks.main(["node.txt"]) == 75
    assert audit_locks.main(["--required", "node.txt"]) == 1
    assert "cannot reach the source" in capsys.readouterr().err


def test_a_real_report_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program's own exit code does not decide."""
    program = tmp_path / "python"
    text = json.dumps({"dependencies": [SAFE, BAD], "fixes": []})
    program.write_text(f"#!/bin/sh\necho '{text}'\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert audit_locks.main(["requirements/node.txt"]) == 1
    assert "VULNERABLE urllib3" in capsys.readouterr().out


def words_of(command: str, required: str = "") -> list[str]:
    """What a shell gives the audit as its arguments."""
    words = command.partition("tools/audit_locks.py")[2]
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {words}"],
        cwd=ROOT,
        env={"REQUIRED": required},
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(done.stdout.split())


def test_every_lock_is_audited_by_make_and_by_the_gate() -> None:
    locks = sorted(f"requirements/{path.name}" for path in (ROOT / "requirements").iterdir())
    assert locks
    asked = ["make", "--dry-run", "audit", "REQUIRED="]
    by_make = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    by_gate = (ROOT / ".ci" / "run").read_text()
    for text in (by_make, by_gate):
        [step] = [line for line in text.splitlines() if "tools/audit_locks.py" in line]
        assert words_of(step) == locks


def test_the_gate_may_leave_the_audit_out_unless_it_is_required() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    [step] = [line for line in text.splitlines() if "tools/audit_locks.py" in line]
    assert "--required" in words_of(step, required="1")
    assert "--required" not in words_of(step)


def test_an_ignored_vulnerability_has_a_reason() -> None:
    assert all(len(why) > 20 for why in audit_locks.IGNORED.values())
