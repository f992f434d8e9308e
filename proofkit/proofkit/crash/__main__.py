"""`python -m proofkit.crash --points N`: crash, start, compare; a line at the end."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import structlog

from proofkit.crash import nodes, power, processes
from proofkit.crash.history import LossError, Story
from proofkit.crash.sigkill import Moment
from raftnode.errors import RaftnodeError

SHARES = {
    "power": 0.3,
    "kill": 0.25,
    "trim": 0.1,
    "install": 0.1,
    "slow": 0.2,
    "node": 0.03,
    "slow-node": 0.02,
}
"""Of all points; trims, installs and slow flushes half by a power cut and half by SIGKILL."""

_MEMORY = Path("/dev/shm")  # noqa: S108 - a process that dies takes no synced byte along
PROGRESS_S = 10.0
LOSSES_SHOWN = 20

Point = tuple[str, str, Callable[[], object]]
"""The kind of a point, its name, and the function that tries it."""


def make_points(
    count: int,
    root: Path,
    every: int = 1,
    kinds: Sequence[str] = tuple(SHARES),
    first: int = 0,
) -> Iterator[Point]:
    """Yield points, a share of each kind; use each n-th call only, and histories from a seed on."""
    total = sum(SHARES[kind] for kind in kinds)
    for kind in kinds:
        here = round(count * SHARES[kind] / total)
        match kind:
            case "power":
                cuts = _by_power(kind, power.points(first), "plain")
                yield from islice(cuts, 0, here * every, every)
            case "kill":
                kills = _by_kill(kind, root, processes.points(root, first), "plain")
                yield from islice(kills, 0, here * every, every)
            case "node" | "slow-node":
                for seed in range(first, first + here):
                    slow = kind == "slow-node"
                    yield kind, f"seed {seed}", partial(nodes.crash, root, seed, is_slow=slow)
            case "slow":
                cuts = _by_power(kind, power.points(first, "slow"), "slow")
                kills = _by_kill(kind, root, processes.points(root, first, "slow"), "slow")
                yield from _half_of_each(cuts, kills, here, every)
            case _:
                cuts = _by_power(kind, power.points_of(kind, first), "trims")
                kills = _by_kill(kind, root, processes.points_of(root, kind, first), "trims")
                yield from _half_of_each(cuts, kills, here, every)


def _half_of_each(
    cuts: Iterator[Point], kills: Iterator[Point], count: int, every: int
) -> Iterator[Point]:
    yield from islice(cuts, 0, count // 2 * every, every)
    yield from islice(kills, 0, (count - count // 2) * every, every)


def _by_power(kind: str, points: Iterator[tuple[int, int]], story: Story) -> Iterator[Point]:
    for seed, point in points:
        yield kind, f"power seed {seed} call {point}", partial(power.crash, seed, point, story)


def _by_kill(
    kind: str, root: Path, points: Iterator[tuple[int, int, Moment]], story: Story
) -> Iterator[Point]:
    for seed, point, moment in points:
        name = f"kill seed {seed} {moment} call {point}"
        yield kind, name, partial(processes.crash, root, seed, point, moment, story)


def main(arguments: list[str] | None = None) -> int:
    """Try the points; return 1 if data was lost."""
    parser = argparse.ArgumentParser(prog="python -m proofkit.crash", description=__doc__)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument(
        "--kinds", default=" ".join(SHARES), help=f"which of: {', '.join(SHARES)}; default: all"
    )
    parser.add_argument("--first", type=int, default=0, help="the first history's seed")
    parser.add_argument("--every", type=int, default=1, help="try each n-th call")
    parser.add_argument(
        "--directory",
        type=Path,
        default=_MEMORY if _MEMORY.is_dir() else None,
        help="where real files go; default: /dev/shm, else /tmp",
    )
    given = parser.parse_args(arguments)
    kinds: list[str] = given.kinds.split()
    if unknown := [kind for kind in kinds if kind not in SHARES]:
        parser.error(f"--kinds: {', '.join(unknown)}: not one of {', '.join(SHARES)}")
    tried: Counter[str] = Counter()
    losses: list[str] = []
    acknowledged = 0
    began = reported = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crash-", dir=given.directory) as directory:
        root = Path(directory)
        for kind, name, attempt in make_points(given.points, root, given.every, kinds, given.first):
            try:
                result = attempt()
            except (LossError, RaftnodeError) as error:
                losses.append(f"{kind}, {name}: {error}")
                print(f"LOST {losses[-1]}", flush=True)  # noqa: T201
                if len(losses) >= LOSSES_SHOWN:
                    break
            else:
                acknowledged += result if isinstance(result, int) else 0
            tried[kind] += 1
            if time.monotonic() - reported > PROGRESS_S:
                reported = time.monotonic()
                print(_line(tried, losses, reported - began, of=given.points), flush=True)  # noqa: T201
    print(_line(tried, losses, time.monotonic() - began))  # noqa: T201
    print(f"writes that the nodes had acknowledged: {acknowledged}")  # noqa: T201
    return 1 if losses else 0


def _line(tried: Counter[str], losses: list[str], seconds: float, of: int | None = None) -> str:
    total = f"{tried.total()}" if of is None else f"{tried.total()} of {of}"
    kinds = ", ".join(f"{kind} {count}" for kind, count in tried.items())
    return f"{total} crash points ({kinds}), {len(losses)} losses, {seconds:.0f} s"


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(main())
