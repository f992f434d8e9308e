"""TLC checks the specification, and sees when a rule of it is missing."""

import re
from pathlib import Path

import pytest

from proofkit.specification import models, tlc
from proofkit.specification.models import FULL, MUTANTS, SMOKE

pytestmark = [pytest.mark.tlc, pytest.mark.timeout(300)]


@pytest.mark.rule("P63")
@pytest.mark.parametrize("name", SMOKE)
def test_every_state_of_a_small_world_is_safe(name):
    world, counts = SMOKE[name]
    outcome = models.check(world)
    assert outcome.violated is None, outcome.behaviour
    assert outcome.complete
    assert (outcome.states, outcome.depth) == counts


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FULL)
def test_every_state_of_a_larger_world_is_safe(name):
    world, counts = FULL[name]
    outcome = models.check(world, long=True)
    assert outcome.violated is None, outcome.behaviour
    assert outcome.complete
    assert (outcome.states, outcome.depth) == counts


@pytest.mark.parametrize("name", MUTANTS)
def test_a_specification_without_a_rule_is_unsafe(name):
    mutant = MUTANTS[name]
    outcome = models.check(mutant.world, mutant)
    assert outcome.violated == mutant.violated, outcome.output[-2000:]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_replaces_a_definition_that_there_is(name):
    """TLC ignores a replacement of what nothing uses."""
    mutant = MUTANTS[name]
    rules = (tlc.MODULES / "KRaftQuorum.tla").read_text()
    assert len(re.findall(rf"\b{mutant.replaced}\(", rules)) > 1
    assert re.search(rf"^{mutant.by}\(", (tlc.MODULES / "Mutants.tla").read_text(), re.MULTILINE)


def test_a_module_that_is_wrong_is_reported():
    files = {"Wrong.tla": "---- MODULE Wrong ----\nNext == x\n====\n", "Wrong.cfg": "NEXT Next\n"}
    with pytest.raises(tlc.TlcError, match="x"):
        tlc.run("Wrong", files)


def test_two_runs_share_no_file():
    """TLC deletes its own modules at its end, which another run may be about to read."""
    files = {"Small.tla": "---- MODULE Small ----\nEXTENDS Naturals\n====\n", "Small.cfg": ""}
    output = tlc.run("Small", files).output
    parsed = [Path(path) for path in re.findall(r"Parsing file (\S+)", output)]
    assert {"Small.tla", "Naturals.tla"} <= {path.name for path in parsed}
    assert len({path.parent for path in parsed}) == 1
