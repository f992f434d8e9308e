"""A scan fails for what it finds, and is never called passed where it could not look."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import debian_updates
import scan_images

STAND_IN = """#!{python} -IS
import json, pathlib, sys
plan = json.loads(pathlib.Path({plan!r}).read_text())
words = sys.argv[1:]
assert words[:2] == ["--config", {rules!r}], words
step = words[3] if words[2] == "db" else "scan"
code, out, err = plan[step]
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


def match(name: str, severity: str, package: str = "openssl", *fixed: str) -> dict[str, Any]:
    """A match as Grype writes it, less what this does not read."""
    return {
        "vulnerability": {
            "id": name,
            "severity": severity,
            "fix": {"versions": list(fixed), "state": "fixed" if fixed else "not-fixed"},
        },
        "artifact": {"name": package, "version": "3.5.4-1", "type": "deb"},
    }


def report(*matches: dict[str, Any], ignored: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "matches": list(matches),
        "ignoredMatches": list(ignored),
        "distro": {"name": "debian", "version": "13"},
    }


def ignored(taken: dict[str, Any], **rule: str) -> dict[str, Any]:
    return {**taken, "appliedIgnoreRules": [{"namespace": "", **rule}]}


SEVERE = match("CVE-2026-1", "High", "openssl", "3.5.5-1")
MINOR = match("CVE-2026-2", "Medium", "openssl", "3.5.5-1")
UNFIXED = ignored(match("CVE-2026-3", "Critical"), **{"fix-state": "not-fixed"})
EXCEPTED = ignored(
    match("CVE-2026-4", "Critical", "zlib", "2"), vulnerability="CVE-2026-4", reason="not used"
)
WELL = (0, "", "")
OFFLINE = (
    1,
    "",
    (
        "[0000]  WARN unable to check\n"
        "[0000] ERROR \x1b[31munable to update vulnerability database: no such host\x1b[0m\n"
    ),
)


class Scanner:
    """A stand-in for Grype: a scan of the real one is in tests/scan."""

    def __init__(self, directory: Path) -> None:
        self.plan = directory / "plan.json"
        self.rules = directory / "grype.yaml"
        self.rules.write_text("ignore: []\n")
        program = directory / "grype"
        program.write_text(
            STAND_IN.format(python=sys.executable, plan=str(self.plan), rules=str(self.rules))
        )
        program.chmod(0o755)
        self.grype = scan_images.Grype(program, self.rules)
        self.answers()

    def answers(
        self,
        text: str = json.dumps(report()),
        code: int = 0,
        update: tuple[int, str, str] = WELL,
        status: tuple[int, str, str] = WELL,
    ) -> None:
        steps = {"update": update, "status": status, "scan": (code, text, "said last\n")}
        self.plan.write_text(json.dumps(steps))


@pytest.fixture
def scanner(tmp_path: Path) -> Scanner:
    return Scanner(tmp_path)


