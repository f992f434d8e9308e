"""docs/evidence/kip-map.md tells the truth: every row, what it names, and the tests that name it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import generate_kip_map

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = 64
OURS = 36
"""S1 to S30 are fixed; those after them were found since."""


ROWS = generate_kip_map.rows()
TESTS = generate_kip_map.claims()
STARRED = generate_kip_map.taken_out()
EXCUSED = generate_kip_map.NOTHING_TAKEN_OUT
BUILT = [name for name, row in ROWS.items() if row["state"] in {"built", "partly"}]


def test_every_row_is_there_in_order():
    expected = [f"P{n}" for n in range(1, DOCUMENTS + 1)] + [f"S{n}" for n in range(1, OURS + 1)]
    assert list(ROWS) == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_complete(name: str):
    row = ROWS[name]
    assert set(row) <= {"group", "asks", "from", "state", "differs", "where"}
    assert row["state"] in generate_kip_map.STATES
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
        if not any((home / file).exists() for home in generate_kip_map.HOMES)
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
    assert generate_kip_map.PAGE.read_text() == generate_kip_map.render(), "run: make reference"


def test_tests_are_found_by_all_ways_of_naming_a_row():
    """By a decorator, a whole file's mark, a golden script's first line, a mutant's name."""
    assert "tests/scenarios/test_elections.py::test_removed_uncommitted_must_stand" in TESTS["S7"]
    assert "tests/unit/raftnode/logformat/test_batch.py" in TESTS["P45"]
    assert "tests/scenarios/testdata/removed-uncommitted-must-stand.txt" in TESTS["S7"]
    assert "tests/simulation/test_mutants.py::P7-votes-twice" in TESTS["P7"]


@pytest.mark.parametrize("name", BUILT)
def test_all_code_of_a_row_is_broken_once_and_a_test_of_the_row_fails(name: str):
    broken = {file for files in STARRED.get(name, {}).values() for file in files}
    whole = [file for file in ROWS[name]["where"] if file not in broken and file not in EXCUSED]
    assert whole == [], (
        f"no test of {name} is run without something of these files: put `@pytest.mark.without` "
        "on one, or say in NOTHING_TAKEN_OUT of tools/generate_kip_map.py why none can be"
    )
    assert STARRED.get(name) or set(ROWS[name]["where"]) <= set(EXCUSED)


def test_only_what_a_row_names_and_no_test_breaks_is_excused():
    named = {file for name in BUILT for file in ROWS[name]["where"]}
    broken = {file for tests in STARRED.values() for files in tests.values() for file in files}
    assert set(EXCUSED) <= named - broken


def test_a_star_is_for_tests_that_are_known_to_need_what_they_are_about():
    durability = "tests/scenarios/test_durability.py::"
    assert f"{durability}test_single_node_lost_write" in STARRED["P44"]
    assert "tests/explorer/test_explorer.py::P7-votes-twice" in STARRED["P7"]
    assert f"{durability}test_confirmed_answer_in_a_quiet_quorum" not in STARRED["P44"]
    page = generate_kip_map.PAGE.read_text()
    assert "`test_single_node_lost_write`\\*" in page
    assert "Code: `core/log_index.py`\\*" in page
    assert "- Semantic mutants: `vote-for-a-shorter-log`, " in page
