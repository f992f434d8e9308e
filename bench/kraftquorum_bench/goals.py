"""The goals, and whether a report meets them; explanations.toml says why one is not met."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kraftquorum_bench.report import Report

EXPLANATIONS = Path(__file__).with_name("explanations.toml")
Verdict = Literal["met", "not met", "not measured"]
Measure = Callable[[Report], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure of the report.

    Attributes:
        name: the key of its explanation.
        title: what is bounded, for people.
        measure: the figure in a report; None: not measured.
        bound: what it must reach.
        at_most: whether the bound is the highest or the lowest that is allowed.
        unit: printed after figures; empty for ratios, which get a ×.
        stretch: what would be better still.
    """

    name: str
    title: str
    measure: Measure
    bound: float
    at_most: bool
    unit: str = ""
    stretch: float | None = None

    def verdict(self, report: Report | None) -> Verdict:
        """Whether a report meets it."""
        value = self.value(report)
        if value is None:
            return "not measured"
        return (
            "met" if (value <= self.bound if self.at_most else value >= self.bound) else "not met"
        )

    def value(self, report: Report | None) -> float | None:
        """The figure in a report."""
        return None if report is None else self.measure(report)


def _ratio(workload: str) -> Measure:
    def measure(report: Report) -> float | None:
        result = report.workloads.get(workload)
        return None if result is None else result.ratio

    return measure


def _ours(workload: str, figure: str | None = None) -> Measure:
    def measure(report: Report) -> float | None:
        result = report.workloads.get(workload)
        if result is None:
            return None
        return result.ours if figure is None else result.our_figures.get(figure)

    return measure


def _bulk_to_puts(report: Report) -> float | None:
    bulk = report.workloads.get("bulk_etcd")
    names = [f"put_{clients}" for clients in (64, 512, 2048)]
    puts = [report.workloads[name].peer for name in names if name in report.workloads]
    best = max((rate for rate in puts if rate), default=None)
    return None if bulk is None or best is None else bulk.ours / best


def _flat(larger: Measure, smaller: Measure) -> Measure:
    def measure(report: Report) -> float | None:
        high, low = larger(report), smaller(report)
        return None if high is None or not low else high / low

    return measure


def _per_follower(report: Report) -> float | None:
    """Growth of the leader's cost of a put for each follower from three members to nine."""
    nine, three = (_ours(f"members_{size}", "leader_us")(report) for size in (9, 3))
    return None if nine is None or not three else (nine / three - 1) * 100 / 6


def _throughput_goals() -> list[Goal]:
    rows = [
        ("put_64", "Puts, 64 clients, sessions, to etcd", 2.5, 3.5),
        ("put_512", "Puts, 512 clients, sessions, to etcd", 2.5, 3.5),
        ("put_64_http", "Puts, 64 clients, HTTP, to etcd", 1.2, None),
        ("put_512_http", "Puts, 512 clients, HTTP, to etcd", 1.0, None),
        ("get_64", "Linearizable reads, 64 clients, to etcd", 2.5, None),
        ("get_512", "Linearizable reads, 512 clients, to etcd", 2.0, None),
    ]
    return [
        Goal(name, title, _ratio(name), bound, at_most=False, stretch=stretch)
        for name, title, bound, stretch in rows
    ]


GOALS: Sequence[Goal] = (
    Goal(
        "put_1", "Put, 1 client: median latency to etcd's", _ratio("put_1"), 0.9, True, stretch=0.7
    ),
    Goal("get_1", "Read, 1 client: median latency to etcd's", _ratio("get_1"), 1.0, True),
    *_throughput_goals(),
    Goal("bulk", "Bulk, records of 1 KiB", _ours("bulk_etcd"), 60_000, False, "records/s"),
    Goal("bulk_to_puts", "Bulk, to etcd's best single puts", _bulk_to_puts, 10, False),
    Goal("bulk_to_transactions", "Bulk, to etcd's transactions", _ratio("bulk_etcd"), 3, False),
    Goal("bulk_to_kafka", "Bulk, to Kafka's best settings", _ratio("bulk_kafka_best"), 3, False),
    Goal("leader_64", "Leader, per put, 64 clients", _ours("put_64", "leader_us"), 45, True, "µs"),
    Goal(
        "leader_512", "Leader, per put, 512 clients", _ours("put_512", "leader_us"), 35, True, "µs"
    ),
    Goal("failover", "Failover under load, to etcd's", _ratio("failover"), 0.5, True),
    Goal("wiped", "Wiped disk to full redundancy, to a raw copy", _ratio("wiped"), 1.5, True),
    Goal("restart", "Restart, to etcd's", _ratio("restart"), 1.0, True),
    Goal("memory", "Memory at rest", _ours("memory"), 48, True, "MiB"),
    Goal(
        "log_size",
        "Puts after 1 GiB of log, to puts after 10 MiB",
        _flat(_ours("log_1gb"), _ours("log_10mb")),
        0.9,
        at_most=False,
    ),
    Goal(
        "follower",
        "Leader, per put, for each follower from 3 members to 9",
        _per_follower,
        20,
        True,
        "%",
    ),
)


class ExplanationsError(ValueError):
    """explanations.toml names no goal, or has no text."""


def read_explanations(text: str, goals: Sequence[Goal] = GOALS) -> dict[str, str]:
    """Explanations by the name of their goal.

    Raises:
        ExplanationsError: one has no goal or no text.
    """
    names = {goal.name for goal in goals}
    explanations: dict[str, str] = {}
    for name, entry in tomllib.loads(text).items():
        if name not in names:
            raise ExplanationsError(f"[{name}] is no goal; goals are: {' '.join(sorted(names))}")
        why = " ".join(str(entry.get(key, "")) for key in ("reason", "next")).strip()
        if not why or entry.keys() - {"reason", "next"}:
            raise ExplanationsError(
                f"[{name}] must have `reason`, by profile, and may have `next`, what would help"
            )
        explanations[name] = why
    return explanations


def unexplained(report: Report, explanations: Mapping[str, str]) -> list[str]:
    """Goals that the report does not meet and that have no explanation."""
    return [
        goal.name
        for goal in GOALS
        if goal.verdict(report) == "not met" and goal.name not in explanations
    ]
