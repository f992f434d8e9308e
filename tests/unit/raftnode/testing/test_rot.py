"""No flipped bit is passed on, in whatever file; docs/explain/disk-faults.md tells the outcomes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from raftnode.testing import rot

PAGE = Path("docs/explain/disk-faults.md")


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
    found = rot.try_all(every=29)
    page = told()
    assert found.keys() == page.keys()
    for row, tally in found.items():
        assert "lost" not in tally
        assert set(tally) <= page[row], row
    assert sum(tally.total() for tally in found.values()) > 300


def test_whatever_differs_untold_counts_as_lost() -> None:
    disk = rot.make_directory(clean=False)
    image = disk.snapshot()
    wanted = rot.read_all(disk)[0]
    for at in range(len(wanted)):
        disk.restore(image)
        other = tuple("other" if n == at else part for n, part in enumerate(wanted))
        assert rot.outcome(disk, other) == "lost"


def test_a_row_of_the_table_counts_each_outcome() -> None:
    rows = rot.table({("*.log, the last", "checksum"): Counter({"lost": 2, "made again": 1})})
    assert rows[-1] == "| `*.log`, the last | checksum | 3 | lost 2, made again 1 |"
