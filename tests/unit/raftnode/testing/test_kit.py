"""What the proof kit says of itself is true: its examples run, and it names all that it has."""

import doctest
import pkgutil
import re

from raftnode import testing


def test_the_examples_of_the_kit_do_what_they_say():
    found = doctest.testmod(testing)
    assert found.attempted > 15
    assert found.failed == 0


def test_the_kit_names_each_of_its_modules():
    assert testing.__doc__ is not None
    named = re.findall(r"^- ((?:`\w+`(?:, )?)+): ", testing.__doc__, re.MULTILINE)
    modules = {module.name for module in pkgutil.iter_modules(testing.__path__)}
    assert set(re.findall(r"\w+", " ".join(named))) == modules
