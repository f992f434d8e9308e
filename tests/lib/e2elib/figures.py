"""What each case came to, and the report with all of them: one JSON file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from kraftquorum_demo.background import Account
from kraftquorum_devcluster.files import write_atomically

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(slots=True)
class Figures:
    """One case.

    Attributes:
        name: Of the test.
        title: What happens in it, for people.
        until: What ends the measured time.
        outcome: How the test went.
        seconds: From what happened until all was well again; None if it never was.
        stall_s: Longest stretch in which nothing was acknowledged to any writer.
        acknowledged: Writes that were acknowledged.
        unknown: Writes whose outcome is unknown.
        refused: Writes that failed and that no node did.
        lost: Acknowledged writes that are not there.
        doubled: Writes that are there twice.
        wrong: Everything else that should not be: order, bytes, what no writer sent.
        measures: Figures that the page of promises shows, in seconds.
        why: Why it was skipped, or failed.
        at: When it ended, in UTC.
    """

    name: str
    title: str
    until: str = "full redundancy"
    outcome: Outcome = "failed"
    seconds: float | None = None
    stall_s: float | None = None
    acknowledged: int = 0
    unknown: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    measures: dict[str, float] = field(default_factory=dict[str, float])
    why: str = ""
    at: str = ""

    def count(self, account: Account) -> None:
        """Add what the writers saw; of several quorums, the longer stall."""
        found = account.verdict
        self.acknowledged += account.acknowledged
        self.unknown += account.unknown
        self.refused += account.refused
        self.lost += found.lost
        self.doubled += found.duplicated
        self.wrong += found.out_of_order + found.bytes_mismatched + found.unexpected
        self.stall_s = round(max(self.stall_s or 0.0, account.stall.seconds), 2)

    def __str__(self) -> str:
        """In a line."""
        seconds = "-" if self.seconds is None else f"{self.seconds:.1f} s"
        stall = "-" if self.stall_s is None else f"{self.stall_s:.2f} s"
        return (
            f"{self.title}: {seconds} until {self.until}, longest write stall {stall}, "
            f"acknowledged {self.acknowledged}, unknown {self.unknown}, "
            f"refused {self.refused}, lost {self.lost}, doubled {self.doubled}"
        )


class Report:
    """All cases; written again after each, so that a run that is cut off leaves it.

    Args:
        path: The file.
        partly: Whether only some cases are run. They then take their places among those of the
            last run, each with the time at which it was run.
    """

    def __init__(self, path: Path, *, partly: bool = False) -> None:
        self._path = path
        self._partly = partly
        self.facts: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.cases: list[Figures] = []
        if partly and path.exists():
            earlier = json.loads(path.read_text(encoding="utf-8"))
            self.cases = [Figures(**case) for case in earlier.pop("cases")]
            self.seconds = earlier.pop("seconds")
            self.facts = earlier

    def add(self, figures: Figures) -> None:
        """Take a case in, in place of an earlier one of its name, and write the report."""
        figures.at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        names = [case.name for case in self.cases]
        if figures.name in names:
            self.cases[names.index(figures.name)] = figures
        else:
            self.cases.append(figures)
        self.write()

    def took(self, part: str, seconds: float) -> None:
        """Note what a part of a whole run took; a run of some cases leaves that as it was."""
        if not (self._partly and part in self.seconds):
            self.seconds[part] = seconds

    def write(self) -> None:
        """Write the report."""
        body: Mapping[str, Any] = {
            **self.facts,
            "seconds": {name: round(value, 1) for name, value in self.seconds.items()},
            "cases": [asdict(case) for case in self.cases],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(body, indent=2) + "\n")
