"""Draws the dashboards' pictures from a real run: `make dashboards-preview`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import structlog
from rich.console import Console

from kraftquorum_demo.errors import DemoError
from kraftquorum_devcluster.errors import DevClusterError
from monitoringlib import scenario
from monitoringlib.check import boards_about
from monitoringlib.preview.collect import Record, collect
from monitoringlib.preview.draw import Painter, prepare
from monitoringlib.prometheus import Prometheus
from monitoringlib.scenario import Course

OUT = Path("build/monitoring")
SERIES = "series.json"
_BEFORE_S, _BEFORE_NEXT_S = 15.0, 2.0


def window(board: str, course: Course) -> tuple[float, float]:
    """What a dashboard's picture shows: one lost disk for the quorum's, else the whole run."""
    if board == "kraftquorum-quorum":
        begin, end = course.step("follower's disk")
        return begin - _BEFORE_S, end - _BEFORE_NEXT_S
    return course.began_s, course.ended_s


def draw(record: Record, folder: Path) -> list[Path]:
    """Draw all dashboards; returns the pictures."""
    prepare()
    made: list[Path] = []
    for name, board in boards_about(kafka=False).items():
        path = folder / f"{name.replace('kraftquorum', 'dashboard')}.png"
        Painter(board, record, window(name, record.course)).paint(path)
        made.append(path)
    return made


def main() -> int:
    """Play the scenario, or take what the last run left, and draw."""
    parser = argparse.ArgumentParser(prog="python -m monitoringlib.preview", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to put the pictures")
    parser.add_argument("--out", type=Path, default=OUT, help="where the run leaves its files")
    parser.add_argument("--again", action="store_true", help="draw the last run, play no other")
    arguments = parser.parse_args()
    structlog.configure(processors=[_drop])
    console = Console(soft_wrap=True)
    series = arguments.out / SERIES
    if not arguments.again:

        async def judge(prometheus: Prometheus, course: Course) -> None:
            (await collect(prometheus, course)).save(series)

        try:
            scenario.run(arguments.out, judge, console)
        except (DemoError, DevClusterError) as error:
            sys.stderr.write(f"dashboards-preview: {error}\n")
            return 1
    for path in draw(Record.load(series), arguments.folder):
        console.print(f"drew {path}, {path.stat().st_size // 1024} KiB", markup=False)
    return 0


def _drop(_logger: object, _name: str, _event: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    sys.exit(main())
