"""Scan the contents of images for known vulnerabilities and for old Debian packages.

    scan_images.py --grype PROGRAM LIST...

Each LIST is a list of contents (SBOM) that `image_sbom.py` has written. Grype compares it with a
database that it downloads, by the rules of `grype.yaml`. apt compares the Debian packages with
their release. The exit code is 0 if both found nothing, 1 if one found something, and 75 if one
could not look: it had no database, or no lists of packages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import debian_updates

FOUND, NOT_CHECKED = 1, 75
ABOVE_LIMIT = 2
"""Grype's exit code for a vulnerability that `fail-on-severity` names."""
SEVERE = frozenset({"High", "Critical"})
RULES = Path(__file__).with_name("grype.yaml")


class NoDatabaseError(Exception):
    """Grype has no database, and cannot download one."""


class ScanError(Exception):
    """A scan or its rules are not sound: what it says cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was found.

    Attributes:
        faults: a sentence for each.
        notes: what else a person should know.
    """

    faults: tuple[str, ...]
    notes: tuple[str, ...]


def exceptions(text: str) -> set[str]:
    """Ids of the vulnerabilities that rules except.

    Raises:
        ScanError: A rule names no vulnerability, or gives no reason.
    """
    rules: list[Mapping[str, Any]] = yaml.safe_load(text).get("ignore") or []
    for rule in rules:
        if not rule.get("vulnerability") or not str(rule.get("reason", "")).strip():
            raise ScanError(f"a rule of {RULES.name} needs a vulnerability and a reason: {rule}")
    return {rule["vulnerability"] for rule in rules}


