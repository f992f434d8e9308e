"""No flipped bit is passed on, in whatever file; docs/evidence/disk-faults.md tells the outcomes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from proofkit import bit_flip_directories, bit_flips
from raftnode.storage.log.checkpoints import LOG_START_FILE

PAGE = Path("docs/evidence/disk-faults.md")


def told() -> dict[tuple[str, str], set[str]]:
    """The outcomes of each file's parts, off the page."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `") and line.count("|") == 5
    ]
    return {
        (name.replace("`", ""), part): {
            re.sub(r" \d+$", "", outcome) for outcome in outcomes.split(", ")
        }
        for name, part, _, outcomes in rows
    }


def test_no_flipped_bit_is_lost_and_the_page_tells_what_comes_of_each() -> None:
    found = bit_flips.try_all(every=53)
    page = told()
    assert found.keys() == page.keys()
    for row, tally in found.items():
        assert "lost" not in tally
        assert set(tally) <= page[row], row
    assert sum(tally.total() for tally in found.values()) > 300


OTHER: tuple[dict[str, object], ...] = (
    {"identity": ("other",)},
    {"start": 13},
    {"log": ("other",)},
    {"state": "other"},
    {"batches": b"other"},
)


@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("other", OTHER)
def test_whatever_differs_without_a_report_counts_as_lost(
    other: dict[str, object], trimmed: bool
) -> None:
    disk = bit_flip_directories.make_directory(clean=False, trimmed=trimmed)
    image = disk.snapshot()
    wanted = bit_flip_directories.read_all(disk)
    disk.restore(image)
    assert bit_flips.outcome(disk, wanted) == "unchanged"
    disk.restore(image)
    assert bit_flips.outcome(disk, replace(wanted, **other)) == "lost"


def test_what_must_be_refused_and_is_opened_counts_as_lost() -> None:
    assert bit_flips.outcome(bit_flip_directories.make_directory(clean=True), None) == "lost"
    assert bit_flips.outcome(bit_flip_directories.make_marked("stale"), None) == "`STORAGE_STALE`"


def test_only_what_a_snapshot_holds_may_go_from_a_log_that_is_trimmed() -> None:
    """The log's start has no checksum: a flipped bit makes another segment's base of it."""
    disk = bit_flip_directories.make_directory(clean=True, trimmed=True)
    image = disk.snapshot()
    wanted = bit_flip_directories.read_all(disk)
    disk.restore(image)
    path = bit_flip_directories.LOG / LOG_START_FILE
    disk.overwrite(path, disk.content(path).replace(b" 12\n", b" 16\n"))
    assert bit_flips.outcome(disk, wanted) == "trimmed up to a snapshot"
    for start in (18, 20):  # beyond the newest
        disk.restore(image)
        disk.overwrite(path, disk.content(path).replace(b" 12\n", b" %d\n" % start))
        assert bit_flips.outcome(disk, wanted) == "`STORAGE_CORRUPT`"


def test_a_row_of_the_table_counts_each_outcome() -> None:
    rows = bit_flips.table({("*.log, the last", "checksum"): Counter({"lost": 2, "made again": 1})})
    assert rows[-1] == "| `*.log`, the last | checksum | 3 | lost 2, made again 1 |"
