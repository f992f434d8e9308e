"""docs/concepts/security.md: each defence names a test that there is, and each actor is judged."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PAGE = Path("docs/concepts/security.md").read_text()
TESTS = re.findall(r"`(tests/[^`]+\.py)::([^`]+)`", PAGE)
ACTORS = (
    "client",
    "node of another cluster",
    "neighbour pod",
    "stolen volume",
    "compromised node",
    "compromised operator",
    "dependency",
)


def section_of(actor: str) -> str:
    return PAGE.partition(f"\n## A {actor}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("path", "name"), sorted(set(TESTS)))
def test_each_named_test_exists(path: str, name: str) -> None:
    tree = ast.parse(Path(path).read_text())
    functions = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in functions


@pytest.mark.parametrize("actor", ACTORS)
def test_each_actor_has_its_defences_and_what_is_not_defended(actor: str) -> None:
    assert f"| {actor} |" in PAGE
    section = section_of(actor)
    assert "\nNot defended" in section
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        assert re.search(r"`tests/[^`]+::test_[^`]+` \|$", row), row


def test_no_defence_is_without_a_row() -> None:
    assert len(TESTS) == sum(
        line.startswith("| ") and "`tests/" in line for line in PAGE.splitlines()
    )
