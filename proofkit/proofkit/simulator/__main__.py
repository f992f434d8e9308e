"""`python -m proofkit.simulator`: run seeds, print a summary as the last line."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from proofkit.simulator.faults import SLOW_WEIGHTS
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.run import Outcome, run_seed

TELL_SECONDS = 30
"""How often a long run says on stderr how far it is."""


def _attempt(seed: int) -> Outcome | str:
    try:
        return run_seed(seed)
    except InvariantError as broken:
        return f"seed {seed}: {broken}"


def main() -> int:
    """Run one seed with its trace, or a range of seeds on all cores."""
    parser = argparse.ArgumentParser(prog="python -m proofkit.simulator")
    parser.add_argument("--seed", type=int, help="replay one seed and print its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=None, help="processes; default: all cores")
    args = parser.parse_args()
    if args.seed is not None:
        outcome = run_seed(args.seed, trace=True)
        print(outcome)  # noqa: T201
        return 0
    started = time.monotonic()
    seeds = range(args.first, args.first + args.seeds)
    outcomes: list[Outcome] = []
    failed, reported = 0, started
    with ProcessPoolExecutor(args.jobs) as pool:
        for done, result in enumerate(pool.map(_attempt, seeds, chunksize=4), 1):
            if isinstance(result, Outcome):
                outcomes.append(result)
            else:
                failed += 1
                print(result, flush=True)  # noqa: T201
            now = time.monotonic()
            if now - reported >= TELL_SECONDS:
                reported = now
                _tell(done, args.seeds, failed, now - started)
    print(summary(outcomes, failed, time.monotonic() - started))  # noqa: T201
    return 1 if failed else 0


def _tell(done: int, seeds: int, failed: int, seconds: float) -> None:
    minutes_left = seconds / done * (seeds - done) / 60
    print(  # noqa: T201
        f"{done} of {seeds} seeds, {failed} failed, about {minutes_left:.0f} minutes left",
        file=sys.stderr,
        flush=True,
    )


def summary(outcomes: list[Outcome], failed: int, seconds: float) -> str:
    """One line with counts."""
    faults = sum((outcome.faults for outcome in outcomes), Counter[str]())
    took_ms = [ms for outcome in outcomes for ms in outcome.progress_ms]
    counted = {
        "seeds": len(outcomes) + failed,
        "failed": failed,
        "events": sum(o.events for o in outcomes),
        "checks": sum(o.checks for o in outcomes),
        "epochs": sum(o.epochs for o in outcomes),
        "acknowledged": sum(o.acknowledged for o in outcomes),
        "unknown": sum(o.unknown for o in outcomes),
        "finished_batches": faults["finished_batches"],
        "voters_added": sum(o.changes["add"] for o in outcomes),
        "voters_removed": sum(o.changes["remove"] for o in outcomes),
        "transfers": sum(o.changes["transfer"] for o in outcomes),
        "confirmed_reads": sum(o.reads for o in outcomes),
        "crashes": faults["crash"] + faults["crash_inside"],
        "wipes": faults["wipe"],
        "cuts": faults["cut"] + faults["cut_leader"] + faults["bridge"],
        "flushes_failed": faults["eio"],
        "volumes_put_back": faults["put_back"],
        "voters_put_back": faults["put_back_voter"],
        "found_stale": faults["found_stale"],
        "same_id_twice": faults["twice"],
        "snapshots": faults["snapshot"],
        "trims": faults["trimmed"],
        "fetches_begun": faults["fetch_begun"],
        "installs": faults["installed"],
        "fetched_damaged": faults["fetched_damaged"],
        "set_aside": faults["set_aside"],
        "died_at_a_job": faults["died_at_a_job"],
        "sources_lost": faults["source_lost"],
        "called_to_stand": faults["called"],
        "leases_tempted": faults["tempted"],
        "lease_reads": faults["lease_reads"],
        "fetched_ahead": faults["fetched_ahead"],
        "slowed_down": sum(faults[name] for name in SLOW_WEIGHTS if name != "recover"),
        "slow_for_good": faults["slow_for_good"],
        "ended_by_watchdog": faults["ended_by_watchdog"],
        "resumed_ms_max": max((ms for o in outcomes for ms in o.resumed_ms), default=0),
        "progress_demanded": len(took_ms),
        "progress_over_budget": sum(o.over_budget for o in outcomes),
        "progress_ms_mean": sum(took_ms) // max(len(took_ms), 1),
        "progress_ms_max": max(took_ms, default=0),
    }
    return " ".join(f"{name}={value}" for name, value in counted.items()) + f" in {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
