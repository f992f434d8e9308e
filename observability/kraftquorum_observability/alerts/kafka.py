"""Whether Apache Kafka's controllers have a leader and may lose one; the operator changes nothing.

Without `KRAFTQUORUM_KAFKA_ADVICE` these have no series. Nothing repairs such a quorum by itself,
so an alert waits only as long as an election or a restart of a controller takes.
"""

from __future__ import annotations

from kraftquorum_observability.labels import BY_KAFKA, ON_KAFKA
from kraftquorum_operator.kafka.advice import Kind

from .alert import IN_CLUSTER, Alert

WHICH = f"Kafka quorum {{{{ $labels.namespace }}}}/{{{{ $labels.kafka_quorum }}}}{IN_CLUSTER}"

WITHOUT_LEADER = "NoLeader|Unreachable"
"""Reasons of `Ready`: the controllers answer and have no leader, or none of them answers."""

NOTHING, DECISION = Kind.NOTHING.name.lower(), Kind.DECISION_NEEDED.name.lower()

KAFKA: tuple[Alert, ...] = (
    Alert(
        "KraftquorumKafkaNoLeader",
        "critical",
        f"""
max {BY_KAFKA} (kraftquorum_kafka_no_advice{{reason=~"{WITHOUT_LEADER}"}}) == 1
""",
        "5m",
        f"{WHICH} has no leader that the operator can reach",
        "No controller of Apache Kafka answers the operator as the leader for five minutes. "
        "Without a leader Kafka changes no metadata: no topic, no partition leader, no broker that "
        "returns.",
    ),
    Alert(
        "KraftquorumKafkaNoVoterToSpare",
        "critical",
        f"""
max {BY_KAFKA} (kraftquorum_kafka_spare_voters) <= 0
unless {ON_KAFKA} (
  max {BY_KAFKA} (kraftquorum_kafka_voters) <= 2
  and
  max {BY_KAFKA} (kraftquorum_kafka_advice{{advice="{NOTHING}"}}) == 1
)
""",
        "5m",
        f"{WHICH} stops at the next lost controller",
        "So many voters are silent or behind that the rest is just a majority, or less. If one "
        "more controller fails, Kafka changes no metadata. The operator repairs nothing: its "
        "advice says what to do.",
    ),
    Alert(
        "KraftquorumKafkaDecisionNeeded",
        "critical",
        f"""
max {BY_KAFKA} (kraftquorum_kafka_advice{{advice="{DECISION}"}}) == 1
""",
        "1m",
        f"{WHICH} has a controller with a wrong or forgotten log",
        "Two live directories have the same node id, or the log of a voter went back. A voter that "
        "has forgotten records can elect a leader without them. A person must decide.",
    ),
    Alert(
        "KraftquorumKafkaActionAdvised",
        "warning",
        f"""
max {BY_KAFKA} (kraftquorum_kafka_advice{{advice!~"{NOTHING}|{DECISION}"}}) == 1
""",
        "15m",
        f"{WHICH} waits for a controller, or for a change of its voters",
        "For a quarter of an hour the operator has advised to start a controller, to change the "
        "voters, or to wait. It does none of this itself: status.advice has the sentence.",
    ),
    Alert(
        "KraftquorumKafkaNoAdvice",
        "warning",
        f"""
max {BY_KAFKA} (kraftquorum_kafka_no_advice{{reason!~"{WITHOUT_LEADER}"}}) == 1
""",
        "15m",
        f"The operator cannot judge {WHICH}",
        "A quarter of an hour without advice: credentials, addresses, the id map or a setting of "
        "Kafka prevent it. The condition Ready says which and why. Nothing is known of the voters.",
    ),
    Alert(
        "KraftquorumKafkaNotChecked",
        "warning",
        f"""
time() - max {BY_KAFKA} (kraftquorum_kafka_last_check_timestamp_seconds) > 300
""",
        "2m",
        f"The operator does not check {WHICH}",
        "The last check of the controllers was {{ $value | humanizeDuration }} ago. The active "
        "operator checks them every half minute, and every two minutes while there is no advice.",
    ),
)
