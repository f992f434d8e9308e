"""Every fault of a disk has a row with all its columns, and a test; every failure says what to do."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path("docs/evidence/failures.md")
GUIDE = Path("docs/operations/failure-modes.md")
SECTION = "## Faults of a disk, one by one"

FAULTS = (
    "EIO from a write or a sync",
    "EIO from a read of the log",
    "ENOSPC",
    "short write",
    "torn tail",
    "unsynced writes lost",
    "corruption in any byte",
    "corruption in front of whole batches",
    "misdirected write",
    "stale write",
    "missing file",
    "stale volume restored",
    "two nodes on one directory",
    "read-only",
    "clock that jumps",
    "crash at any system call",
    "runs low",
    "device mapper",
    "a sync that hangs",
    "a sync that takes long",
    "a read of the log that hangs",
    "a disk that does not answer",
)
"""What is asked of a storage, each of which needs a row."""


def rows() -> list[list[str]]:
    section = PAGE.read_text().split(SECTION)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_fault_has_a_row_that_says_who_does_what() -> None:
    found = rows()
    assert all(len(row) == 5 and all(row) for row in found)
    for fault in FAULTS:
        assert [row for row in found if fault in row[0]], fault


def test_each_row_names_a_test_that_exists() -> None:
    for row in rows():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[4])
        assert len(named) == 1, row
        [(path, name)] = named
        assert Path(path).is_file(), row
        assert re.search(rf"^(async )?def {name}\(", Path(path).read_text(), re.MULTILINE), row


def test_each_failure_says_what_is_seen_what_happens_and_what_to_do() -> None:
    failures = GUIDE.read_text().split("\n### ")[1:]
    assert len(failures) > 30
    for failure in failures:
        title, _, text = failure.split("\n## ")[0].partition("\n")
        parts = re.findall(r"^\*\*(.+?):\*\*", text, re.MULTILINE)
        assert parts == ["Symptoms", "What happens", "What to do"], title
