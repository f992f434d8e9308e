"""Advice about Apache Kafka's controllers: which quorum needs a person, and since when."""

from __future__ import annotations

from kraftquorum_observability.labels import BY_KAFKA, KAFKA_LABELS

from .parts import (
    ALERTING,
    BLUE,
    CLUSTERED,
    GREEN,
    KAFKA_QUORUMS,
    ORANGE,
    RED,
    Dashboard,
    Means,
    Panel,
    Query,
)

S = f'{CLUSTERED}, namespace=~"$namespace", kafka_quorum=~"$kafka"'
NAMED = "{{namespace}}/{{kafka_quorum}} {{cluster}}"
ALERTS = f'ALERTS{{alertname=~"KraftquorumKafka.*", {S}'

NOW = (
    Panel(
        "figure",
        "Kafka quorums",
        "KafkaQuorums that an active operator checks. Normal: as many as were created.",
        (Query(f"count(max {BY_KAFKA} (kraftquorum_kafka_confirmed{{{S}}}))"),),
        width=6,
        height=4,
    ),
    Panel(
        "figure",
        "Without advice",
        "No majority confirmed the last answer, or a setting prevents the advice. Normal: 0.",
        (Query(f"count(max {BY_KAFKA} (kraftquorum_kafka_confirmed{{{S}}}) == 0) or vector(0)"),),
        width=6,
        height=4,
        limits=((None, GREEN), (1, RED)),
    ),
    Panel(
        "figure",
        "No voter to spare",
        "The next lost controller stops changes of metadata. Normal: 0; a quorum of one or two "
        "controllers always counts.",
        (
            Query(
                f"count(max {BY_KAFKA} (kraftquorum_kafka_spare_voters{{{S}}}) <= 0) or vector(0)"
            ),
        ),
        width=6,
        height=4,
        limits=((None, GREEN), (1, ORANGE)),
    ),
    Panel(
        "figure",
        "Alerts firing",
        "Of Kafka quorums. Normal: 0.",
        (Query(f'count({ALERTS}, alertstate="firing"}}) or vector(0)'),),
        width=6,
        height=4,
        limits=((None, GREEN), (1, RED)),
    ),
    Panel(
        "table",
        "All Kafka quorums, fewest voters to spare first",
        "One line each. Normal: each is confirmed (1) and has a voter to spare; the last check is "
        "less than a minute ago.",
        (
            Query(f"max {BY_KAFKA} (kraftquorum_kafka_spare_voters{{{S}}})"),
            Query(f"max {BY_KAFKA} (kraftquorum_kafka_voters{{{S}}})"),
            Query(f"max {BY_KAFKA} (kraftquorum_kafka_confirmed{{{S}}})"),
            Query(
                f"time() - max {BY_KAFKA} (kraftquorum_kafka_last_check_timestamp_seconds{{{S}}})"
            ),
        ),
        width=24,
        height=7,
        columns={
            "cluster": "Cluster",
            "namespace": "Namespace",
            "kafka_quorum": "Kafka quorum",
            "A": "Voters to spare",
            "B": "Voters",
            "C": "Confirmed",
            "D": "Last check, seconds ago",
        },
        sort="Voters to spare",
    ),
)

TIME = (
    Panel(
        "lanes",
        "Was the answer confirmed?",
        "A lane for each Kafka quorum. Normal: green, apart from elections.",
        (Query(f"max {BY_KAFKA} (kraftquorum_kafka_confirmed{{{S}}})", NAMED),),
        width=12,
        height=7,
        values={1: Means("confirmed", GREEN), 0: Means("no advice", RED)},
    ),
    Panel(
        "lines",
        "Voters to spare",
        "How many more voters may be lost. Normal: 1 of three, 2 of five.",
        (Query(f"max {BY_KAFKA} (kraftquorum_kafka_spare_voters{{{S}}})", NAMED),),
    ),
    Panel(
        "lanes",
        "What the operator would do",
        "A lane for each advice. Normal: nothing; wait during an election or a restart.",
        (
            Query(
                f"max by ({KAFKA_LABELS}, advice) (kraftquorum_kafka_advice{{{S}}})",
                f"{{{{advice}}}}, {NAMED}",
            ),
        ),
        height=8,
        values={1: Means("", BLUE)},
    ),
    Panel(
        "lanes",
        "Why there is no advice",
        "A lane for each reason of the condition Ready. Normal: empty.",
        (
            Query(
                f"max by ({KAFKA_LABELS}, reason) (kraftquorum_kafka_no_advice{{{S}}})",
                f"{{{{reason}}}}, {NAMED}",
            ),
        ),
        height=8,
        values={1: Means("", ORANGE)},
    ),
    Panel(
        "lanes",
        "Alerts",
        "Pending and firing. Normal: empty.",
        (
            Query(
                f"max by (alertname, {KAFKA_LABELS}) "
                f'(({ALERTS}, alertstate="pending"}} == 1) * 0 + 1 '
                f'or ({ALERTS}, alertstate="firing"}} == 1) * 0 + 2)',
                f"{{{{alertname}}}} {NAMED}",
            ),
        ),
        width=24,
        values=ALERTING,
    ),
)

CHECKS = (
    Panel(
        "lines",
        "Checks per second, by result",
        "Normal: advice, one in half a minute for each Kafka quorum; errors are requests that the "
        "API server did not answer.",
        (
            Query(
                f"sum by (result) (rate(kraftquorum_kafka_checks_total{{{S}}}[$__rate_interval]))",
                "{{result}}",
            ),
        ),
    ),
    Panel(
        "lines",
        "Since the last check",
        "Seconds, by Kafka quorum. Normal: below 40, or two minutes without advice.",
        (
            Query(
                f"time() - max {BY_KAFKA} (kraftquorum_kafka_last_check_timestamp_seconds{{{S}}})",
                NAMED,
            ),
        ),
        unit="s",
    ),
)

KAFKA = Dashboard(
    "kraftquorum-kafka",
    "kraftquorum / Kafka",
    "What the operator knows of the controllers of Apache Kafka that KafkaQuorums name.",
    KAFKA_QUORUMS,
    (("Now", NOW), ("Over time", TIME), ("Checks", CHECKS)),
)
