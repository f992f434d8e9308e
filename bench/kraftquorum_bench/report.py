"""report.json: what a run measured, by workload, and its schema."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from kraftquorum_bench.loads import Sample
from kraftquorum_bench.report_file import ReportFile, Strict
from kraftquorum_bench.rounds import Spread, ratios, spread
from kraftquorum_bench.workloads import Workload

VERSION = 1
Limits = tuple[float, float]
"""The lowest and the highest of the rounds."""


class Spreads(Strict):
    """How far the rounds lie apart."""

    ours: Limits
    peer: Limits | None = None
    ratio: Limits | None = None


class Result(Strict):
    """A workload, as medians of its rounds. `ratio` is ours through the peer's."""

    title: str
    unit: str
    higher_is_better: bool
    rounds: int = Field(ge=1)
    ours: float = Field(ge=0)
    peer_name: str | None = None
    peer: float | None = Field(default=None, ge=0)
    ratio: float | None = Field(default=None, ge=0)
    spread: Spreads
    our_figures: dict[str, float]
    """All figures that our side told, such as `leader_us`."""
    peer_figures: dict[str, float] = Field(default_factory=dict[str, float])


class Note(Strict):
    """What is missing, and why."""

    what: str
    why: str


class Raw(Strict):
    """The machine itself."""

    fdatasync_p50_ms: float
    fdatasync_p99_ms: float
    round_trip_us: float
    calibration_mib_per_s: float


class Report(Strict):
    """A run."""

    version: Literal[1] = VERSION
    size: Literal["quick", "whole", "full"]
    made_at: str
    minutes: float
    machine: dict[str, str]
    raw: Raw
    settings: dict[str, str]
    """What is pinned, by contender."""
    workloads: dict[str, Result]
    left_out: tuple[Note, ...] = ()
    """Peers that could not be had, and what did not fit into the time."""
    failures: tuple[Note, ...] = ()
    """What of ours failed: such a run does not count."""


def result_of(
    workload: Workload, ours: Sequence[Sample], peer: Sequence[Sample], peer_name: str | None
) -> Result:
    """Put rounds together; `peer` has as many samples as `ours`, or none.

    Raises:
        ValueError: no round of ours, or rounds that do not pair up.
    """
    mine = [sample[workload.figure] for sample in ours]
    own = spread(mine)
    result = Result(
        title=workload.title,
        unit=workload.unit,
        higher_is_better=workload.higher_is_better,
        rounds=len(mine),
        ours=own.median,
        spread=Spreads(ours=_limits(own)),
        our_figures=_medians(ours),
    )
    if not peer:
        return result
    others = [sample[workload.figure] for sample in peer]
    other, ratio = spread(others), spread(ratios(mine, others))
    return result.model_copy(
        update={
            "peer_name": peer_name,
            "peer": other.median,
            "ratio": ratio.median,
            "spread": Spreads(ours=_limits(own), peer=_limits(other), ratio=_limits(ratio)),
            "peer_figures": _medians(peer),
        }
    )


def _limits(of: Spread) -> Limits:
    return of.lowest, of.highest


def _medians(samples: Sequence[Sample]) -> dict[str, float]:
    names = sorted(set[str]().union(*(sample.figures for sample in samples)))
    return {
        name: statistics.median(s.figures[name] for s in samples if name in s.figures)
        for name in names
    }


FILE = ReportFile(Report, "make bench", VERSION)
