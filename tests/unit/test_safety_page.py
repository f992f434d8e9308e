"""docs/explain/safety.md tells the truth: every rule is there, every file and test exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explain/safety.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| S\d+ \|", line)]
HOMES = [ROOT / "raftnode/raftnode", ROOT / "operator/kraftquorum_operator", ROOT]


LAST = 31
"""S1 to S30 are fixed; those after them were found since."""


def test_every_rule_has_a_row_in_order():
    assert [int(row.split("|")[1].strip()[1:]) for row in ROWS] == list(range(1, LAST + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_what_a_rule_names_exists(row):
    for name in re.findall(r"`([^`]+)`", row):
        path, _, test = name.partition("::")
        if "/" not in path:
            continue
        found = [home / path for home in HOMES if (home / path).exists()]
        assert found, f"{path} does not exist"
        if test:
            assert f"def {test}(" in found[0].read_text(), f"{test} is not in {path}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_rule_is_shown_by_something_or_not_built(row):
    assert row.split("|")[4].strip() or "not built" in row