def contents(
    version: str, *, codename: str | None = "trixie", by: str = "dpkg-db"
) -> dict[str, Any]:
    def component(name: str, version: str, **properties: str | None) -> dict[str, Any]:
        known = {key.replace("__", ":"): value for key, value in properties.items() if value}
        entries = [{"name": f"syft:{key}", "value": value} for key, value in known.items()]
        return {"name": name, "version": version, "properties": entries}

    return {
        "components": [
            component("libc6", version, package__foundBy=f"{by}-cataloger"),
            component("glibc", "2.1", package__foundBy="elf-binary-package-cataloger"),
            component("PyYAML", "6.0.3", package__foundBy="python-installed-package-cataloger"),
            component("debian", "13", distro__versionCodename=codename),
        ]
    }


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two images, of which Debian has the newest packages."""
    monkeypatch.setattr(debian_updates, "sources_of", lambda codename: codename)
    monkeypatch.setattr(
        debian_updates, "offered", lambda names, _: {name: {"2.41-12"} for name in names}
    )
    paths = [tmp_path / "node-dev.cdx.json", tmp_path / "operator-dev.cdx.json"]
    for path in paths:
        path.write_text(json.dumps(contents("2.41-12")))
    return paths


def no_lists(*_: object) -> dict[str, set[str]]:
    raise debian_updates.NoListsError("the archive does not answer")


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(), 0),
        (report(MINOR), 0),
        (report(MINOR, ignored=(UNFIXED, EXCEPTED)), 0),
        (report(SEVERE, MINOR), 1),
    ],
)
def test_a_severe_vulnerability_with_a_fix_fails_the_scan(
    scanner: Scanner, lists: list[Path], found: dict[str, Any], code: int
) -> None:
    scanner.answers(json.dumps(found), code=2 * code)
    assert scan_images.scan(scanner.grype, lists) == code


def test_what_was_found_is_named_with_its_fix_and_its_image(
    scanner: Scanner, lists: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(SEVERE, SEVERE, MINOR, ignored=(UNFIXED, UNFIXED, EXCEPTED))
    scanner.answers(json.dumps(found), code=2)
    scan_images.scan(scanner.grype, lists[:1])
    assert capsys.readouterr().out.splitlines() == [
        "VULNERABLE openssl 3.5.4-1: CVE-2026-1 (High); fixed in 3.5.5-1 (node-dev.cdx.json)",
        (
            "node-dev.cdx.json: vulnerabilities: 1 severe with a fix, 1 other with a fix, "
            "2 without a fix, 1 excepted"
        ),
        "node-dev.cdx.json: 0 of 1 Debian packages are not the newest of trixie",
    ]


def test_an_old_debian_package_fails_the_scan(
    scanner: Scanner, lists: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    lists[1].write_text(json.dumps(contents("2.41-11")))
    assert scan_images.scan(scanner.grype, lists) == 1
    assert "OUTDATED libc6 2.41-11: the release has 2.41-12 (operator-dev.cdx.json)\n" in (
        capsys.readouterr().out
    )


def test_without_a_database_the_debian_packages_are_looked_at_all_the_same(
    scanner: Scanner, lists: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    scanner.answers(update=OFFLINE, status=(1, "", "database does not exist\n"))
    assert scan_images.scan(scanner.grype, lists) == 75
    out = capsys.readouterr().out
    assert (
        "NOT CHECKED for vulnerabilities: Grype has no database: "
        "unable to update vulnerability database: no such host\n"
    ) in out
    assert "node-dev.cdx.json: 0 of 1 Debian packages are not the newest of trixie\n" in out
    lists[0].write_text(json.dumps(contents("2.41-11")))
    assert scan_images.scan(scanner.grype, lists) == 1


def test_without_debians_lists_the_vulnerabilities_are_looked_up_all_the_same(
    scanner: Scanner,
    lists: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(debian_updates, "offered", no_lists)
    assert scan_images.scan(scanner.grype, lists) == 75
    out = capsys.readouterr().out
    assert "NOT CHECKED for old Debian packages: the archive does not answer\n" in out
    scanner.answers(json.dumps(report(SEVERE)), code=2)
    assert scan_images.scan(scanner.grype, lists) == 1


def test_a_database_that_grype_still_allows_serves_and_is_mentioned(
    scanner: Scanner, lists: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    scanner.answers(update=OFFLINE)
    assert scan_images.scan(scanner.grype, lists) == 0
    assert "Grype used the database of an earlier download: unable to update" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (report(), 1, "Grype failed on"),
        (report(), 2, "Grype ended with 2 on"),
        (report(SEVERE), 0, "Grype ended with 0 on"),
        (report() | {"distro": {"name": "", "version": ""}}, 0, "did not find the Debian release"),
    ],
)
def test_a_report_that_cannot_be_trusted_fails_the_scan(
    scanner: Scanner,
    lists: list[Path],
    capsys: pytest.CaptureFixture[str],
    found: dict[str, Any],
    code: int,
    said: str,
) -> None:
    scanner.answers(json.dumps(found), code)
    assert scan_images.scan(scanner.grype, lists) == 1
    assert f"FAILED Grype {said.removeprefix('Grype ')}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"codename": None}, "a list has 1 Debian packages of []"),
        ({"by": "other"}, "a list has 0 Debian packages of ['trixie']"),
    ],
)
def test_a_list_without_its_debian_release_or_packages_fails_the_scan(
    scanner: Scanner,
    lists: list[Path],
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    said: str,
) -> None:
    lists[0].write_text(json.dumps(contents("2.41-12", **change)))
    assert scan_images.scan(scanner.grype, lists) == 1
    assert f"FAILED {said}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "rule",
    ["{vulnerability: CVE-2026-4}", "{vulnerability: CVE-2026-4, reason: ' '}", "{reason: x}"],
)
def test_an_exception_without_a_reason_or_an_id_is_refused(
    scanner: Scanner, lists: list[Path], capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    scanner.rules.write_text(f"ignore: [{rule}]\n")
    assert scan_images.scan(scanner.grype, lists) == 1
    assert "needs a vulnerability and a reason" in capsys.readouterr().out


def test_an_exception_that_no_image_needs_is_named(
    scanner: Scanner, lists: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    scanner.rules.write_text(
        "ignore: [{vulnerability: CVE-2026-4, reason: not used}, "
        "{vulnerability: CVE-2026-9, reason: not used}]\n"
    )
    scanner.answers(json.dumps(report(ignored=(EXCEPTED,))))
    assert scan_images.scan(scanner.grype, lists) == 0
    out = capsys.readouterr().out
    assert "no list has CVE-2026-9, which grype.yaml excepts\n" in out
    assert "no list has CVE-2026-4" not in out


def test_the_exceptions_of_this_repository_have_reasons() -> None:
    scan_images.exceptions(scan_images.RULES.read_text())
