"""No fork in a process that has threads or an event loop: a child would inherit their locks."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule("S29")

ROOT = Path(__file__).resolve().parents[3]
FORKS = {"fork", "forkpty", "multiprocessing", "ProcessPoolExecutor", "set_start_method"}


def names_in(path: Path) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found |= set(name.split("."))
            case ast.ImportFrom(module=str(module)):
                found |= set(module.split("."))
            case _:
                pass
    return found


def test_nothing_that_a_node_or_the_operator_runs_forks():
    sources = [
        path
        for package in ("raftnode/raftnode", "operator/kraftquorum_operator")
        for path in (ROOT / package).rglob("*.py")
        if "testing" not in path.parts
    ]
    assert len(sources) > 100
    assert {str(path): found for path in sources if (found := FORKS & names_in(path))} == {}


def test_ruff_refuses_a_fork_everywhere():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    banned = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert banned["os.fork"]["msg"].startswith("S29")


@pytest.mark.parametrize(("options", "refused"), [((), True), (("--ignore", "TID251"), False)])
def test_a_fork_that_is_written_anywhere_is_refused(options: tuple[str, ...], refused: bool):
    """Run as `make lint` does, and once more with the rule taken out."""
    ruff = [str(Path(sys.executable).parent / "ruff"), "check", "--select", "TID251", *options]
    done = subprocess.run(
        [*ruff, "--stdin-filename", "raftnode/raftnode/runtime/forking.py", "-"],
        input="import os\n\nos.fork()\n",
        capture_output=True,
        cwd=ROOT,
        text=True,
        check=False,
    )
    assert (done.returncode, "S29" in done.stdout) == (int(refused), refused), done.stderr


def test_the_map_of_rules_names_every_exception():
    """Tools and helpers of tests fork too: a test that needs another fork has to say so there."""
    sources = [
        path
        for folder in (
            "raftnode",
            "operator",
            "devcluster",
            "demo",
            "proofkit",
            "pipeline",
            "tools",
            "tests",
        )
        for path in (ROOT / folder).rglob("*.py")
    ]
    forking = {
        str(path.relative_to(ROOT))
        for path in sources
        if any(
            isinstance(node, ast.Attribute) and node.attr == "fork"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    rows = tomllib.loads((ROOT / "docs" / "evidence" / "kip-map.toml").read_text())
    assert forking == set(re.findall(r"`([\w/]+\.py)`", rows["S29"]["differs"]))
