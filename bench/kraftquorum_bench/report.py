"""report.json: what a run measured, by workload, and its schema."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kraftquorum_bench.loads import Sample
from kraftquorum_bench.rounds import Spread, ratios, spread
from kraftquorum_bench.workloads import Workload

VERSION = 1
Limits = tuple[float, float]
"""The lowest and the highest of the rounds."""


class ReportError(ValueError):
    """A file is not a report of this version; the message names the field."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spreads(_Strict):
    """How far the rounds lie apart."""

    ours: Limits
    peer: Limits | None = None
    ratio: Limits | None = None


class Result(_Strict):
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


class Note(_Strict):
    """What is missing, and why."""

    what: str
    why: str


class Raw(_Strict):
    """The machine itself."""

    fdatasync_p50_ms: float
    fdatasync_p99_ms: float
    round_trip_us: float
    calibration_mib_per_s: float


class Report(_Strict):
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


def write_report(report: Report, path: Path) -> None:
    """Write a report, and its JSON schema beside it; the report is held against it first.

    Raises:
        ReportError: the report breaks the schema.
    """
    text = report.model_dump_json(indent=2) + "\n"
    parse_report(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    schema = json.dumps(Report.model_json_schema(), indent=2) + "\n"
    path.with_suffix(".schema.json").write_text(schema, encoding="utf-8")


def parse_report(text: str) -> Report:
    """Read a report, strictly.

    Raises:
        ReportError: it is not a report of this version; names each wrong field.
    """
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        wrong = (
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise ReportError(
            f"no report of `make bench` (version {VERSION}): {'; '.join(wrong)}; run make bench"
        ) from error


def read_report(path: Path) -> Report:
    """Read a report from a file.

    Raises:
        ReportError: there is none, or it is none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ReportError(f"{path} does not exist: run make bench first") from error
    return parse_report(text)
