"""What the operator does for all quorums, and how it is itself."""

from __future__ import annotations

from kraftquorum_observability.labels import BY_QUORUM, QUORUM_LABELS
from kraftquorum_operator.report.conditions import CONDITIONS

from .parts import (
    CLUSTERED,
    GREEN,
    MANY_QUORUMS,
    NAMED,
    ORANGE,
    PRESENT,
    QUORUMS,
    RED,
    Annotation,
    Dashboard,
    Means,
    Panel,
    Query,
    operation_lanes,
    quantiles,
)

S = QUORUMS
BAD = "|".join(name for name in CONDITIONS if name not in {"Ready", "Available", "Progressing"})
_SELF = (
    f"on (cluster, instance, job) group_left () (kraftquorum_operator_info{{{CLUSTERED}}} * 0 + 1)"
)

STATE = (
    Panel(
        "figure",
        "Active operators",
        "Operators that hold their Lease. Normal: 1, or one for each set of namespaces that has "
        "operators of its own. At 0 no operator repairs.",
        (Query(f"sum(kraftquorum_operator_active{{{CLUSTERED}}})"),),
        width=4,
        height=5,
        limits=((None, RED), (1, GREEN)),
    ),
    Panel(
        "figure",
        "Quorums",
        "Quorums that are reconciled, and those that are ready. Normal: the same.",
        (
            Query(f"count(kraftquorum_voters_wanted{{{S}}})", "all"),
            Query(f'sum(kraftquorum_condition{{{S}, condition="Ready"}})', "ready"),
        ),
        width=4,
        height=5,
    ),
    Panel(
        "lanes",
        "Is the operator active?",
        "By process. Normal: one lane is active; another on standby is grey.",
        (
            Query(
                f"max by (cluster, instance) (kraftquorum_operator_active{{{CLUSTERED}}})",
                "{{instance}} {{cluster}}",
            ),
        ),
        width=16,
        height=5,
        values={1: Means("active", GREEN), 0: Means("standby", "text")},
    ),
    Panel(
        "lines",
        "Quorums by condition",
        "How many quorums have each condition. Normal: all are Ready and Available; the rest "
        "are 0 but for the minutes of a change.",
        (Query(f"sum by (condition) (kraftquorum_condition{{{S}}})", "{{condition}}"),),
        width=12,
    ),
    Panel(
        "lines",
        "Voters: wanted, in force, caught up",
        "spec.voters, the voters of the leader's set, and how many of them are caught up. Normal: "
        "the same; they differ while the operator changes one at a time.",
        (
            Query(
                f"max {BY_QUORUM} (kraftquorum_voters_wanted{{{S}}})",
                f"wanted, {NAMED}",
            ),
            Query(
                f"max {BY_QUORUM} (kraftquorum_voters{{{S}}})",
                f"in force, {NAMED}",
            ),
            Query(
                f"max {BY_QUORUM} (kraftquorum_voters_caught_up{{{S}}})",
                f"caught up, {NAMED}",
            ),
        ),
        width=12,
    ),
)

WORK = (
    Panel(
        "lanes",
        "Operations under way, by step",
        "A lane for each step. Normal: empty; minutes in a lane, not hours.",
        operation_lanes(S, "{{namespace}}/{{quorum}}, ", " {{cluster}}"),
        width=24,
        height=9,
        values=PRESENT,
    ),
    Panel(
        "lanes",
        "Guards that block",
        "What holds the operator back, by quorum. Normal: empty, or short stretches.",
        (
            Query(
                f"max by ({QUORUM_LABELS}, guard) (kraftquorum_blocked{{{S}}})",
                f"{{{{guard}}}}, {NAMED}",
            ),
        ),
        width=24,
        height=7,
        values={1: Means("", ORANGE)},
    ),
    Panel(
        "bars",
        "Actions",
        "What was done, in a minute. Normal: none while nothing is to be done.",
        (
            Query(
                "sum by (action) "
                f'(increase(kraftquorum_actions_total{{{S}, result="done"}}[1m])) > 0',
                "{{action}}",
            ),
        ),
        width=12,
    ),
    Panel(
        "lines",
        "Conditions that are not well",
        "Quorums with a condition that asks for attention. Normal: 0; Degraded during repairs.",
        (
            Query(
                f'sum by (condition) (kraftquorum_condition{{{S}, condition=~"{BAD}"}})',
                "{{condition}}",
            ),
        ),
        width=12,
    ),
)

