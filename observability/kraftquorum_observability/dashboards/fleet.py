"""All quorums, worst first: where to look."""

from __future__ import annotations

from kraftquorum_observability.labels import BY_QUORUM, QUORUM_LABELS

from .parts import (
    ALERTING,
    GREEN,
    LEVELS,
    MANY_QUORUMS,
    NAMED,
    ORANGE,
    QUORUMS,
    RED,
    Dashboard,
    Panel,
    Query,
)

S = QUORUMS
OURS = f'alertname=~"Kraftquorum.*", alertname!~"KraftquorumKafka.*", {S}'
LEVEL = f"quorum:kraftquorum_safety:level{{{S}}}"


def _count(condition: str) -> str:
    """How many quorums are at some levels; 0 and not nothing when there is none."""
    return f"count({LEVEL} {condition}) or vector(0)"


NOW = (
    Panel(
        "figure",
        "Quorums",
        "How many there are. Normal: as many as were made.",
        (Query(f"count({LEVEL})"),),
        width=6,
        height=4,
    ),
    Panel(
        "figure",
        "Without writes",
        "Quorums that are lost or have no leader. Normal: 0.",
        (Query(_count("<= 1")),),
        width=6,
        height=4,
        limits=((None, GREEN), (1, RED)),
    ),
    Panel(
        "figure",
        "One fault from that",
        "Quorums that tolerate no fault though they should. Normal: 0, or minutes during a repair.",
        (Query(_count("== 2")),),
        width=6,
        height=4,
        limits=((None, GREEN), (1, ORANGE)),
    ),
    Panel(
        "figure",
        "Alerts firing",
        "Of kraftquorum. Normal: 0.",
        (
            Query(
                f'count(ALERTS{{{OURS}, alertstate="firing"}}) or vector(0)',
            ),
        ),
        width=6,
        height=4,
        limits=((None, GREEN), (1, RED)),
    ),
    Panel(
        "table",
        "All quorums, worst first",
        "One line each; the quorum's name leads to its dashboard. Normal: all are safe.",
        (
            Query(f"max {BY_QUORUM} ({LEVEL})"),
            Query(f"max {BY_QUORUM} (quorum:raftnode_fault_tolerance:min{{{S}}})"),
            Query(f"max {BY_QUORUM} (kraftquorum_voters{{{S}}})"),
            Query(f"max {BY_QUORUM} (kraftquorum_voters_wanted{{{S}}})"),
            Query(f"max {BY_QUORUM} (quorum:raftnode_follower_lag_records:max{{{S}}})"),
            Query(f"min {BY_QUORUM} (node:raftnode_disk_free:ratio{{{S}}})"),
        ),
        width=24,
        height=8,
        values=LEVELS,
        columns={
            "cluster": "Cluster",
            "namespace": "Namespace",
            "quorum": "Quorum",
            "A": "Safe?",
            "B": "Faults it can take",
            "C": "Voters",
            "D": "Wanted",
            "E": "Worst lag, records",
            "F": "Fullest disk, free share",
        },
        sort="Safe?",
    ),
)

TIME = (
    Panel(
        "lanes",
        "Was it safe?",
        "A lane for each quorum. Normal: green.",
        (Query(LEVEL, NAMED),),
        width=24,
        height=7,
        values=LEVELS,
    ),
    Panel(
        "lanes",
        "Alerts",
        "Pending and firing. Normal: empty.",
        (
            Query(
                f"max by (alertname, {QUORUM_LABELS}) "
                f'((ALERTS{{{OURS}, alertstate="pending"}} == 1) * 0 + 1 '
                f'or (ALERTS{{{OURS}, alertstate="firing"}} == 1) * 0 + 2)',
                f"{{{{alertname}}}} {NAMED}",
            ),
        ),
        width=24,
        height=7,
        values=ALERTING,
    ),
    Panel(
        "lines",
        "Committed records per second",
        "By quorum. Normal: as clients write.",
        (
            Query(
                f"quorum:raftnode_committed_records:rate1m{{{S}}}",
                NAMED,
            ),
        ),
        width=8,
        unit="rec/s",
    ),
    Panel(
        "lines",
        "Commit latency, 99th percentile",
        "By quorum. Normal: about two fsyncs and a round trip.",
        (
            Query(
                f"quorum:raftnode_commit_latency_seconds:p99_5m{{{S}}}",
                NAMED,
            ),
        ),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Fullest disk, free share",
        "By quorum. Normal: above 15 %.",
        (
            Query(
                f"min {BY_QUORUM} (node:raftnode_disk_free:ratio{{{S}}})",
                NAMED,
            ),
        ),
        width=8,
        unit="percentunit",
    ),
)

FLEET = Dashboard(
    "kraftquorum-fleet",
    "kraftquorum / Fleet",
    "All quorums, worst first.",
    MANY_QUORUMS,
    (("Now", NOW), ("Over time", TIME)),
)
