"""The command line of the bench."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TypeVar

from kraftquorum_bench.goals import EXPLANATIONS, ExplanationsError, read_explanations, unexplained
from kraftquorum_bench.harness import Bench, busy_warning
from kraftquorum_bench.interrupt import until_interrupted
from kraftquorum_bench.machine import file_system, free_gib
from kraftquorum_bench.page import goal_table, render, render_tls
from kraftquorum_bench.plots import draw
from kraftquorum_bench.quorums import PEERS, prepare
from kraftquorum_bench.report import FILE, Report
from kraftquorum_bench.report_file import ReportError
from kraftquorum_bench.sizes import SIZES, Size, chosen_workloads

Number = TypeVar("Number", int, float)
ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build" / "bench"
PAGE = ROOT / "docs" / "evidence" / "performance.md"
TLS_PAGE = PAGE.with_name("tls-cost.md")
COMMITTED = PAGE.with_suffix(".json")
PICTURES = ROOT / "docs" / "images" / "performance"
FREE_GIB = {"quick": 4, "whole": 30, "full": 120}
"""Free space that a run needs where it writes, by size: six copies of each log, and room."""


IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
"""File systems without a disk."""


class UsageError(ValueError):
    """An argument cannot be; the message says what is allowed."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="kraftquorum_bench", description=__doc__)
    commands = options.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, and write build/bench/report.json")
    run.add_argument("--size", choices=sorted(SIZES), default="whole")
    run.add_argument("--only", default="", help="workloads: names or regular expressions")
    run.add_argument(
        "--peers", default=" ".join(PEERS), help="of: etcd kafka zookeeper copy plain none"
    )
    run.add_argument("--rounds", type=int, help="of each workload")
    run.add_argument("--seconds", type=float, help="length of each load")
    run.add_argument("--state-mib", type=int, help="what a disk holds in a restart and a repair")
    run.add_argument("--directory", type=Path, help="where quorums write; default: build/bench")
    run.add_argument("--output", type=Path, default=OUTPUT, help="where the report and plots go")
    run.add_argument("--list", action="store_true", help="print the workloads and end")
    docs = commands.add_parser(
        "docs", help="write docs/evidence/performance.md and tls-cost.md from a report"
    )
    docs.add_argument("--no-run", action="store_true", help="write the page of no run")
    docs.add_argument("report", type=Path, nargs="?", default=OUTPUT / "report.json")
    return options


def size_of(given: argparse.Namespace) -> Size:
    """The size with what the options change.

    Raises:
        UsageError: a number is out of its range.
    """
    size = SIZES[given.size]
    if given.rounds is not None:
        size = dataclasses.replace(size, rounds=_checked("--rounds", given.rounds, 1, 100))
    if given.seconds is not None:
        size = dataclasses.replace(size, seconds=_checked("--seconds", given.seconds, 0.1, 600))
    if given.state_mib is not None:
        state_mib = _checked("--state-mib", given.state_mib, 1, 16_384)
        size = dataclasses.replace(size, state_mib=state_mib)
    return size


def _checked(name: str, value: Number, lowest: Number, highest: Number) -> Number:
    if not math.isfinite(value) or not lowest <= value <= highest:
        raise UsageError(f"{name} is {value}: it must be from {lowest} to {highest}")
    return value


def peers_of(text: str) -> list[str]:
    """The peers that may take part.

    Raises:
        UsageError: a name is no peer.
    """
    names = text.replace(",", " ").split()
    if names == ["none"]:
        return []
    for name in names:
        if name not in PEERS:
            raise UsageError(f"--peers {name}: peers are {' '.join(PEERS)}, or none alone")
    return names


def run(given: argparse.Namespace) -> int:
    """Measure; the exit code is 1 if something of ours failed.

    Raises:
        UsageError: the options cannot be.
    """
    size, peers = size_of(given), peers_of(given.peers)
    try:
        workloads = chosen_workloads(size, given.only.split())
    except ValueError as error:
        raise UsageError(str(error)) from error
    if given.list:
        print("\n".join(f"{row.name:<20} {row.title}" for row in workloads))
        return 0
    place = given.directory or OUTPUT
    if given.directory is None:
        place.mkdir(parents=True, exist_ok=True)
    if not place.is_dir():
        raise UsageError(f"--directory {place}: no such directory")
    if file_system(place) in IN_MEMORY:
        raise UsageError(
            f"--directory {place} is in memory ({file_system(place)}), where syncing costs nothing"
            ": name a directory on a disk (DIRECTORY=)"
        )
    if not given.only and free_gib(place) < FREE_GIB[size.name]:
        raise UsageError(
            f"{place} has {free_gib(place):.0f} GiB free, a {size.name} run needs "
            f"{FREE_GIB[size.name]}: name another place (DIRECTORY=), or QUICK=1"
        )
    warning = busy_warning()
    if warning:
        print(f"warning: {warning}", file=sys.stderr)
    began_s = time.monotonic()
    taking_part = {row.peer.partition("_")[0] for row in workloads}
    missing = prepare(peer for peer in peers if peer in taking_part)
    root = Path(tempfile.mkdtemp(dir=place, prefix="kraftquorum-bench-"))
    try:
        bench = Bench(size, root, peers, _say, missing, began_s)
        report = _until_cancelled(until_interrupted(bench.run(workloads)))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if report is None:
        print("interrupted: all processes are stopped, no report was written", file=sys.stderr)
        return 130
    path = given.output / "report.json"
    FILE.write(report, path)
    drawn = draw(report, given.output)
    print("\n".join(goal_table(report, {})))
    print(f"{path}, {', '.join(file.name for file in drawn)}")
    return 1 if report.failures else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _until_cancelled(measuring: Coroutine[object, object, Report]) -> Report | None:
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        return asyncio.run(measuring)
    return None


def write_page(given: argparse.Namespace) -> int:
    """Write the page; the exit code is 1 if an unmet goal has no explanation.

    Raises:
        UsageError: the report is none, or its run does not count.
    """
    try:
        explanations = read_explanations(EXPLANATIONS.read_text(encoding="utf-8"))
        if given.no_run:
            COMMITTED.unlink(missing_ok=True)
            shutil.rmtree(PICTURES, ignore_errors=True)
            PAGE.write_text(render(None, explanations), encoding="utf-8")
            TLS_PAGE.write_text(render_tls(None), encoding="utf-8")
            return 0
        report = FILE.read(given.report)
    except (ReportError, ExplanationsError) as error:
        raise UsageError(str(error)) from error
    if report.size == "quick":
        raise UsageError(f"{given.report} is of a quick run: the page shows whole ones; make bench")
    if report.failures:
        failed = "; ".join(f"{note.what}: {note.why}" for note in report.failures)
        raise UsageError(f"{given.report} is of a run that failed: {failed}")
    COMMITTED.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    pictures = draw(report, PICTURES)
    PAGE.write_text(render(report, explanations), encoding="utf-8")
    TLS_PAGE.write_text(render_tls(report), encoding="utf-8")
    print(", ".join(file.name for file in (PAGE, TLS_PAGE, COMMITTED, *pictures)))
    missing = unexplained(report, explanations)
    if missing:
        print(f"explain in {EXPLANATIONS.relative_to(ROOT)}: {' '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code, 2 for wrong arguments."""
    given = parser().parse_args(arguments)
    try:
        return run(given) if given.command == "run" else write_page(given)
    except UsageError as error:
        print(f"kraftquorum_bench: {error}", file=sys.stderr)
        return 2
