"""Each test that `make test` leaves out is run by the gate, or at night."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
VARIABLES = dict(re.findall(r"^([A-Z_]+) :?= (.*)$", MAKEFILE, re.MULTILINE))
RECIPES = dict(
    re.findall(
        r"^([a-z][a-z0-9-]*):.*\n((?:\t.*\n|(?:ifdef|else|endif).*\n)+)", MAKEFILE, re.MULTILINE
    )
)
NEEDS_MORE = VARIABLES["NEEDS_MORE"].split(" or ")


def marks_of(recipe: str) -> set[str]:
    """The marks of the tests that a recipe runs."""
    text = re.sub(r"\$\((\w+)\)", lambda name: VARIABLES.get(name[1], ""), recipe)
    chosen = [a or b for a, b in re.findall(r'pytest\b.* -m (?:"([^"]*)"|(\w+))', text)]
    return {
        mark
        for expression in chosen
        for mark in re.findall(r"\w+", re.sub(r"not (\([^()]*\)|\w+)", "", expression))
    }


def targets_of(path: str) -> set[str]:
    text = (ROOT / path).read_text()
    return set(re.findall(r"\bmake (?:--?\S+ )*([a-z][a-z0-9-]*)", text))


@pytest.mark.parametrize("mark", NEEDS_MORE)
def test_tests_with_a_mark_of_their_own_have_a_target_that_is_run(mark: str) -> None:
    running = {target for target, recipe in RECIPES.items() if mark in marks_of(recipe)}
    assert running, f"no target of the Makefile runs the tests with the mark {mark}"
    run = targets_of(".ci/run") | targets_of(".github/workflows/nightly.yml")
    assert running & run, f"neither the gate nor nightly.yml runs make {' or '.join(running)}"


def test_a_mark_that_is_left_out_is_not_taken_for_one_that_is_run() -> None:
    assert marks_of('\t$(BIN)/pytest -m "$(EXTENDED)" -q\n') == {"extended", "and"}
    assert "image" not in marks_of('\t$(BIN)/pytest -m "$(UNIT)" -q\n')
