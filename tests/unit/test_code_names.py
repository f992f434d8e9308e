"""The names in the code, where no linter looks (docs/contributing/writing.md)."""

from __future__ import annotations

import ast
import re
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

NOUNS = {"encoding", "framing", "matching", "scaling", "signing"}
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

REFUSED = {
    line.partition("->")[0]
    for line in (ROOT / "docs" / "contributing" / "words.txt").read_text().splitlines()
}
"""Words that codespell refuses in texts. It does not look into names."""

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


def names_with_refused_words(source: str) -> Iterator[str]:
    """Yield each function and class with a word in its name that no text may have."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            words = re.findall(r"[A-Z]?[a-z]+", node.name)
            if {word.lower() for word in words} & REFUSED:
                yield node.name


@pytest.mark.parametrize("package", [*CLEAN, "tests"])
def test_no_function_has_a_word_in_its_name_that_texts_must_not_have(package: str) -> None:
    assert [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in names_with_refused_words(path.read_text(encoding="utf-8"))
    ] == []


def test_words_of_names_are_judged_alone() -> None:
    source = "def recommend_amendment(): ...\nclass MendedDisk: ...\nasync def _ask_nobody_2(): ..."
    assert list(names_with_refused_words(source)) == ["MendedDisk", "_ask_nobody_2"]


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
