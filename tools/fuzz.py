"""Fuzz every decoder under atheris, guided by coverage: `make fuzz SECONDS=600`.

Each target (proofkit/proofkit/fuzz) runs in a process of its own for its share of the time,
begins with its sound samples and keeps what reached new code in build/fuzz/corpus, so that the
next run goes on from there. What a decoder does not promise ends its target: the input is
written to build/fuzz, and `tools/fuzz.py --target NAME --repeat FILE` repeats it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["raftnode", "kraftquorum_operator.kafka"]):
    from proofkit.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parent.parent
INPUT_BYTES_MAX = 2048
EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
COVERED = re.compile(r"cov: (\d+)")


@dataclass(frozen=True)
class Run:
    """What became of one target."""

    name: str
    executions: int
    covered: int
    seconds: float
    failed: bool
    said: str


def fuzz_here(name: str, corpus: Path, arguments: list[str]) -> None:
    """Fuzz one target in this process, which ends with it."""
    target = TARGETS[name]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [f"-max_len={INPUT_BYTES_MAX}", "-print_final_stats=1", *arguments, str(corpus)]
    atheris.Setup([sys.argv[0], *options], target.run)
    atheris.Fuzz()


def fuzz(name: str, seconds: int, into: Path) -> Run:
    """Fuzz one target in a process of its own."""
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={into}/{name}-"]
    command = [sys.executable, __file__, "--target", name, "--into", str(into), "--", *options]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    executions = sum(int(count) for count in EXECUTED.findall(said))
    covered = max((int(count) for count in COVERED.findall(said)), default=0)
    taken = time.monotonic() - started
    return Run(name, executions, covered, taken, done.returncode != 0, said)


def lines(runs: list[Run]) -> Iterator[str]:
    """A table of what was done."""
    yield "| target | executions | covered edges | a second |\n|---|---|---|---|"
    for run in runs:
        rate = run.executions / max(run.seconds, 0.001)
        mark = " **failed**" if run.failed else ""
        yield f"| `{run.name}`{mark} | {run.executions:,} | {run.covered:,} | {rate:,.0f} |"
    yield f"| all | {sum(run.executions for run in runs):,} | | |"


def main() -> int:
    """Fuzz all targets, or one."""
    parser = argparse.ArgumentParser(description="Fuzz every decoder.")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--target", choices=sorted(TARGETS), help="only this one, in this process")
    parser.add_argument("--repeat", type=Path, help="run the target on one file, without fuzzing")
    parser.add_argument("options", nargs="*", help="of libFuzzer")
    args = parser.parse_args()
    into: Path = args.into.absolute()
    into.mkdir(parents=True, exist_ok=True)
    if args.repeat is not None:
        print("taken" if TARGETS[args.target].run(args.repeat.read_bytes()) else "refused")
        return 0
    if args.target is not None:
        fuzz_here(args.target, into / "corpus" / args.target, args.options)
    share = max(args.seconds * args.jobs // len(TARGETS), 1)
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = list(pool.map(lambda name: fuzz(name, share, into), TARGETS))
    table = "\n".join(lines(runs))
    (into / "report.md").write_text(table + "\n", encoding="utf-8")
    print(table)
    for run in runs:
        if run.failed:
            print(f"\n{run.name}:\n{run.said[-4000:]}")
    return 1 if any(run.failed for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
