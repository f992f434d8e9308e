"""docs/evidence/proof.md tells the truth: its worlds, their bounds, what was counted."""

import re
from pathlib import Path

import pytest

from proofkit.explorer.bounds import PRESETS
from proofkit.explorer.search import explore

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/evidence/proof.md").read_text()
ROWS = {
    cells[0].strip("`"): cells[1:]
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def test_every_world_is_on_the_page_with_its_bounds():
    assert {name: row[0] for name, row in ROWS.items()} == {
        name: str(bounds) for name, bounds in PRESETS["full"].items()
    }


@pytest.mark.parametrize("name", ["lose-and-duplicate-in-two", "forming-two", "crash-in-two"])
def test_figures_are_those_that_are_found(name: str):
    report = explore(PRESETS["smoke"][name])
    found = [f"{n:,}" for n in (report.states, report.transitions, report.depth)]
    assert ROWS[name][1:] == found, f"write {found} into docs/evidence/proof.md"


def test_every_mutant_that_the_page_names_is_tested():
    tests = (ROOT / "tests/explorer/test_explorer.py").read_text()
    named = re.findall(r"`([PS]\d+-[a-z-]+)`", " ".join(PAGE.split()))
    assert len(named) >= 5
    assert sorted(named) == sorted(set(re.findall(r'"([PS]\d+-[a-z-]+)"', tests)))
