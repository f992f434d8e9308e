"""Metrics of the checks of KafkaQuorums; without `KRAFTQUORUM_KAFKA_ADVICE` there are none."""

from __future__ import annotations

from typing import Any

from kraftquorum_operator.kafka.advice import Advice
from kraftquorum_operator.kafka.judgement import Judgement
from kraftquorum_operator.kafka.status import Obstacle, refusal_reason
from raftnode.api.metric_table import CounterRow, GaugeRow, MetricTable

LABELS = ("namespace", "kafka_quorum")
RESULTS = ("advice", "no_advice", "error")


class KafkaMetrics(MetricTable[Any]):
    """One series of each for each KafkaQuorum; of a standby only the counters."""

    prefix = "kraftquorum_kafka_"

    checks = CounterRow(
        "Checks of the controllers, by result: advice, no_advice or error.",
        labels=(*LABELS, "result"),
    )
    last_check_timestamp_seconds = GaugeRow[Any](
        "When the operator last checked the controllers, as Unix time.", labels=LABELS
    )
    confirmed = GaugeRow[Any](
        "1 if a majority of the controllers confirmed the last answer.", labels=LABELS
    )
    voters = GaugeRow[Any]("Voters; no series without a confirmed answer.", labels=LABELS)
    spare_voters = GaugeRow[Any](
        "How many more voters may be lost before the quorum stops, below 0 if it has stopped; no "
        "series without a confirmed answer.",
        labels=LABELS,
    )
    no_advice = GaugeRow[Any](
        "1 for the reason why there is no advice, as the condition Ready has it.",
        labels=(*LABELS, "reason"),
    )
    advice = GaugeRow[Any](
        "1 for what the operator would do, by its name.", labels=(*LABELS, "advice")
    )

    def observe(
        self, namespace: str, name: str, judgement: Judgement | Obstacle, now_s: float
    ) -> None:
        """Show one check."""
        key = (namespace, name)
        self._hide(*key)
        self.last_check_timestamp_seconds.labels(*key).set(now_s)
        outcome = judgement.outcome if isinstance(judgement, Judgement) else None
        confirmed = isinstance(outcome, Advice)
        self.confirmed.labels(*key).set(confirmed)
        self.checks.labels(*key, "advice" if confirmed else "no_advice").inc()
        reason = refusal_reason(judgement)
        if reason is not None:
            self.no_advice.labels(*key, reason).set(1)
        if isinstance(outcome, Advice):
            self.voters.labels(*key).set(len(outcome.voters))
            self.spare_voters.labels(*key).set(outcome.spare)
            self.advice.labels(*key, outcome.kind.name.lower()).set(1)

    def failed(self, namespace: str, name: str) -> None:
        """Count a check that ended with an error; what the last one showed is out of date."""
        self.checks.labels(namespace, name, "error").inc()
        self._hide(namespace, name)

    def release(self, namespace: str, name: str) -> None:
        """Show no state of a resource that another operator checks now."""
        self._hide(namespace, name)
        labels = {"namespace": namespace, "kafka_quorum": name}
        self.last_check_timestamp_seconds.remove_by_labels(labels)

    def forget(self, namespace: str, name: str) -> None:
        """Remove all series of a deleted resource."""
        self.release(namespace, name)
        self.checks.remove_by_labels({"namespace": namespace, "kafka_quorum": name})

    def _hide(self, namespace: str, name: str) -> None:
        labels = {"namespace": namespace, "kafka_quorum": name}
        gauges = (self.confirmed, self.voters, self.spare_voters, self.advice, self.no_advice)
        for metric in gauges:
            metric.remove_by_labels(labels)
