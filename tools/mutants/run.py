"""Mutation testing of raftnode/core: which small faults do the core's tests not see?

mutmut makes thousands of copies of the core's functions, each with one small fault (a
comparison turned, an argument dropped, a constant raised); trial.py runs the tests that reach
it. What no test sees survives. `make mutants` prints the score of each module and writes the
survivors, as diffs, to report.md: those first that survivors.toml does not explain.

Started in a directory that prepare.py made: mutmut reads its settings there on import. Mutants
are tried in an order that is the same each time and has nothing to do with what they are, so
that a run cut short (`--seconds`) has tried a fair sample. The next one goes on where it
stopped; after a change only the functions that changed are tried again, and survivors when
tests changed (`--again`).

What is not mutated: the words of log lines (`replica.fact(...)`) and of messages, for which
no test is wanted; everything outside functions; docstrings.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import os
import sys
import textwrap
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import libcst
import pytest
import survivors
from changed_lines import changed_lines, function_named, touched_lines
from mutmut.__main__ import create_mutants
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.data import MutantLineSpans, SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import copy_src_dir
from mutmut.utils.format_utils import (
    mangled_name_from_mutant_name,
    orig_function_and_class_names_from_key,
)
from prepare import TESTS
from trial import NO_TESTS, SURVIVED, Mutant, Trial

ROOT = Path(__file__).resolve().parents[2]
SCORE_MIN = 90.0
"""Percent of the mutants that must be noticed."""
UNNOTICED = {SURVIVED, NO_TESTS, 5}
ALIVE = {status_by_exit_code[code] for code in UNNOTICED}


class Store:
    """What became of each mutant, kept in mutmut's own files."""

    def __init__(self) -> None:
        """Read what is known of the modules in the present directory."""
        self.modules: dict[str, SourceFileMutationData] = {}
        for path in sorted(Path("raftnode/core").rglob("*.py")):
            data = SourceFileMutationData(path=path)
            data.load()
            if data.exit_code_by_key:
                self.modules[path.stem] = data

    def put(self, mutant: Mutant, code: int) -> None:
        """Take down the exit code of a mutant's tests."""
        self.modules[mutant.module.stem].exit_code_by_key[mutant.name] = code

    def save(self) -> None:
        """Write all down."""
        for data in self.modules.values():
            data.save()

    def outcomes(self) -> dict[str, dict[str, str]]:
        """What became of each mutant, in words, by module of the core."""
        return {
            module: {
                name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()
            }
            for module, data in self.modules.items()
        }

    def chosen(self, modules: list[str], *, again: bool) -> list[str]:
        """Return what to try of some modules, or of all: what no run has decided.

        With `again` it is what survived, unless survivors.toml says that it may.
        """
        if unknown := set(modules) - self.modules.keys():
            raise SystemExit(f"no such module of the core: {', '.join(sorted(unknown))}")
        reasons = survivors.read()
        names = [
            name
            for module, data in self.modules.items()
            if not modules or module in modules
            for name, code in data.exit_code_by_key.items()
            if (code in UNNOTICED and explained(reasons, name) is None if again else code is None)
        ]
        return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())


def generate(jobs: int) -> None:
    """Make the mutants of all functions that changed since the last time."""
    file_mutation.mutation_operators = [  # pyright: ignore[reportPrivateImportUsage]
        (kind, operator)
        for kind, operator in mutators.mutation_operators
        if kind is not libcst.BaseString
    ]
    Path("mutants").mkdir(exist_ok=True)
    copy_src_dir()
    create_mutants(jobs)


@cache
def known_of(path: Path) -> tuple[ast.Module, MutantLineSpans]:
    """Read a module without faults, and where its mutants stand in the generated one."""
    spans = MutantLineSpans.load(path)
    assert spans is not None, path
    return ast.parse(path.read_text(encoding="utf-8")), spans


