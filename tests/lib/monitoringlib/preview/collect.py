"""Everything that the pictures are made of, from one run, kept as a file.

So that a picture can be drawn again without another run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from monitoringlib.check import boards_about, filled, panels, targets
from monitoringlib.prometheus import Prometheus, Series
from monitoringlib.scenario import Course


@dataclass(slots=True)
class Record:
    """One run.

    Attributes:
        course: what was done when.
        answers: by dashboard, panel's id and target's letter: over all the time.
        marks: by dashboard and annotation's name.
    """

    course: Course
    answers: dict[str, dict[str, dict[str, list[Series]]]] = field(
        default_factory=dict[str, dict[str, dict[str, list[Series]]]]
    )
    marks: dict[str, dict[str, list[Series]]] = field(
        default_factory=dict[str, dict[str, list[Series]]]
    )

    def save(self, path: Path) -> None:
        """Write it down."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        course = Course(**found["course"])
        answers = {
            board: {
                panel: {letter: _series(series) for letter, series in by_letter.items()}
                for panel, by_letter in by_panel.items()
            }
            for board, by_panel in found["answers"].items()
        }
        marks = {
            board: {name: _series(series) for name, series in by_name.items()}
            for board, by_name in found["marks"].items()
        }
        return cls(course, answers, marks)


def _series(found: list[dict[str, Any]]) -> list[Series]:
    return [
        Series(one["labels"], [(float(at), float(value)) for at, value in one["points"]])
        for one in found
    ]


async def collect(prometheus: Prometheus, course: Course) -> Record:
    """Ask for everything.

    Raises:
        QueryError: An expression cannot be evaluated.
    """
    record = Record(course)
    for name, board in boards_about(kafka=False).items():
        by_panel = record.answers[name] = {}
        for panel in panels(board):
            by_letter = by_panel[str(panel["id"])] = {}
            for target in targets(panel, course):
                by_letter[target.letter] = await prometheus.over(
                    target.expression, course.began_s, course.ended_s
                )
        by_name = record.marks[name] = {}
        for one in board.get("annotations", {}).get("list", []):
            by_name[one["name"]] = await prometheus.over(
                filled(one["expr"], course), course.began_s, course.ended_s
            )
    return record
