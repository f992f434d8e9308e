"""The names of modules, local variables and arguments (docs/contributing/writing.md).

No linter checks them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

VAGUE = {"found", "late", "one", "seen", "told"}
"""Words that say neither the type nor the role of a value."""

CLEAN = (
    "raftnode/raftnode",
    "operator/kraftquorum_operator",
    "observability/kraftquorum_observability",
    "pipeline/kraftquorum_pipeline",
    "proofkit/proofkit",
    "devcluster/kraftquorum_devcluster",
    "demo/kraftquorum_demo",
    "bench/kraftquorum_bench",
    "tools",
)
"""The packages without such names. A package that loses its last one is added here."""

NOUNS = {"encoding", "framing", "matching", "scaling"}
"""Nouns of the field that end in -ing. Log matching is a property of Raft."""

METAPHORS = {
    "bell",
    "beside",
    "director",
    "finale",
    "ground",
    "ours",
    "scene",
    "seat",
    "spoil",
    "stage",
    "strangers",
}
"""Names that modules had. A metaphor that returns elsewhere is added here."""

SHADES = """
def vote(found, *, late=False, **told):
    one, (seen, *rest) = found
    return [one for one in rest if (seen := one)]
try:
    import late
    from clock import now as seen
except OSError as told:
    with told as (found, right): pass
match right:
    case {"one": one, **found}: pass
    case [*late] | late: pass
lambda told: told.found(late=1)
class Reader:
    found: int
"""


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each local variable, argument and field that is vague."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names = [name]
            case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.ExceptHandler(name=name):
                names = [name]
            case ast.MatchMapping(rest=name):
                names = [name]
            case ast.alias(name=name, asname=alias):
                names = [alias or name]
            case _:
                continue
        for name in names:
            if name in VAGUE:
                yield getattr(node, "lineno", 0), name


def is_refused(module: str) -> bool:
    """Whether a module's name is a metaphor, or a gerund: its last word says what it holds."""
    last_word = module.rpartition("_")[2]
    return module in METAPHORS or (last_word.endswith("ing") and last_word not in NOUNS)


@pytest.mark.parametrize("package", CLEAN)
def test_a_module_has_the_name_of_what_it_holds(package: str) -> None:
    paths = sorted((ROOT / package).rglob("*.py"))
    assert paths
    refused = [str(path.relative_to(ROOT)) for path in paths if is_refused(path.stem)]
    assert refused == [], "name it by a noun of the field: kept_files, watch_filter"


def test_gerunds_and_metaphors_are_refused_as_names_of_modules() -> None:
    names = ["keeping", "snapshot_serving", "stage", "hanging_disk", "log_matching", "environment"]
    assert [name for name in names if is_refused(name)] == ["keeping", "snapshot_serving", "stage"]


@pytest.mark.parametrize("package", CLEAN)
def test_no_local_variable_or_argument_has_a_name_without_type_or_role(package: str) -> None:
    paths = sorted((ROOT / package).rglob("*.py"))
    assert paths
    vague = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, name in sorted(vague_names(path.read_text(encoding="utf-8")))
    ]
    assert vague == [], "name it by its type or role: voters, deadline_ms, snapshot_id"


def test_each_way_to_bind_a_name_is_judged() -> None:
    assert sorted(vague_names(SHADES)) == [
        (2, "found"),
        (2, "late"),
        (2, "told"),
        (3, "one"),
        (3, "seen"),
        (4, "one"),
        (4, "seen"),
        (6, "late"),
        (7, "seen"),
        (8, "told"),
        (9, "found"),
        (11, "found"),
        (11, "one"),
        (12, "late"),
        (12, "late"),
        (13, "told"),
        (15, "found"),
    ]
