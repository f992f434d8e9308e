"""The mutants that no test needs to notice, and why: survivors.toml.

A mutant is known by the function that it changes and by the lines that it changes there, not by
mutmut's number for it, which moves with every edit of the function.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("survivors.toml")
FIELDS = ("function", "was", "now")


@dataclass(frozen=True)
class Survivor:
    """One mutant: the changed lines of its function, stripped, one below the other."""

    function: str
    """Such as `leadership.handle_fetch`, or `download.Download.busy`."""
    was: str
    now: str


@dataclass(frozen=True)
class Reason:
    """Why some mutants survive."""

    title: str
    why: str
    mutants: tuple[Survivor, ...]


def read(path: Path = FILE) -> list[Reason]:
    """Read a file of reasons. Raises KeyError where a part is missing."""
    entries: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Reason(
            entry["title"],
            entry["why"],
            tuple(
                Survivor(**{name: mutant[name] for name in FIELDS}) for mutant in entry["mutants"]
            ),
        )
        for entry in entries["reasons"]
    ]


def why(reasons: list[Reason], mutant: Survivor) -> str | None:
    """Say why a mutant survives; None: it should not."""
    return next((reason.why for reason in reasons if mutant in reason.mutants), None)


def changes(name: str, diff: str) -> Survivor:
    """Read the function and its lines without and with the fault from a mutant's name and diff."""
    path, _, mangled = name.partition("__mutmut_")[0].rpartition(".")
    module = path.rpartition(".")[2]
    function = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    lines = diff.splitlines()[2:]
    was, now = ([line[1:].strip() for line in lines if line[:1] == sign] for sign in "-+")
    return Survivor(f"{module}.{function}", "\n".join(was), "\n".join(now))
