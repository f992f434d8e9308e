"""docs/evidence/operator-scale.md, from the report of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraftquorum_bench.operatorscale.report import CaseResult, Latency, OperatorReport

HEAD = """<!-- Made by `make bench-operator-docs` from the report of a run. Do not edit. -->

# How many quorums one operator cares for

`make bench-operator` runs one operator with its default settings and many quorums of three voters
([how to run and read it](../contributing/benchmarks.md#the-operators-scale)). The API server, etcd
and the controllers are real, the nodes are simulated: one process answers their API, each at its
own address. Clients write to each quorum all the time, so offsets grow. The requests are those that
the API server's audit log has of the operator.
"""

NO_RUN = """**No whole run is on this page yet.** `make bench-operator` followed by
`make bench-operator-docs` writes it."""
NEXT = "**Next:** [benchmarks](../contributing/benchmarks.md), [performance](performance.md).\n"

REQUESTS_MAX = 2.0
MEMORY_MAX_MIB = 256.0
MEMORY_QUORUMS = 500
LEASE_S = 10.0
"""How long the operator's Lease lasts without a renewal."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a case must meet."""

    title: str
    applies: Callable[[CaseResult], bool]
    figure: Callable[[CaseResult], float]
    bound: float
    unit: str = ""

    def verdict(self, report: OperatorReport | None) -> tuple[str, str]:
        """The worst figure, and whether it meets the bound."""
        cases = () if report is None else report.cases
        figures = [self.figure(case) for case in cases if self.applies(case)]
        if not figures:
            return "", "not measured"
        worst = max(figures)
        met = worst <= self.bound
        return f"{worst:,.4g}{self.unit}", "met" if met else "**not met**"


GOALS = (
    Goal(
        "API requests per quorum and minute at rest, with 50 quorums or more",
        lambda case: case.quorums >= 50,
        lambda case: case.rest.requests_per_quorum_minute,
        REQUESTS_MAX,
    ),
    Goal(
        "Memory with 500 quorums",
        lambda case: case.quorums == MEMORY_QUORUMS,
        lambda case: case.memory_peak_mib,
        MEMORY_MAX_MIB,
        " MiB",
    ),
    Goal(
        "Healthy quorums that were reported otherwise",
        lambda _: True,
        lambda case: case.false_alarms,
        0,
    ),
    Goal(
        "Longest time between two renewals of the Lease, which lasts 10 s",
        lambda _: True,
        lambda case: case.lease_gap_max_s,
        LEASE_S,
        " s",
    ),
)


def goal_table(report: OperatorReport | None) -> list[str]:
    """The goals, each with the worst case."""
    lines = ["|Goal|At most|Worst case|Result|", "|---|---:|---:|---|"]
    for goal in GOALS:
        worst, verdict = goal.verdict(report)
        lines.append(f"|{goal.title}|{goal.bound:g}{goal.unit}|{worst}|{verdict}|")
    return lines


def _latency(latency: Latency | None) -> str:
    return "" if latency is None else f"{latency.p50_ms:,} / {latency.p99_ms:,}"


def case_table(report: OperatorReport) -> list[str]:
    """All cases."""
    lines = [
        (
            "|Quorums|Namespaces|Requests|Status writes|Requests to nodes|Memory, MiB"
            "|Peak, MiB|Cores|All formed, s|First evaluation of all, s|Lease gap, s|False alarms|"
        ),
        "|---:" * 12 + "|",
    ]
    for case in report.cases:
        rest = case.rest
        cells = [
            f"{case.quorums:,}",
            f"{case.namespaces:,}",
            f"**{rest.requests_per_quorum_minute:.2f}**",
            f"{rest.status_writes_per_quorum_minute:.2f}",
            f"{rest.node_requests_per_quorum_minute:.1f}",
            f"{rest.memory_mib:.0f}",
            f"{case.memory_peak_mib:.0f}",
            f"{rest.cpu_cores:.2f}",
            f"{case.formed_s:.0f}",
            f"{case.first_evaluation_of_all_s:.1f}",
            f"{case.lease_gap_max_s:.1f}",
            str(case.false_alarms),
        ]
        lines.append("|" + "|".join(cells) + "|")
    return lines


def loss_table(report: OperatorReport) -> list[str]:
    """From a lost disk to the first action."""
    lines = [
        "|Quorums|Namespaces|One at a time, p50 / p99, ms|At once|p50 / p99, ms|All replaced, s|",
        "|---:" * 6 + "|",
    ]
    for case in report.cases:
        cells = [
            f"{case.quorums:,}",
            f"{case.namespaces:,}",
            _latency(case.single_loss),
            str(case.losses_at_once),
            _latency(case.loss_at_once),
            f"{case.repaired_at_once_s:.0f}",
        ]
        lines.append("|" + "|".join(cells) + "|")
    return lines


def request_table(report: OperatorReport) -> list[str]:
    """By verb and resource, for each case."""
    rows: dict[tuple[str, str], dict[int, float]] = {}
    for number, case in enumerate(report.cases):
        for share in case.rest.by_verb_and_resource:
            by_case = rows.setdefault((share.verb, share.resource), {})
            by_case[number] = share.per_quorum_minute
    titles = [f"{case.quorums:,} in {case.namespaces:,}" for case in report.cases]
    lines = ["|Request|" + "|".join(titles) + "|", "|---|" + "---:|" * len(titles)]
    for (verb, resource), shares in sorted(rows.items(), key=lambda row: -max(row[1].values())):
        cells = [f"{shares[n]:.3f}" if n in shares else "" for n in range(len(titles))]
        lines.append(f"|{verb} {resource}|" + "|".join(cells) + "|")
    return lines


def summary(report: OperatorReport) -> list[str]:
    """What a person reads at the end of a run."""
    return [*goal_table(report), "", *case_table(report), "", *loss_table(report)]


def render(report: OperatorReport | None) -> str:
    """The page; None: no whole run is committed yet."""
    if report is None:
        return "\n".join([HEAD, NO_RUN, "", "## Goals", "", *goal_table(None), "", NEXT])
    machine = report.machine
    return "\n".join(
        [
            HEAD,
            f"- **Machine**: {machine['cores']} cores, {machine['memory']}, {machine['kernel']}",
            (
                f"- **The run**: {report.size}, {report.minutes:.0f} minutes, ended "
                f"{report.made_at} UTC. The API server, etcd, the simulated nodes and the operator "
                "share the cores."
            ),
            "",
            "## Goals",
            "",
            *goal_table(report),
            "",
            "## Cases",
            "",
            "Requests and status writes are per quorum and minute at rest.",
            "",
            *case_table(report),
            "",
            "## From a lost disk to the first action",
            "",
            (
                "From the loss of a disk until a node of the quorum has the first request to "
                "change something. The node starts again at once, on an empty disk."
            ),
            "",
            *loss_table(report),
            "",
            "## Requests at rest",
            "",
            "Per quorum and minute, by verb and resource; quorums in namespaces.",
            "",
            *request_table(report),
            "",
            NEXT,
        ]
    )
