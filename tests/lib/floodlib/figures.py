"""The figures of one flood, and the file that collects those of a run.

`make floods` names the file in `FLOODS_REPORT`; a test without it writes none.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "FLOODS_REPORT"


@dataclass(frozen=True, slots=True)
class Waits:
    """How long calls took, in seconds."""

    count: int
    median_s: float
    worst_s: float

    @classmethod
    def of(cls, waits_s: Sequence[float]) -> Waits:
        """Summarize calls."""
        return cls(len(waits_s), statistics.median(waits_s), max(waits_s))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a flood took from another client and from the operator.

    Attributes:
        kind: what the connections of the flood do.
        against: which clients came from where, or which listener was flooded.
        connections: of the flood, at once.
        writes_before: of one client that writes one value after the other, before the flood.
        writes: the same, during the flood.
        describes_before: the operator's call on a new connection each, before the flood.
        describes: the same, during the flood.
        memory_bytes: of the leader, more than before.
    """

    kind: str
    against: str
    connections: int
    writes_before: Waits
    writes: Waits
    describes_before: Waits
    describes: Waits
    memory_bytes: int

    @classmethod
    def of(cls, row: dict[str, Any]) -> Figures:
        """Figures as a report has them."""
        return cls(
            kind=row["kind"],
            against=row["against"],
            connections=row["connections"],
            writes_before=Waits(**row["writes_before"]),
            writes=Waits(**row["writes"]),
            describes_before=Waits(**row["describes_before"]),
            describes=Waits(**row["describes"]),
            memory_bytes=row["memory_bytes"],
        )

    def report(self) -> None:
        """Print the figures, and append them to the file of the run."""
        line = json.dumps(asdict(self))
        print(line)  # noqa: T201 - the output of a test
        path = os.environ.get(VARIABLE)
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def read(path: Path) -> list[Figures]:
    """The figures of a run, in their order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Figures.of(json.loads(line)) for line in lines]
