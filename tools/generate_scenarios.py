"""Write docs/evidence/scenarios.md: accidents by name, their tests, and the code that they need.

docs/evidence/scenarios.toml describes what happened. The tests name their scenarios:

- `@pytest.mark.scenario("two-adds")` on a test, or in `pytestmark` for all of a file;
- `@pytest.mark.without("core.membership.voter_changes:obstacle", "if ...:", "if False:")` on the
  same test: the text that is taken out of the code for a second run, which must fail
  (tools/without.py);
- a golden script has the scenario's name.

The tool parses the tests and does not import them. A mark may be in a variable of the file.
"""

from __future__ import annotations

import ast
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "evidence" / "scenarios.toml"
PAGE = ROOT / "docs" / "evidence" / "scenarios.md"
TESTS = ROOT / "tests"
SCRIPTS = TESTS / "scenarios" / "testdata"

HEAD = """\
<!-- Made by tools/generate_scenarios.py from scenarios.toml and the tests; do not edit. -->

# Accidents by name

Developers of other quorums have written down what went wrong. Each of these accidents that concerns
the core has a name here, which its tests carry. So have three ways to lose data that the documents
leave open. Each section describes the accident as it would happen in this implementation. Its tests
also run without the code that prevents the accident. They must then fail by their own assertions,
or `make test` fails. If the code, or the table at which replicas play in a test, has an assertion
behind the rule, that is taken out too (`tools/without.py`).
"""


@dataclass(frozen=True)
class Case:
    """A test of scenarios, or a test that also runs with code taken out."""

    path: str
    test: str
    names: tuple[str, ...]
    """Its scenarios; empty: it is the test of a rule."""
    cuts: tuple[tuple[str, ...], ...]
    """The cuts, each made by itself: triples of place, old and new."""


def rows() -> dict[str, dict[str, str]]:
    """Every scenario by its name, in order."""
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


@cache
def cases() -> list[Case]:
    """Every case, read from the tests."""
    cases: list[Case] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        cases += _cases_of(path.relative_to(ROOT).as_posix(), tree)
    return cases


def _cases_of(path: str, tree: ast.Module) -> Iterator[Case]:
    assigned = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        marks = [*node.decorator_list, assigned.get("pytestmark", ast.Constant(None))]
        called = [*itertools.chain(*(_calls(mark, assigned) for mark in marks))]
        names = tuple(name for kind, values in called if kind == "scenario" for name in values)
        cuts = tuple(values for kind, values in called if kind == "without")
        if names or cuts:
            yield Case(path, node.name, names, cuts)


def _calls(value: ast.expr, assigned: dict[str, ast.expr]) -> Iterator[tuple[str, tuple[str, ...]]]:
    match value:
        case ast.List(elts=marks):
            for mark in marks:
                yield from _calls(mark, assigned)
        case ast.Name(id=name) if name in assigned:
            yield from _calls(assigned[name], assigned)
        case ast.Call(func=ast.Attribute(attr="scenario" | "without" as kind), args=values):
            yield kind, tuple(itertools.chain(*(_texts(value, assigned) for value in values)))
        case _:
            pass


def _texts(value: ast.expr, assigned: dict[str, ast.expr]) -> Iterator[str]:
    """The strings that an argument of a mark stands for, names of its file among them."""
    match value:
        case ast.Name(id=name):
            yield from _texts(assigned[name], assigned)
        case ast.Starred(value=inner):
            yield from _texts(inner, assigned)
        case ast.Tuple(elts=parts):
            for part in parts:
                yield from _texts(part, assigned)
        case ast.JoinedStr(values=parts):
            yield "".join(itertools.chain(*(_texts(part, assigned) for part in parts)))
        case ast.FormattedValue(value=inner):
            yield from _texts(inner, assigned)
        case _:
            yield ast.literal_eval(value)


def script_of(name: str) -> Path | None:
    """The golden script of a scenario."""
    path = SCRIPTS / f"{name}.txt"
    return path if path.exists() else None


def render() -> str:
    """Make the page."""
    return "\n".join(_page()).rstrip() + "\n"


def _page() -> Iterator[str]:
    scenarios, tested = rows(), cases()
    yield HEAD
    yield "| scenario | happened in | taken out of |\n|---|---|---|"
    for name, row in scenarios.items():
        places = dict.fromkeys(
            place
            for case in tested
            if name in case.names
            for cut in case.cuts
            for place in cut[::3]
        )
        said = ", ".join(f"`{place.partition(':')[2]}`" for place in places)
        yield f"| [{_shown(name)}](#{name.replace('<', '')}) | {row['source']} | {said} |"
    yield ""
    for name, row in scenarios.items():
        yield f"## {_shown(name)}\n"
        here = f" {row['here']}" if "here" in row else ""
        yield f"{row['went']}{here}\n"
        for case in tested:
            if name in case.names:
                yield from _case(case)
        if (script := script_of(name)) is not None:
            yield f"- [{script.name}](../../{script.relative_to(ROOT).as_posix()}), step by step"
        yield ""


def _shown(name: str) -> str:
    return name.replace("<", "&lt;")


def _case(case: Case) -> Iterator[str]:
    tail = ", fails" if case.cuts else ""
    yield f"- `{case.test}` in [{Path(case.path).name}](../../{case.path}){tail}"
    for cut in case.cuts:
        steps = [_step(*cut[at : at + 3]) for at in range(0, len(cut), 3)]
        yield f"  - with {' and '.join(steps)}"


def _step(place: str, old: str, new: str) -> str:
    instead = f"replaced by {_code(new)}" if new.strip() else "left out"
    return f"{_code(old)} of `{place}` {instead}"


def _code(text: str) -> str:
    said = [line.partition("  # noqa")[0].strip() for line in text.splitlines()]
    lines = [line for line in said if line]
    joined = "".join(line + (" " if line.endswith(":") else "; ") for line in lines)
    return f"`{joined.removesuffix('; ').strip()}`"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"written: {PAGE.name}")
