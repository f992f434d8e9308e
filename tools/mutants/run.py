"""Mutation testing of raftnode/core with mutmut: which small faults do the core's tests not see?

mutmut makes thousands of copies of the core's functions, each with one small fault (a
comparison turned, an argument dropped, a constant raised), and runs the tests that reach the
changed function. What no test sees survives. `make mutants` prints the score of each module
and writes the survivors, as diffs, to report.md.

Started in a directory that prepare.py made: mutmut reads its settings there on import. A run
that was interrupted goes on where it stopped; after a change only the functions that changed
are tried again, and survivors when tests changed (`--again`).

What is not mutated: the words of log lines (`replica.fact(...)`) and of messages, for which
no test is wanted; everything outside functions; docstrings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

import libcst
from mutmut.__main__ import _run as run_mutmut  # pyright: ignore[reportPrivateUsage]
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

ROOT = Path(__file__).resolve().parents[2]
SCORE_MIN = 90.0
"""Percent of the mutants that must be noticed."""
ALIVE = {"survived", "no tests"}


def mutate(names: list[str], jobs: int) -> None:
    """Make the mutants and try those that are not decided yet, in the present directory."""
    file_mutation.mutation_operators = [
        (kind, operator)
        for kind, operator in mutators.mutation_operators
        if kind is not libcst.BaseString
    ]
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT / "raftnode"]
    run_mutmut(names, jobs)


def outcomes() -> dict[str, dict[str, str]]:
    """What became of each mutant, by module of the core."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted(Path("raftnode/core").glob("*.py")):
        data = SourceFileMutationData(path=path)
        data.load()
        for name, code in data.exit_code_by_key.items():
            found[path.stem][name] = status_by_exit_code[code]
    return found


def alive(found: dict[str, dict[str, str]]) -> list[str]:
    """The mutants that no test noticed."""
    return [
        name for mutants in found.values() for name, status in mutants.items() if status in ALIVE
    ]


def chosen(modules: list[str]) -> list[str] | None:
    """What to try of some modules: what no earlier run has decided; none given: of all.

    None: there is nothing left to try.
    """
    if not modules:
        return []
    known = outcomes()
    names: list[str] = []
    for module in modules:
        if module in known:
            names += [name for name, status in known[module].items() if status == "not checked"]
        else:
            names.append(f"raftnode.core.{module}.*")
    return names or None


def report(found: dict[str, dict[str, str]]) -> float:
    """Print the score of each module, write the survivors; returns the whole score."""
    lines = [
        "| module | mutants | noticed | of these endless | survived | no test | not tried | score |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    total = Counter[str]()
    for module, mutants in found.items():
        count = Counter(mutants.values())
        total += count
        lines.append(row(f"`core/{module}.py`", count))
    lines.append(row("all", total))
    print("\n".join(lines))
    diffs = [f"\n## {name}\n\n```diff\n{get_diff_for_mutant(name)}\n```" for name in alive(found)]
    Path("report.md").write_text("\n".join([*lines, *diffs]) + "\n", encoding="utf-8")
    print(f"survivors: {Path('report.md').absolute()}")
    return score(total)


def score(count: Counter[str]) -> float:
    """Percent that was noticed, of those that were tried; a mutant that never ends is noticed."""
    tried = count.total() - count["not checked"]
    return 100 * (tried - sum(count[status] for status in ALIVE)) / max(tried, 1)


def row(name: str, count: Counter[str]) -> str:
    """One line of the table."""
    survived, bare, open_ = count["survived"], count["no tests"], count["not checked"]
    noticed = count.total() - survived - bare - open_
    endless = count["timeout"]
    cells = [name, count.total(), noticed, endless, survived, bare, open_, f"{score(count):.1f} %"]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main() -> int:
    """Run, report."""
    parser = argparse.ArgumentParser(description="Mutation testing of raftnode/core.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", action="store_true", help="only say how far it is")
    parser.add_argument("--again", action="store_true", help="only what survived before")
    parser.add_argument("modules", nargs="*", help="of the core, such as election; default: all")
    args = parser.parse_args()
    if args.again:
        mutate(alive(outcomes()), args.jobs)
    elif not args.report and (names := chosen(args.modules)) is not None:
        mutate(names, args.jobs)
    return 0 if report(outcomes()) >= SCORE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
