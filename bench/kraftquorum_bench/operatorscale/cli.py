"""The command line of `make bench-operator` and `make bench-operator-docs`."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from kraftquorum_bench.harness import busy_warning
from kraftquorum_bench.interrupt import until_interrupted
from kraftquorum_bench.machine import describe_machine
from kraftquorum_bench.operatorscale.cases import SIZES, Case, Times, times_of
from kraftquorum_bench.operatorscale.measure import Measurement
from kraftquorum_bench.operatorscale.page import render, summary
from kraftquorum_bench.operatorscale.report import FILE, CaseResult, Note, OperatorReport
from kraftquorum_bench.report_file import ReportError
from kraftquorum_devcluster.errors import DevClusterError

ROOT = Path(__file__).resolve().parents[3]
OUTPUT = ROOT / "build" / "bench"
REPORT = OUTPUT / "operator.json"
PAGE = ROOT / "docs" / "evidence" / "operator-scale.md"
COMMITTED = PAGE.with_suffix(".json")
FILES = 65_536
"""Open files that a thousand quorums need: a listener and some connections for each node."""


class UsageError(ValueError):
    """An argument cannot be; the message says what is allowed."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="kraftquorum_bench.operatorscale", description=__doc__)
    commands = options.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, and write build/bench/operator.json")
    run.add_argument("--size", choices=sorted(SIZES), default="whole")
    run.add_argument("--cases", default="", help='other cases, such as "10 50 200/10"')
    run.add_argument("--rest-s", type=float, help="how long the rest is measured, seconds")
    run.add_argument("--keep", action="store_true", help="keep the logs of each case")
    run.add_argument("--output", type=Path, default=REPORT)
    docs = commands.add_parser("docs", help="write docs/evidence/operator-scale.md")
    docs.add_argument("--no-run", action="store_true", help="write the page of no run")
    docs.add_argument("report", type=Path, nargs="?", default=REPORT)
    return options


def cases_of(text: str) -> tuple[Case, ...]:
    """Cases from `quorums` or `quorums/namespaces`, separated by spaces.

    Raises:
        UsageError: one is none.
    """
    cases: list[Case] = []
    for word in text.split():
        parts = re.fullmatch(r"(\d{1,4})(?:/(\d{1,4}))?", word)
        quorums, namespaces = (0, 0) if parts is None else (int(parts[1]), int(parts[2] or 1))
        if not 1 <= namespaces <= quorums:
            raise UsageError(
                f"--cases {word}: a case is a number of quorums from 1 to 9999, and after a / a "
                "number of namespaces that is not larger, such as 200/10"
            )
        cases.append(Case(quorums, namespaces))
    return tuple(cases)


def _times(given: argparse.Namespace) -> Times:
    times = times_of(given.size)
    if given.rest_s is None:
        return times
    if not 1 <= given.rest_s <= 3600:
        raise UsageError(f"--rest-s is {given.rest_s}: it must be from 1 to 3600")
    return Times(rest_s=given.rest_s, settle_s=times.settle_s, single_losses=times.single_losses)


def run(given: argparse.Namespace) -> int:
    """Measure; the exit code is 1 if a case failed.

    Raises:
        UsageError: the options cannot be.
    """
    cases, times = cases_of(given.cases) or SIZES[given.size], _times(given)
    warning = busy_warning()
    if warning:
        print(f"warning: {warning}", file=sys.stderr)
    _allow_files()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=OUTPUT, prefix="operator-"))
    began_s = time.monotonic()
    try:
        results, failures = _measure(cases, times, root)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted: all processes are stopped, no report was written", file=sys.stderr)
        return 130
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)
    report = OperatorReport(
        size="chosen" if given.cases else cast("Literal['quick', 'whole', 'full']", given.size),
        made_at=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M"),
        minutes=round((time.monotonic() - began_s) / 60, 1),
        machine=describe_machine(OUTPUT),
        cases=tuple(results),
        failures=tuple(failures),
    )
    FILE.write(report, given.output)
    print("\n".join(summary(report)))
    print(given.output)
    return 1 if failures else 0


def _measure(
    cases: Sequence[Case], times: Times, root: Path
) -> tuple[list[CaseResult], list[Note]]:
    results: list[CaseResult] = []
    failures: list[Note] = []
    for case in cases:
        place = root / case.name.replace(" ", "-")
        try:
            measurement = Measurement(case, times, place, _say)
            results.append(asyncio.run(until_interrupted(measurement.run())))
        except (TimeoutError, RuntimeError, OSError, DevClusterError, ExceptionGroup) as error:
            failures.append(Note(what=case.name, why=f"{type(error).__name__}: {error}"[:1000]))
            _say(f"FAILED: {case.name}: {error}")
        shutil.rmtree(place / "etcd", ignore_errors=True)
    return results, failures


def _allow_files() -> None:
    """Raise the limit of open files, as far as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _say(line: str) -> None:
    print(line, flush=True)


def write_page(given: argparse.Namespace) -> int:
    """Write the page and the copy of the report that it shows.

    Raises:
        UsageError: the report is none, or its run does not count.
    """
    if given.no_run:
        COMMITTED.unlink(missing_ok=True)
        PAGE.write_text(render(None), encoding="utf-8")
        return 0
    try:
        report = FILE.read(given.report)
    except ReportError as error:
        raise UsageError(str(error)) from error
    if report.failures:
        failed = "; ".join(f"{note.what}: {note.why}" for note in report.failures)
        raise UsageError(f"{given.report} is of a run that failed: {failed}")
    if report.size in {"quick", "chosen"}:
        raise UsageError(f"{given.report} is of a {report.size} run: the page shows whole ones")
    COMMITTED.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(render(report), encoding="utf-8")
    print(f"{PAGE.name}, {COMMITTED.name}")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code, 2 for wrong arguments."""
    given = parser().parse_args(arguments)
    try:
        return run(given) if given.command == "run" else write_page(given)
    except UsageError as error:
        print(f"kraftquorum_bench.operatorscale: {error}", file=sys.stderr)
        return 2
