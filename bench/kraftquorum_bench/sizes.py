"""How long a run takes: quick, whole or full."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kraftquorum_bench.workloads import Workload, all_workloads


@dataclass(frozen=True, slots=True)
class Size:
    """A run's extent.

    Attributes:
        name: `quick`, `whole` or `full`.
        rounds: how often each workload is measured.
        seconds: length of each load.
        state_mib: what a disk holds in a restart and in a repair, MiB.
        limit_s: after so many seconds no further sample begins, and what remains is left out.
        sample_limit_s: a single sample that takes longer is given up.
    """

    name: str
    rounds: int
    seconds: float
    state_mib: int
    limit_s: float
    sample_limit_s: float


QUICK = Size("quick", rounds=2, seconds=1, state_mib=64, limit_s=530, sample_limit_s=120)
WHOLE = Size("whole", rounds=3, seconds=4, state_mib=1024, limit_s=3300, sample_limit_s=600)
FULL = dataclasses.replace(WHOLE, name="full", limit_s=3 * 3600, sample_limit_s=3600)
SIZES = {size.name: size for size in (QUICK, WHOLE, FULL)}


def chosen_workloads(size: Size, only: Sequence[str]) -> list[Workload]:
    """The workloads of a size; `only`: those that match one of these names or patterns.

    Raises:
        ValueError: a pattern matches no workload of this size, or is no pattern.
    """
    offered = [
        workload
        for workload in all_workloads(size.state_mib)
        if (workload.in_quick or size.name != "quick")
        and (not workload.only_full or size.name == "full")
    ]
    if not only:
        return offered
    chosen: set[str] = set()
    for pattern in only:
        try:
            names = {row.name for row in offered if re.fullmatch(pattern, row.name)}
        except re.error as error:
            raise ValueError(f"--only {pattern}: no regular expression: {error}") from error
        if not names:
            listed = " ".join(row.name for row in offered)
            raise ValueError(
                f"--only {pattern}: no workload of size {size.name} has that name; "
                f"these exist: {listed}"
            )
        chosen |= names
    return [row for row in offered if row.name in chosen]
