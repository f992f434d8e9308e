"""Semantic mutants: semantic.toml, whole rules of the core broken one at a time.

A patch names a function, a text in it and what stands there instead. It says nothing about lines,
so edits elsewhere in the function leave it as it is. Where the text is gone, or is there twice, the
patch breaks nothing any more, and reading it against the code says so.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
import tomllib
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import FunctionType
from typing import Any

FILE = Path(__file__).with_name("semantic.toml")
FIELDS = ("place", "old", "new")


class PatchError(ValueError):
    """A patch does not fit the code as it is."""


@dataclass(frozen=True)
class Change:
    """One text of one function, and what stands there instead."""

    place: str
    """A module below `raftnode` and a name in it: `core.replication.leadership:resign`."""
    old: str
    new: str


@dataclass(frozen=True)
class Patch:
    """One rule, broken."""

    name: str
    rule: str
    """The row or rule of docs/evidence/kip-map.md that it breaks."""
    source: str
    """Where such a bug was met, or was warned of."""
    story: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Part:
    """What a patch makes of one function."""

    path: Path
    owner: str | None
    """The class that it is a method of."""
    function: FunctionType
    faulty: FunctionType
    lines: frozenset[int]
    """Of the file: those that the changes replace."""


def read(path: Path = FILE) -> list[Patch]:
    """Read a file of patches. Raises KeyError where a part is missing."""
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["mutants"]
    return [
        Patch(
            entry["name"],
            entry["rule"],
            entry["source"],
            entry["story"],
            tuple(
                Change(**{field: change[field] for field in FIELDS}) for change in entry["changes"]
            ),
        )
        for entry in entries
    ]


def parts(patch: Patch) -> list[Part]:
    """Make the functions that a patch puts in the place of others, in the modules as imported.

    Raises:
        PatchError: a place is gone, or does not say what is to be replaced exactly once.
    """
    by_place = groupby(
        sorted(patch.changes, key=lambda change: change.place), key=lambda change: change.place
    )
    return [_part(patch, place, list(changes)) for place, changes in by_place]


def _part(patch: Patch, place: str, changes: list[Change]) -> Part:
    function = _function_at(patch, place)
    lines, start = inspect.getsourcelines(function)
    source, faulty = "".join(lines), "".join(lines)
    indent = source[: len(source) - len(source.lstrip(" "))]
    touched: set[int] = set()
    for change in changes:
        # `old` is written as in a function of a module; a method stands one level further in.
        old, new = (text.replace("\n", f"\n{indent}") for text in (change.old, change.new))
        if not old.strip() or faulty.count(old) != 1:
            count = faulty.count(old) if old.strip() else 0
            raise PatchError(
                f"{patch.name}: {place} says {change.old!r} {count} times, not once; write the "
                "patch again for the code as it is, in tools/mutants/semantic.toml"
            )
        at = source.find(old)
        first = start + source.count("\n", 0, at)
        touched |= set(range(first, first + old.rstrip("\n").count("\n") + 1))
        faulty = faulty.replace(old, new)
    made: dict[str, Any] = {}
    text = textwrap.dedent(faulty).removeprefix("@property\n")
    if ast.dump(ast.parse(text)) == ast.dump(ast.parse(_plain(source))):
        raise PatchError(f"{patch.name}: the code does the same with it in {place}")
    exec(
        compile(f"from __future__ import annotations\n{text}", place, "exec"),
        function.__globals__,
        made,
    )
    owner = place.partition(":")[2].rpartition(".")[0] or None
    path = Path(inspect.getfile(function))
    replacement = made[function.__name__]
    fault: FunctionType = getattr(replacement, "__func__", replacement)
    if unknown := _unknown_names(fault):
        raise PatchError(f"{patch.name}: {place} knows no {', '.join(unknown)}")
    return Part(path, owner, function, fault, frozenset(touched))


def _unknown_names(function: FunctionType) -> list[str]:
    """Names that the module has not: each test that comes to one would fail, and prove nothing."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(function)
        if instruction.opname == "LOAD_GLOBAL"
    }
    return sorted(names - function.__globals__.keys() - vars(builtins).keys())


def _plain(source: str) -> str:
    return textwrap.dedent(source).removeprefix("@property\n")


def _function_at(patch: Patch, place: str) -> FunctionType:
    module, _, name = place.partition(":")
    try:
        target: Any = reduce(getattr, name.split("."), import_module(f"raftnode.{module}"))
    except (ImportError, AttributeError) as gone:
        raise PatchError(
            f"{patch.name}: there is no {place} any more; write the patch again for the code as "
            "it is, in tools/mutants/semantic.toml"
        ) from gone
    target = target.fget if isinstance(target, property) else getattr(target, "__func__", target)
    if not isinstance(target, FunctionType):
        raise PatchError(f"{patch.name}: {place} is no function")
    return target
