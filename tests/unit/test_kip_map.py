"""docs/explain/kip-map.md tells the truth: every row is there, every file and test exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explain/kip-map.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| P\d+ \|", line)]
HOMES = [ROOT / "raftnode/raftnode", ROOT / "operator/kraftquorum_operator", ROOT]
LAST = 62


def cells(row):
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_every_requirement_has_one_row_in_order():
    assert [int(cells(row)[0][1:]) for row in ROWS] == list(range(1, LAST + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: cells(row)[0])
def test_a_row_is_complete(row):
    number, asks, documents, state, where, shown = cells(row)
    assert asks.endswith("."), number
    assert re.fullmatch(r"[A-E](, [A-E])*", documents), documents
    word = re.match(r"built|partly|not yet|not built|nothing to build", state)
    assert word, f"{number}: {state!r} is no state"
    if word[0] in {"built", "partly"}:
        assert where, f"{number} is {word[0]} and says not where"
    if word[0] != "built" and word[0] != "nothing to build":
        assert len(state) > len(word[0]) + 2, f"{number} says not what is missing or why"
    if shown:
        assert where, f"{number} is shown by a test but is nowhere"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: cells(row)[0])
def test_what_a_row_names_exists(row):
    for name in re.findall(r"`([^`]+)`", " ".join(cells(row)[4:])):
        path, _, test = name.partition("::")
        found = [home / path for home in HOMES if (home / path).exists()]
        assert found, f"{path} does not exist"
        if test:
            assert f"def {test}(" in found[0].read_text(), f"{test} is not in {path}"


def test_every_row_cited_in_sources_and_tests_is_one_of_them():
    strangers = [
        f"{path.relative_to(ROOT)}: P{number}"
        for folder in ("raftnode", "operator", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number in re.findall(r"\bP(\d+)\b", path.read_text())
        if not 1 <= int(number) <= LAST
    ]
    assert strangers == []
