"""Semantic mutants of raftnode/core: does a fast test notice each rule that is broken?

Usage: semantic.py [--jobs N] [NAME …], started in a directory that prepare.py made. Each patch of
semantic.toml is put in place in a fork of one session of the core's tests (trial.py), and the tests
that come to its place run, the fastest first, until one fails. Exit code 1: a mutant lives, or no
test comes to it.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from pathlib import Path

import patches
import pytest
from changed_lines import function_named, touched_lines
from prepare import TESTS
from trial import KILLED, NO_TESTS, SURVIVED, Mutant, Trial

ROOT = Path(__file__).resolve().parents[2]
WORDS = {SURVIVED: "lives", NO_TESTS: "no test comes to it"}


def load(patch: patches.Patch) -> Mutant:
    """Make the mutant of a patch."""
    made: list[Mutant] = []
    for part in patches.parts(patch):
        tree = ast.parse(part.path.read_text(encoding="utf-8"))
        function = function_named(tree, part.function.__name__, part.owner)
        lines = frozenset(touched_lines(function, set(part.lines)))
        made.append(Mutant(patch.name, part.path, lines, (part.function, part.faulty)))
    first, *also = made
    return Mutant(first.name, first.module, first.lines, first.functions, tuple(also))


def main() -> int:
    """Try all, or those that are named; say which live."""
    parser = argparse.ArgumentParser(description="Semantic mutants of raftnode/core.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("names", nargs="*", help="of semantic.toml; default: all")
    args = parser.parse_args()
    known = {patch.name: patch for patch in patches.read()}
    if unknown := set(args.names) - known.keys():
        raise SystemExit(f"no such mutant in {patches.FILE}: {', '.join(sorted(unknown))}")
    names: list[str] = args.names or list(known)
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT / "raftnode"]
    sys.path.insert(0, str(Path.cwd()))
    outcomes: dict[str, int] = {}

    def decided(mutant: Mutant, code: int) -> None:
        outcomes[mutant.name] = code

    trial = Trial(
        names,
        lambda name: load(known[name]),
        decided,
        lambda: None,
        jobs=args.jobs,
        seconds_max=float("inf"),
    )
    arguments = ["--rootdir=.", "--quiet", "--capture=no", "--assert=plain", "-m", "not taken_out"]
    if code := pytest.main([*arguments, *TESTS], plugins=[trial]):
        raise SystemExit(f"pytest ended with {code}")
    alive = [name for name in names if outcomes.get(name, KILLED) in WORDS]
    for name in alive:
        patch = known[name]
        print(f"{name} ({patch.rule}): {WORDS[outcomes[name]]}\n  {patch.story}")
    untried = [name for name in names if name not in outcomes]
    print(f"{len(outcomes) - len(alive)} of {len(names)} noticed, {len(alive)} not")
    if untried:
        print(f"stopped from outside, to be tried again: {', '.join(untried)}")
    return 1 if alive or untried else 0


if __name__ == "__main__":
    sys.exit(main())
