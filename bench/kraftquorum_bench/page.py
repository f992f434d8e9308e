"""docs/evidence/performance.md and tls-cost.md, from the report of one run."""

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
TLS_HEAD = """<!-- Made by `make bench-docs` from the report of a run. Do not edit. -->

# What TLS and a token cost

`make bench` measures two quorums of three voters on one machine, by turns: one with TLS 1.3 between
the nodes and with the clients, an access file and a token, and one with neither. The clients use
sessions, and each write is synced by a majority. They share the processors with the nodes.

The figures are of the same run as those of [performance](performance.md), which has these four
loads, too. Its other rows hold a plain quorum against other programs. Their figures for a quorum
with neither are other measurements, and differ from those here as two measurements of the same do.
Compare ratios: within a round both quorums took turns. A ratio is the median of the rounds' ratios,
not the ratio of the two medians. Absolute figures hold for one machine and one run.
"""
TLS_TAIL = """
A session sends its token once. Each operation is then checked against the access file, and each
frame is encrypted. With one client a frame has one operation, so the ratio is the highest there.

**Next:** [secure a quorum with TLS](../howto/tls.md), [performance](performance.md),
[benchmarks](../contributing/benchmarks.md).
"""
_PEERS = ("- **etcd**", "- **Kafka", "- **ZooKeeper**")
_TLS_TITLE = ", TLS and a token, beside neither"
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


def render_tls(report: Report | None) -> str:
    """The page about TLS: the loads that both kinds of quorum had; None: no run is committed."""
    if report is None:
        return f"{TLS_HEAD}{NO_RUN}{TLS_TAIL}"
    conditions = _conditions(report)
    kept = [line for line in conditions if not line.startswith(_PEERS)]
    rows = [_tls_row(name, row) for name, row in report.workloads.items() if name.endswith("_tls")]
    head = ["|Load|With TLS and a token|With neither|Ratio|", "|---|---:|---:|---|"]
    return "\n".join([TLS_HEAD, *kept, "", *head, *rows, TLS_TAIL])


def _tls_row(name: str, result: Result) -> str:
    if result.peer is None or result.ratio is None or result.spread.ratio is None:
        raise ValueError(f"{name}: its report lacks the quorum without TLS")
    what = "" if result.higher_is_better else ", median latency"
    title = f"{result.title.removesuffix(_TLS_TITLE)}{what}"
    ours, plain = (_figure(value, result.unit) for value in (result.ours, result.peer))
    return f"|{title}|{ours}|{plain}|{result.ratio:.2f}× ({_limits(result.spread.ratio)})|"


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
