"""Write docs/evidence/scenarios.md: accidents by name, their tests, and what those need to pass.

What happened stands in docs/evidence/scenarios.toml. Tests say by themselves what they are:

- `@pytest.mark.scenario("two-adds")` on a test, or in `pytestmark` for all of a file;
- `@pytest.mark.without("core.membership.voter_changes:obstacle", "if ...:", "if False:")` on the
  same test: what is taken out of the code when it runs once more, and must fail
  (tools/without.py);
- a golden script has the scenario's name.

Tests are read, not imported. A mark may stand in a name of its file.
"""

from __future__ import annotations

import ast
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "evidence" / "scenarios.toml"
PAGE = ROOT / "docs" / "evidence" / "scenarios.md"
TESTS = ROOT / "tests"
SCRIPTS = TESTS / "scenarios" / "testdata"

HEAD = """\
<!-- Made by tools/generate_scenarios.py from scenarios.toml and the tests; do not edit. -->

# Accidents by name

Others have built quorums before, and have written down what went wrong. What of that concerns
the core has a name, which the tests of it bear, and so have three ways to lose data that the
documents leave open; each is told here in a sentence, as it would be here. What keeps it from
happening is taken out of the code when such a test runs once more, and then the test must fail,
else `make test` does. So it is no claim that the tests would miss what stands here as taken out:
they do, each time, by what they themselves assert: what is asserted behind it, in the code or by
the table at which replicas play, is taken out with it. `tools/without.py` does that.
"""


@dataclass(frozen=True)
class Case:
    """A test of scenarios, or one that is run without something."""

    path: str
    test: str
    names: tuple[str, ...]
    """Of the scenarios that it is; none: it is of a rule."""
    cuts: tuple[tuple[str, ...], ...]
    """What is taken out, each by itself: triples of place, old and new."""


def rows() -> dict[str, dict[str, str]]:
    """Every scenario by its name, in order."""
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


def cases() -> list[Case]:
    """What the tests say."""
    found: list[Case] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += _cases_of(path.relative_to(ROOT).as_posix(), tree)
    return found


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


def _calls(mark: ast.expr, assigned: dict[str, ast.expr]) -> Iterator[tuple[str, tuple[str, ...]]]:
    match mark:
        case ast.List(elts=marks):
            for one in marks:
                yield from _calls(one, assigned)
        case ast.Name(id=name) if name in assigned:
            yield from _calls(assigned[name], assigned)
        case ast.Call(func=ast.Attribute(attr="scenario" | "without" as kind), args=values):
            yield kind, tuple(ast.literal_eval(value) for value in values)
        case _:
            pass


def script_of(name: str) -> Path | None:
    """The golden script of a scenario."""
    path = SCRIPTS / f"{name}.txt"
    return path if path.exists() else None


def render() -> str:
    """Make the page."""
    return "\n".join(_page()).rstrip() + "\n"


def _page() -> Iterator[str]:
    told, tested = rows(), cases()
    yield HEAD
    yield "| scenario | happened in | taken out of |\n|---|---|---|"
    for name, row in told.items():
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
    for name, row in told.items():
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
