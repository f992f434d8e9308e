"""`python -m raftnode.testing.crash --points N`: crash, start, compare; a line at the end."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import structlog

from raftnode.errors import RaftnodeError
from raftnode.testing.crash import nodes, power, processes
from raftnode.testing.crash.oracle import LossError

POWER_SHARE, NODE_SHARE = 0.5, 0.05
"""Of all points; the rest are processes of the storage alone."""

_MEMORY = Path("/dev/shm")  # noqa: S108 - a process that dies takes no synced byte along
PROGRESS_S = 10.0
LOSSES_SHOWN = 20

Point = tuple[str, str, Callable[[], object]]
"""Its kind, what names it, and what tries it."""


def make_points(count: int, root: Path, every: int = 1) -> Iterator[Point]:
    """So many points, of each kind its share; of calls only each n-th."""
    by_power, by_node = int(count * POWER_SHARE), int(count * NODE_SHARE)
    for seed, point in islice(power.points(), 0, by_power * every, every):
        yield "power", f"seed {seed} call {point}", lambda s=seed, p=point: power.crash(s, p)
    rest = count - by_power - by_node
    for seed, point, moment in islice(processes.points(root), 0, rest * every, every):
        name = f"seed {seed} {moment} call {point}"
        yield "kill", name, lambda s=seed, p=point, m=moment: processes.crash(root, s, p, m)
    for seed in range(by_node):
        yield "node", f"seed {seed}", lambda s=seed: nodes.crash(root, s)


def main(arguments: list[str] | None = None) -> int:
    """Try the points; 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m raftnode.testing.crash", description=__doc__)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--every", type=int, default=1, help="try each n-th call")
    parser.add_argument(
        "--directory",
        type=Path,
        default=_MEMORY if _MEMORY.is_dir() else None,
        help="where real files go; default: /dev/shm, else /tmp",
    )
    given = parser.parse_args(arguments)
    tried: Counter[str] = Counter()
    losses: list[str] = []
    acknowledged = 0
    began = told = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crash-", dir=given.directory) as directory:
        for kind, name, attempt in make_points(given.points, Path(directory), given.every):
            try:
                found = attempt()
            except (LossError, RaftnodeError) as error:
                losses.append(f"{kind}, {name}: {error}")
                print(f"LOST {losses[-1]}", flush=True)  # noqa: T201
                if len(losses) >= LOSSES_SHOWN:
                    break
            else:
                acknowledged += found if isinstance(found, int) else 0
            tried[kind] += 1
            if time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                print(_line(tried, losses, told - began, of=given.points), flush=True)  # noqa: T201
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
