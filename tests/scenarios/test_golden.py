"""Golden scripts: `testdata/*.txt` says what each command makes the replicas do, to the word.

After a wanted change of behaviour: `pytest tests/scenarios --rewrite-scenarios`, and
explain the diff in the commit.
"""

from pathlib import Path

import pytest

from proofkit.playbook import run_script
from proofkit.playbook.script import ScriptError

SCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_goes_as_written(path: Path, request: pytest.FixtureRequest):
    written = path.read_text()
    really = run_script(written)
    if request.config.getoption("--rewrite-scenarios", default=False):
        path.write_text(really)
        return
    assert really.splitlines() == written.splitlines()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_says_which_rule_it_is_about(path: Path):
    assert path.read_text().startswith("# ")


def test_unknown_command_is_an_error():
    with pytest.raises(ScriptError, match="no such command: dance 1"):
        run_script("> dance 1\n")


def test_result_without_its_indent_is_an_error():
    with pytest.raises(ScriptError, match="neither a command"):
        run_script("1 leads\n")
