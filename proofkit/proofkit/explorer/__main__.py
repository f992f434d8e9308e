"""`python -m proofkit.explorer`: explore the worlds of a preset, one summary line each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from proofkit.explorer.bounds import PRESETS
from proofkit.explorer.search import Report, explore
from proofkit.explorer.trace import replay


def main() -> int:
    """Explore, or replay the trace of an earlier violation. 1: an invariant is broken."""
    parser = argparse.ArgumentParser(prog="python -m proofkit.explorer")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="small")
    parser.add_argument("--world", help="only this world of the preset")
    parser.add_argument("--seconds", type=float, help="end each world after this time, unfinished")
    parser.add_argument("--replay", type=Path, help="go the way of a trace; needs --world")
    args = parser.parse_args()
    worlds = PRESETS[args.preset]
    if args.world is not None and args.world not in worlds:
        parser.error(f"no world {args.world!r} in {args.preset}; there are: {', '.join(worlds)}")
    if args.replay is not None:
        if args.world is None:
            parser.error("--replay needs --world, the one that the trace is of")
        lines = replay(worlds[args.world], args.replay.read_text().splitlines())
        print("\n".join(lines))  # noqa: T201
        return 1 if any(" ! " in line for line in lines) else 0
    reports: list[Report] = []
    for name, bounds in worlds.items():
        if args.world not in {None, name}:
            continue
        print(f"{args.preset}/{name}: {bounds}", flush=True)  # noqa: T201
        report = explore(bounds, seconds_max=args.seconds)
        print(f"{args.preset}/{name}: {report}", flush=True)  # noqa: T201
        reports.append(report)
        if report.violation is not None:
            print("\n".join(report.violation.trace))  # noqa: T201
            break
    print(summary(args.preset, reports))  # noqa: T201
    return 1 if any(report.violation for report in reports) else 0


def summary(preset: str, reports: list[Report]) -> str:
    """One line with counts over all worlds."""
    counts = {
        "worlds": len(reports),
        "complete": sum(report.complete for report in reports),
        "states": sum(report.states for report in reports),
        "transitions": sum(report.transitions for report in reports),
        "depth": max((report.depth for report in reports), default=0),
        "core_steps": sum(report.core_steps for report in reports),
        "violations": sum(report.violation is not None for report in reports),
    }
    seconds = sum(report.seconds for report in reports)
    rate = round(counts["states"] / max(seconds, 1e-9))
    line = " ".join(f"{name}={value}" for name, value in counts.items())
    return f"preset={preset} {line} states_per_s={rate} in {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
