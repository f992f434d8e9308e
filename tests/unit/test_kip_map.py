"""docs/reference/kip-map.md tells the truth: every row, what it names, and the tests that name it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = 62
OURS = 31
"""S1 to S30 are fixed; those after them were found since."""


def load_tool() -> ModuleType:
    path = ROOT / "tools" / "generate_kip_map.py"
    spec = importlib.util.spec_from_file_location("generate_kip_map", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
ROWS = TOOL.rows()
TESTS = TOOL.claims()


def test_every_row_is_there_in_order():
    expected = [f"P{n}" for n in range(1, DOCUMENTS + 1)] + [f"S{n}" for n in range(1, OURS + 1)]
    assert list(ROWS) == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_complete(name: str):
    row = ROWS[name]
    assert set(row) <= {"group", "asks", "from", "state", "differs", "where"}
    assert row["state"] in TOOL.STATES
    assert set(row.get("from", [])) <= set("ABCDE")
    assert ("from" in row) == (name[0] == "P")
    if row["state"] in {"built", "partly"}:
        assert row.get("where"), f"{name} is {row['state']} and says not where"
        assert TESTS.get(name), f"no test says @pytest.mark.rule({name!r}), and {name} is built"
    if row["state"] != "built":
        assert row.get("differs"), f"{name} says not what is missing or why"


@pytest.mark.parametrize("name", ROWS)
def test_the_files_of_a_row_exist(name: str):
    missing = [
        file
        for file in ROWS[name].get("where", [])
        if not any((home / file).exists() for home in TOOL.HOMES)
    ]
    assert missing == []


def test_every_row_that_a_test_names_is_one_of_them():
    strangers = {row: tests for row, tests in TESTS.items() if row not in ROWS}
    assert strangers == {}


def test_every_row_cited_in_sources_and_tests_is_one_of_them():
    strangers = [
        f"{path.relative_to(ROOT)}: P{number}"
        for folder in ("raftnode", "operator", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number in re.findall(r"\bP(\d+)\b", path.read_text())
        if not 1 <= int(number) <= DOCUMENTS
    ]
    assert strangers == []


def test_page_is_current():
    assert TOOL.PAGE.read_text() == TOOL.render(), "run: make reference"


def test_tests_are_found_by_all_ways_of_naming_a_row():
    """By a decorator, a whole file's mark, a golden script's first line, a mutant's name."""
    assert "tests/scenarios/test_elections.py::test_removed_uncommitted_must_stand" in TESTS["S7"]
    assert "tests/unit/raftnode/storage/test_batch.py" in TESTS["P45"]
    assert "tests/scenarios/testdata/removed-uncommitted-must-stand.txt" in TESTS["S7"]
    assert "tests/simulation/test_mutants.py::P7-votes-twice" in TESTS["P7"]