CERTIFICATES = (
    Panel(
        "lines",
        "Time until certificates expire",
        "Of the first certificate of each kind, of the nodes and of the operator, and of each CA. "
        "Normal: it rises after two thirds of a lifetime, and no CA is below 0. No series without "
        "TLS.",
        (
            Query(
                f"min by ({QUORUM_LABELS}, certificate) "
                f"(kraftquorum_certificate_expiry_timestamp_seconds{{{S}}}) - time()",
                f"{{{{certificate}}}}, {NAMED}",
            ),
            Query(
                f"min by ({QUORUM_LABELS}, ca) "
                f"(kraftquorum_ca_expiry_timestamp_seconds{{{S}}}) - time()",
                f"CA {{{{ca}}}}, {NAMED}",
            ),
        ),
        width=24,
        unit="s",
    ),
)

RECONCILIATIONS = (
    Panel(
        "lines",
        "Time of a reconciliation",
        "Observe, decide, act. Normal: below a second; an AddVoter waits for its commit.",
        quantiles("kraftquorum_reconcile_seconds", S, "", ""),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Reconciliations per second, by result",
        "Normal: done, one in ten seconds for each quorum; waits are one a second. Errors are 0.",
        (
            Query(
                f"sum by (result) (rate(kraftquorum_reconciles_total{{{S}}}[$__rate_interval]))",
                "{{result}}",
            ),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Since the last reconciliation",
        "Seconds, by quorum. Normal: below eleven.",
        (
            Query(
                f"time() - max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds{{{S}}})",
                NAMED,
            ),
        ),
        width=8,
        unit="s",
    ),
)

REQUESTS = (
    Panel(
        "lines",
        "Requests to the API server",
        "By verb and status. Normal: reads, some PATCH; 409 is a race that is tried again; 403 "
        "and 5xx are faults.",
        (
            Query(
                "sum by (request, result) (rate(kraftquorum_api_requests_total"
                f'{{server="kubernetes", {CLUSTERED}}}[$__rate_interval]))',
                "{{request}} {{result}}",
            ),
        ),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Requests to nodes",
        "By request and result. Normal: done; unreachable while a node is down.",
        (
            Query(
                "sum by (request, result) (rate(kraftquorum_api_requests_total"
                f'{{server="node", {CLUSTERED}}}[$__rate_interval]))',
                "{{request}} {{result}}",
            ),
        ),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Time of requests, 99th percentile",
        "Of both. Normal: below 100 ms; add_voter and remove_voter wait for a commit.",
        (
            Query(
                "histogram_quantile(0.99, sum by (server, request, le) "
                f"(rate(kraftquorum_api_request_seconds_bucket{{{CLUSTERED}}}[$__rate_interval])))",
                "{{server}} {{request}}",
            ),
        ),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Memory of the operator",
        "Resident bytes. Normal: some 150 MB; a steady rise is a leak.",
        (
            Query(
                f"process_resident_memory_bytes{{{CLUSTERED}}} * {_SELF}",
                "{{instance}} {{cluster}}",
            ),
        ),
        width=12,
        unit="bytes",
    ),
    Panel(
        "lines",
        "CPU of the operator",
        "Seconds of CPU in a second. Normal: below 0.1 for a few quorums.",
        (
            Query(
                f"rate(process_cpu_seconds_total{{{CLUSTERED}}}[$__rate_interval]) * {_SELF}",
                "{{instance}} {{cluster}}",
            ),
        ),
        width=12,
    ),
)

OPERATOR = Dashboard(
    "kraftquorum-operator",
    "kraftquorum / Operator",
    "What the operator does, what holds it back, and how it is itself.",
    MANY_QUORUMS,
    (
        ("State", STATE),
        ("Work", WORK),
        ("Certificates", CERTIFICATES),
        ("Reconciliations", RECONCILIATIONS),
        ("Requests and process", REQUESTS),
    ),
    (
        Annotation(
            "Disk lost",
            f"max {BY_QUORUM} (kraftquorum_voters_storage_gone{{{S}}} + "
            f"kraftquorum_pods_storage_failing{{{S}}}) > 0",
            "a disk of {{quorum}} fails or is gone",
            RED,
        ),
    ),
)
