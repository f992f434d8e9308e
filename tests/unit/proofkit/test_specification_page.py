"""docs/evidence/specification.md has the worlds, mutants and properties that the tests check."""

import re
from pathlib import Path

from proofkit.specification import models, tlc
from proofkit.specification.models import FULL, MUTANTS, SMOKE

PAGE = (Path(__file__).parents[3] / "docs" / "evidence" / "specification.md").read_text()


def test_the_page_has_the_bounds_and_figures_of_each_world():
    for worlds, target in ((SMOKE, "make spec"), (FULL, "make nightly")):
        for name, (world, (states, depth)) in worlds.items():
            assert f"| `{name}` | {world} | {states:,} | {depth} | {target} |\n" in PAGE


def test_the_page_names_each_mutant_with_the_definition_that_it_replaces():
    for name, mutant in MUTANTS.items():
        row = rf"^\| `{name}` \| `{mutant.replaced}` \| [^|]+ \| `{mutant.violated}` \|$"
        assert re.search(row, PAGE, re.MULTILINE), name


def test_the_page_names_each_property_and_the_module_has_it():
    module = (tlc.MODULES / "KRaftQuorum.tla").read_text()
    for name in {*models.INVARIANTS, *models.PROPERTIES} - {"TypeOK"}:
        assert f"`{name}`" in PAGE
        assert f"\n{name} ==" in module
