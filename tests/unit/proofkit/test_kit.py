"""What the proof kit says of itself is true: its examples run, and it names all that it has."""

import doctest
import pkgutil
import re

import proofkit


def test_the_examples_of_the_kit_do_what_they_say():
    found = doctest.testmod(proofkit)
    assert found.attempted > 15
    assert found.failed == 0


def test_the_kit_names_each_of_its_modules():
    assert proofkit.__doc__ is not None
    named = re.findall(r"^- ((?:`\w+`(?:, )?)+): ", proofkit.__doc__, re.MULTILINE)
    modules = {module.name for module in pkgutil.iter_modules(proofkit.__path__)}
    assert set(re.findall(r"\w+", " ".join(named))) == modules
