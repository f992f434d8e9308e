"""Copy what `make mutants` mutates: nothing there touches the source tree.

Usage: prepare.py DIRECTORY. The copy is a small project of its own: the package, its core's
tests, mutmut's settings. It is only brought up to date, so that a run goes on where it stopped.
"""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/scenarios", "tests/protocol", "tests/unit/raftnode/core")
"""Fast ones that see the core alone: no process, no disk, no simulated lives."""

SETTINGS = f"""\
[tool.mutmut]
source_paths = ["raftnode"]
only_mutate = ["raftnode/core/*.py"]
do_not_mutate_patterns = ['\\bfact\\(']
pytest_add_cli_args_test_selection = {list(TESTS)!r}
use_git_change_detection = false
on_dependency_change = "ignore"
# On a busy machine a mutant that takes long must not pass for one that never ends.
timeout_constant = 10.0

[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "no:cacheprovider"]
markers = [
  "rule(*rows): checks these rows",
  "scenario(*names): is these scenarios",
  "without(place, old, new): fails with that taken out",
  "taken_out: a run with that taken out; it breaks the core by itself, so no mutant is tried on it",
]
"""
CONFTEST = '''\
"""Mutants are told apart from each other only if the tests do the same each time."""

import hypothesis

hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("mutants")
'''


def unfold_properties(source: str) -> str:
    """Write `@property` as `name = property(name)` below: mutmut leaves decorated functions out.

    What a property decides (who is a voter, who may stand) is to be mutated like the rest.
    """
    lines = source.splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for function in sorted(functions, key=lambda node: node.lineno, reverse=True):
        marks = [ast.unparse(mark) for mark in function.decorator_list]
        if marks != ["property"]:
            continue
        assert function.end_lineno is not None
        indent = " " * function.col_offset
        lines.insert(function.end_lineno, f"{indent}{function.name} = property({function.name})")
        del lines[function.decorator_list[0].lineno - 1]
    return "\n".join(lines) + "\n"


def put(path: Path, text: str) -> None:
    """Write a file if it does not say so already: mutmut goes by modification times."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def prepare(work: Path) -> None:
    """Bring the copy that is mutated up to date with the source tree."""
    package = ROOT / "raftnode" / "raftnode"
    for source in package.rglob("*.py"):
        name = source.relative_to(package)
        text = source.read_text(encoding="utf-8")
        put(work / "raftnode" / name, unfold_properties(text) if name.parts[0] == "core" else text)
    for copy in (work / "raftnode").rglob("*.py"):
        if not (package / copy.relative_to(work / "raftnode")).exists():
            copy.unlink()
            (work / "mutants" / copy.relative_to(work)).unlink(missing_ok=True)
    for tests in TESTS:
        for tree in (work / tests, work / "mutants" / tests):
            shutil.rmtree(tree, ignore_errors=True)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / tests, work / tests, ignore=ignore)
    put(work / "tests" / "conftest.py", CONFTEST)
    put(work / "pyproject.toml", SETTINGS)


if __name__ == "__main__":
    target = Path(sys.argv[1]).absolute()
    target.mkdir(parents=True, exist_ok=True)
    prepare(target)