@dataclass(frozen=True, slots=True)
class Grype:
    """The scanner.

    Attributes:
        program: Grype.
        rules: its settings, with the exceptions.
    """

    program: Path
    rules: Path = RULES

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, "--config", self.rules, *arguments],
            env={
                **os.environ,
                "GRYPE_CHECK_FOR_APP_UPDATE": "false",
                # A scan does not hide that its database is old: `update` says so first.
                "GRYPE_DB_AUTO_UPDATE": "false",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def update(self) -> str | None:
        """Download a newer database; returns a note if only the one that is here can be used.

        Raises:
            NoDatabaseError: There is none, or one that is older than Grype allows: five days.
        """
        updated = self._run("db", "update")
        status = self._run("db", "status")
        if status.returncode != 0:
            raise NoDatabaseError(_reason(updated if updated.returncode != 0 else status))
        if updated.returncode != 0:
            return f"Grype used the database of an earlier download: {_reason(updated)}"
        return None

    def scan(self, path: Path) -> dict[str, Any]:
        """Grype's report on a list.

        Raises:
            ScanError: Grype failed, or its exit code and its report differ.
        """
        done = self._run("--output", "json", f"sbom:{path}")
        if done.returncode not in {0, ABOVE_LIMIT}:
            raise ScanError(f"Grype failed on {path}: {_reason(done)}")
        report: dict[str, Any] = json.loads(done.stdout)
        if bool(list(severe(report))) != (done.returncode == ABOVE_LIMIT):
            raise ScanError(f"Grype ended with {done.returncode} on {path}, against its report")
        return report


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of the log, without its time, level and colours."""
    last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    return re.sub(r"\x1b\[[\d;]*m|^\[\d+\] +[A-Z]+ ", "", last)


def severe(report: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each vulnerability of a report that is severe."""
    for match in report["matches"]:
        vulnerability, package = match["vulnerability"], match["artifact"]
        if vulnerability["severity"] in SEVERE:
            yield (
                f"{package['name']} {package['version']}: {vulnerability['id']} "
                f"({vulnerability['severity']}); fixed in "
                f"{', '.join(vulnerability['fix']['versions'])}"
            )


def excepted(report: Mapping[str, Any]) -> set[str]:
    """Ids of the vulnerabilities that a rule with a reason took out of a report."""
    return {
        match["vulnerability"]["id"]
        for match in report.get("ignoredMatches", ())
        if any(rule.get("reason") for rule in match["appliedIgnoreRules"])
    }


def vulnerable(grype: Grype, lists: Sequence[Path]) -> Result:
    """Have Grype scan lists.

    Raises:
        NoDatabaseError: It has nothing to compare them with.
        ScanError: What it says cannot be trusted.
    """
    unused = exceptions(grype.rules.read_text(encoding="utf-8"))
    note = grype.update()
    faults: list[str] = []
    notes = [note] if note else []
    for path in lists:
        report = grype.scan(path)
        if not report["distro"]["name"]:
            raise ScanError(f"Grype did not find the Debian release of {path}")
        severe_lines, ignored = list(severe(report)), excepted(report)
        lines = list(dict.fromkeys(severe_lines))
        faults += [f"VULNERABLE {line} ({path.name})" for line in lines]
        unused -= ignored
        other = len(report["matches"]) - len(severe_lines)
        unfixed = len(report.get("ignoredMatches", ())) - len(ignored)
        notes.append(
            f"{path.name}: vulnerabilities: {len(lines)} severe with a fix, {other} other with a "
            f"fix, {unfixed} without a fix, {len(ignored)} excepted"
        )
    notes += [f"no list has {name}, which {grype.rules.name} excepts" for name in sorted(unused)]
    return Result(tuple(faults), tuple(notes))


def debian_of(document: Mapping[str, Any]) -> tuple[str, set[debian_updates.Package]]:
    """The codename of a list's Debian release, and the packages that dpkg has recorded.

    The list has entries for the libraries' own notes besides, which name source packages.

    Raises:
        ScanError: The list does not name the release, or has no packages of it.
    """
    codenames: set[str] = set()
    packages: set[debian_updates.Package] = set()
    for component in document["components"]:
        properties = {entry["name"]: entry["value"] for entry in component.get("properties", ())}
        if component["name"] == "debian" and "syft:distro:versionCodename" in properties:
            codenames.add(properties["syft:distro:versionCodename"])
        if properties.get("syft:package:foundBy") == "dpkg-db-cataloger":
            packages.add((component["name"], component["version"]))
    if len(codenames) != 1 or not packages:
        raise ScanError(f"a list has {len(packages)} Debian packages of {sorted(codenames)}")
    return codenames.pop(), packages


def outdated(lists: Iterable[Path]) -> Result:
    """Compare the Debian packages of lists with their release.

    Raises:
        NoListsError: There is nothing to compare them with.
        ScanError: A list does not name its release, or has no packages of it.
    """
    contents = {
        path.name: debian_of(json.loads(path.read_text(encoding="utf-8"))) for path in lists
    }
    faults: list[str] = []
    notes: list[str] = []
    for codename in sorted({codename for codename, _ in contents.values()}):
        of_release = {name: own for name, (release, own) in contents.items() if release == codename}
        wanted = sorted({name for own in of_release.values() for name, _ in own})
        versions = debian_updates.offered(wanted, debian_updates.sources_of(codename))
        for name, packages in of_release.items():
            lines = list(debian_updates.outdated(packages, versions))
            faults += [f"OUTDATED {line} ({name})" for line in lines]
            notes.append(
                f"{name}: {len(lines)} of {len(packages)} Debian packages are not the newest of "
                f"{codename}"
            )
    return Result(tuple(faults), tuple(notes))


def scan(grype: Grype, lists: Sequence[Path]) -> int:
    """Look both up, print what was found, and return the exit code."""
    code = 0
    for look in (lambda: vulnerable(grype, lists), lambda: outdated(lists)):
        try:
            result = look()
        except NoDatabaseError as error:
            sys.stdout.write(f"NOT CHECKED for vulnerabilities: Grype has no database: {error}\n")
            code = code or NOT_CHECKED
        except debian_updates.NoListsError as error:
            sys.stdout.write(f"NOT CHECKED for old Debian packages: {error}\n")
            code = code or NOT_CHECKED
        except ScanError as error:
            sys.stdout.write(f"FAILED {error}\n")
            code = FOUND
        else:
            sys.stdout.writelines(f"{line}\n" for line in (*result.faults, *result.notes))
            code = FOUND if result.faults else code
    return code


def main(arguments: Sequence[str]) -> int:
    """Scan the lists; see the module."""
    parser = argparse.ArgumentParser(description="Scan the contents of images.")
    parser.add_argument("--grype", type=Path, required=True)
    parser.add_argument("lists", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    return scan(Grype(given.grype), given.lists)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