def load(name: str) -> Mutant:
    """Make the function that a mutant puts in the place of another, in the module as imported."""
    function, owner = orig_function_and_class_names_from_key(name)
    module_name = mangled_name_from_mutant_name(name).rpartition(".")[0]
    module = importlib.import_module(module_name)
    path = Path(*module_name.split(".")).with_suffix(".py")
    assert Path(module.__file__ or "") == path.absolute(), f"{module.__file__} is not the copy"
    tree, spans = known_of(path)
    generated = name.rpartition(".")[2]
    original = mangled_name_from_mutant_name(generated) + "__mutmut_orig"
    before, after = (
        textwrap.dedent(source) for source in spans.read_function_sources([original, generated])
    )

    known = function_named(tree, function, owner)
    shift = known.lineno - function_named(ast.parse(before), original, None).lineno
    before, after = before.replace(original, function), after.replace(generated, function)
    changed = changed_lines(before.splitlines(), after.splitlines())
    lines = touched_lines(known, {line + 1 + shift for line in changed})

    made: dict[str, FunctionType] = {}
    exec(f"from __future__ import annotations\n{after}", module.__dict__, made)
    space = vars(getattr(module, owner) if owner else module)
    member: Any = space[function]
    target: Any = (
        member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    )
    assert isinstance(target, FunctionType), name
    return Mutant(name, path, frozenset(lines), (target, made[function]))


def try_all(store: Store, names: list[str], jobs: int, seconds_max: float) -> None:
    """Try mutants until all are decided or the time is up."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT / "raftnode"]
    sys.path.insert(0, str(Path.cwd()))
    trial = Trial(names, load, store.put, store.save, jobs=jobs, seconds_max=seconds_max)
    arguments = ["--rootdir=.", "--quiet", "--capture=no", "--assert=plain", "-m", "not taken_out"]
    arguments += TESTS
    if code := pytest.main(arguments, plugins=[trial]):
        raise SystemExit(f"pytest ended with {code}")


def report(statuses: dict[str, dict[str, str]]) -> bool:
    """Print the score of each module, write the survivors; returns whether all is as wanted."""
    lines = [
        "| module | mutants | noticed | of these endless | survived | no test | not tried | score |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    total = Counter[str]()
    for module, mutants in statuses.items():
        count = Counter(mutants.values())
        total += count
        lines.append(row(f"core/{module}", count))
    lines.append(row("all", total))
    print("\n".join(lines))

    reasons = survivors.read()
    parts: dict[bool, list[str]] = defaultdict(list)
    for name in alive(statuses):
        why = explained(reasons, name)
        diff = get_diff_for_mutant(name)
        parts[why is None].append(f"\n## {name}\n\n{why or ''}\n\n```diff\n{diff}\n```")
    path = Path("report.md").absolute()
    path.write_text("\n".join([*lines, *parts[True], *parts[False]]) + "\n", encoding="utf-8")
    open_, known = len(parts[True]), len(parts[False])
    print(f"survivors: {known} explained, {open_} not: {path}")
    return score(total) >= SCORE_MIN and not open_


def explained(reasons: list[survivors.Reason], name: str) -> str | None:
    """Say why a mutant may survive; None: it should not."""
    return survivors.why(reasons, survivors.changes(name, get_diff_for_mutant(name)))


def alive(statuses: dict[str, dict[str, str]]) -> list[str]:
    """Return the mutants that no test noticed."""
    return [
        name for mutants in statuses.values() for name, status in mutants.items() if status in ALIVE
    ]


def score(count: Counter[str]) -> float:
    """Percent that was noticed, of those that were tried; a mutant that never ends is noticed."""
    tried = count.total() - count["not checked"]
    return 100 * (tried - sum(count[status] for status in ALIVE)) / max(tried, 1)


def row(name: str, count: Counter[str]) -> str:
    """One line of the table."""
    survived, bare, open_ = count["survived"], count["no tests"], count["not checked"]
    noticed = count.total() - survived - bare - open_
    endless = count["timeout"]
    tried = f"{score(count):.1f} %" if open_ < count.total() else ""
    cells = [name, count.total(), noticed, endless, survived, bare, open_, tried]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main() -> int:
    """Run, report."""
    parser = argparse.ArgumentParser(description="Mutation testing of raftnode/core.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", action="store_true", help="only say how far it is")
    parser.add_argument("--again", action="store_true", help="only what survived before")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more then")
    parser.add_argument("modules", nargs="*", help="of the core, such as election; default: all")
    args = parser.parse_args()
    if not args.report:
        generate(args.jobs)
        store = Store()
        if names := store.chosen(args.modules, again=args.again):
            try_all(store, names, args.jobs, args.seconds)
    return 0 if report(Store().outcomes()) else 1


if __name__ == "__main__":
    sys.exit(main())
