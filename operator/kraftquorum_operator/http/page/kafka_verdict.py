"""What the page says of a KafkaQuorum, in the levels of `verdict`. Pure."""

from __future__ import annotations

from kraftquorum_operator.http.page.verdict import Verdict, ago, may_fail
from kraftquorum_operator.memory.status_cache import CachedStatus
from kraftquorum_operator.model.kafka_status import KafkaAdvice, KafkaQuorumStatus
from kraftquorum_operator.model.observation import majority

KAFKA_STALE_S = 300.0
"""Checks without advice are two minutes apart, and each may take half a minute."""

NO_LEADER = "kraftquorum-kafka-no-leader"
NO_VOTER_TO_SPARE = "kraftquorum-kafka-no-voter-to-spare"
DECISION_NEEDED = "kraftquorum-kafka-decision-needed"
ACTION_ADVISED = "kraftquorum-kafka-action-advised"
NO_ADVICE = "kraftquorum-kafka-no-advice"
NOT_CHECKED = "kraftquorum-kafka-not-checked"


def judge_kafka(
    entry: CachedStatus[KafkaQuorumStatus], now_s: float, stale_s: float = KAFKA_STALE_S
) -> Verdict:
    """Judge one KafkaQuorum.

    Args:
        entry: the cached status.
        now_s: wall clock.
        stale_s: how old an own check may be.
    """
    status = entry.status
    if status is None:
        return Verdict(
            "unknown", "No operator has checked the controllers of this Kafka yet.", NOT_CHECKED
        )
    age_s = now_s - entry.at_s
    if entry.own and age_s > stale_s:
        return Verdict(
            "unknown",
            f"The operator has not checked this Kafka for {ago(age_s)}; "
            "everything below is that old.",
            NOT_CHECKED,
        )
    if status.advice is None:
        return _without_advice(status)
    return _of_advice(status, status.advice)


def _without_advice(status: KafkaQuorumStatus) -> Verdict:
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    reason = ready.reason if ready else ""
    message = ready.message if ready else "the status has no condition Ready"
    if reason == "NoLeader":
        return Verdict(
            "stopped", f"Kafka changes no metadata without a leader: {message}.", NO_LEADER
        )
    runbook = NO_LEADER if reason == "Unreachable" else NO_ADVICE
    return Verdict("unknown", f"The operator gives no advice: {message}.", runbook)


def _of_advice(status: KafkaQuorumStatus, advice: KafkaAdvice) -> Verdict:
    voters, spare = status.voters or 0, status.spare_voters or 0
    full = voters - majority(voters)
    if advice.kind == "DecisionNeeded":
        return Verdict(
            "blocked",
            "A voter may have forgotten records that it acknowledged. A person must decide; delete "
            "nothing.",
            DECISION_NEEDED,
        )
    if spare == 0 and (full > 0 or advice.kind != "Nothing"):
        return Verdict(
            "at-risk",
            "Changes of metadata work, but one more lost controller would stop them.",
            NO_VOTER_TO_SPARE,
        )
    works = f"Changes of metadata work. {may_fail(spare)}"
    if advice.kind != "Nothing":
        return Verdict("weakened", f"{works} The operator advises what is below.", ACTION_ADVISED)
    return Verdict("safe", works)
