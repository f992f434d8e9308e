"""Check the locked requirements for known vulnerabilities with pip-audit; print a summary.

    audit_locks.py [--required] LOCK...

pip-audit calls a package that its source does not know "skipped", and exits with code 0 if it
skipped every one. So this reads the report itself. The exit code is 0 if every package was checked
and none is vulnerable, 1 if one is vulnerable, and 75 if the source did not answer for some: with
`--required` that is 1, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VULNERABLE, NOT_CHECKED = 1, 75
OWN = "kraftquorum"
IGNORED: dict[str, str] = {}
"""Vulnerabilities that do not concern us, by id, and why."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result for some packages.

    Attributes:
        checked: packages that the source knows, as `name version`.
        skipped: packages that it does not know, likewise.
        vulnerable: a sentence for each vulnerability.
    """

    checked: frozenset[str]
    skipped: frozenset[str]
    vulnerable: tuple[str, ...]

    def __add__(self, other: Report) -> Report:
        """Both results."""
        skipped = self.skipped | other.skipped
        vulnerable = tuple(dict.fromkeys((*self.vulnerable, *other.vulnerable)))
        return Report(self.checked | other.checked, skipped, vulnerable)


NOTHING = Report(frozenset(), frozenset(), ())


def read(document: dict[str, Any], lock: str) -> Report:
    """Read a report of pip-audit, in its JSON format."""
    checked: set[str] = set()
    skipped: set[str] = set()
    vulnerable: list[str] = []
    for package in document["dependencies"]:
        name = f"{package['name']} {package.get('version', '')}".strip()
        if "skip_reason" in package:
            skipped.add(name)
            continue
        checked.add(name)
        for entry in package.get("vulns", []):
            if entry["id"] not in IGNORED:
                fixed = ", ".join(entry.get("fix_versions") or []) or "no version yet"
                vulnerable.append(f"{name}: {entry['id']}; fixed in {fixed} ({lock})")
    return Report(frozenset(checked), frozenset(skipped), tuple(vulnerable))


def packages_of(lock: str) -> set[str]:
    """Names of the packages of a lock."""
    lines = (line.partition(";")[0].strip() for line in lock.splitlines())
    return {line.partition("==")[0].lower() for line in lines if "==" in line}


def audit(lock: Path) -> Report:
    """Run pip-audit on a lock.

    Raises:
        RuntimeError: it printed no report; its source cannot be reached at all.
    """
    options = ["--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json"]
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options, "--requirement", str(lock)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        document = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise RuntimeError(f"pip-audit printed no report on {lock}: {last}") from None
    return read(document, lock.name)


def summary(report: Report) -> Iterator[str]:
    """Lines for a person."""
    for line in report.vulnerable:
        yield f"VULNERABLE {line}"
    yield (
        f"{len(report.checked)} packages checked, {len(report.vulnerable)} vulnerabilities, "
        f"{len(report.skipped)} packages NOT CHECKED"
    )
    if report.skipped:
        first = ", ".join(sorted(report.skipped)[:5])
        yield f"not checked, since the index of this machine has no vulnerability data: {first}, …"


def exit_code(report: Report, *, required: bool) -> int:
    """The exit code for a report."""
    if report.vulnerable:
        return VULNERABLE
    if report.skipped or not report.checked:
        return VULNERABLE if required else NOT_CHECKED
    return 0


def main(arguments: Sequence[str]) -> int:
    """Audit each lock; see the module."""
    parser = argparse.ArgumentParser(description="Check locks for known vulnerabilities.")
    parser.add_argument("--required", action="store_true")
    parser.add_argument("locks", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    report = NOTHING
    try:
        for lock in given.locks:
            report += audit(lock)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return VULNERABLE if given.required else NOT_CHECKED
    sys.stdout.write("\n".join(summary(report)) + "\n")
    return exit_code(report, required=given.required)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
