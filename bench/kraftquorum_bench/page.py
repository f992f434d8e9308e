"""docs/evidence/performance.md, from the report of a run."""

from __future__ import annotations

from collections.abc import Mapping

from kraftquorum_bench.goals import GOALS, Goal
from kraftquorum_bench.plots import pictures_of
from kraftquorum_bench.report import Report, Result

HEAD = """<!-- Made by `make bench-docs` from the report of a run. Do not edit. -->

# Performance

`make bench` measures our quorum beside etcd, Apache Kafka, Apache ZooKeeper and the raw machine
([how to run and read it](../contributing/benchmarks.md)). All of them run on one machine with
their clients. Each has its own best client, and syncs every write to the disks of a majority. Ours
and the peer take turns in each round. The ratio is ours through the peer's, the median of the
rounds.
"""
NO_RUN = """
**No full run is on this page yet.** `make bench` followed by `make bench-docs` writes it.
"""


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _figure(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}" if unit else f"{value:.2f}×"


def _bound(goal: Goal) -> str:
    sign = "≤" if goal.at_most else "≥"
    text = f"{sign} {_figure(goal.bound, goal.unit)}"
    return text if goal.stretch is None else f"{text}, better {_figure(goal.stretch, goal.unit)}"


def goal_table(report: Report | None, explanations: Mapping[str, str]) -> list[str]:
    """The goals, each met or not, and why not."""
    lines = ["|Goal|Bound|Measured|Result|", "|---|---|---:|---|"]
    for goal in GOALS:
        value, verdict = goal.value(report), goal.verdict(report)
        measured = "" if value is None else _figure(value, goal.unit)
        if verdict == "not met":
            why = explanations.get(goal.name, "no explanation yet")
            verdict = f"**not met**: {_cell(why)}"
        lines.append(f"|{goal.title}|{_bound(goal)}|{measured}|{verdict}|")
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _limits(limits: tuple[float, float] | None) -> str:
    return "" if limits is None else f"{_number(limits[0])} to {_number(limits[1])}"


def _row(result: Result) -> str:
    ratio = "" if result.ratio is None else f"**{result.ratio:.2f}×**"
    spread = "" if result.spread.ratio is None else _limits(result.spread.ratio)
    better = "higher" if result.higher_is_better else "lower"
    peer = "" if result.peer is None else _figure(result.peer, result.unit)
    cost = result.our_figures.get("leader_us")
    cells = [
        result.title,
        ratio,
        spread,
        better,
        _figure(result.ours, result.unit),
        peer,
        result.peer_name or "",
        "" if cost is None else f"{cost:,.0f}",
    ]
    return "|" + "|".join(cells) + "|"


def result_table(report: Report) -> list[str]:
    """All workloads, ratios first."""
    head = "|Workload|Ratio|Lowest to highest|Better|Ours|Peer|Which|Our leader, µs per operation|"
    return [
        head,
        "|---|---:|---:|---|---:|---:|---|---:|",
        *map(_row, report.workloads.values()),
    ]


def _conditions(report: Report) -> list[str]:
    raw, machine = report.raw, report.machine
    rows = {
        "Machine": f"{machine['cores']} cores, {machine['memory']}, {machine['kernel']}, "
        f"load {machine['load']} at the start",
        "Disk": f"{machine['file system']}, append of a record and fdatasync: median "
        f"{_number(raw.fdatasync_p50_ms)} ms, 99th percentile {_number(raw.fdatasync_p99_ms)} ms",
        "Loopback": f"round trip of a record {_number(raw.round_trip_us)} µs",
        "Processor": f"{_number(raw.calibration_mib_per_s)} MiB/s of SHA-256 on one core",
        "The run": f"{report.size}, {report.minutes:.0f} minutes, ended {report.made_at} UTC",
    }
    return [f"- **{name}**: {text}" for name, text in (rows | report.settings).items()]


def render(report: Report | None, explanations: Mapping[str, str]) -> str:
    """The page; None: no full run is committed yet."""
    goals = ["## Goals", "", *goal_table(report, explanations)]
    if report is None:
        return "\n".join([HEAD, NO_RUN.strip(), "", *goals, "", _NEXT])
    parts = [
        HEAD,
        *_conditions(report),
        "",
        *goals,
        "",
        "## Workloads",
        "",
        *result_table(report),
        "",
    ]
    for name, what in pictures_of(report).items():
        parts += [f"![{what}](../images/performance/{name}.svg)", ""]
    if report.left_out:
        parts += ["## Left out", ""]
        parts += [f"- {note.what}: {_cell(note.why)}" for note in report.left_out]
        parts.append("")
    return "\n".join([*parts, _NEXT])


_NEXT = "**Next:** [benchmarks](../contributing/benchmarks.md), [proof](proof.md).\n"
