"""The operator's metrics; docs/reference/operator-metrics.md is generated from this table."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any, get_args

from prometheus_client import CollectorRegistry

from kraftquorum_operator.judge.copies import copied_voters
from kraftquorum_operator.judge.expiry import ca_expiries, expiries
from kraftquorum_operator.model.observation import Observation, Quorum, ReplicaId
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import Operation
from kraftquorum_operator.plan.actions import Action, Decision, Done, Wait
from kraftquorum_operator.report.conditions import (
    CONDITIONS,
    Context,
    fault_tolerance,
    quorum_lost,
    why_unknown,
)
from kraftquorum_operator.report.operations import operations
from kraftquorum_operator.report.unobserved import KNOWN
from raftnode.api.metric_table import CounterRow, GaugeRow, HistogramRow, InfoRow, MetricTable

QUORUM = ("namespace", "quorum")
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ACTIONS = tuple(kind.__name__ for kind in get_args(Action))
CERTIFICATES = ("node", "operator")
RESULTS = ("action", "wait", "done", "error", "standby")


def _gauge(text: str, *labels: str) -> GaugeRow[Any]:
    """A gauge of each quorum."""
    return GaugeRow(text, labels=(*QUORUM, *labels))


class Metrics(MetricTable[Any]):
    """All metrics of one operator, in a registry of their own."""

    prefix = "kraftquorum_"

    reconciles = CounterRow(
        "Reconciliations of a quorum, by result: action, wait, done, error or standby.",
        labels=(*QUORUM, "result"),
    )
    reconcile_seconds = HistogramRow(
        "Seconds that a reconciliation took, including its action.",
        buckets=SECONDS,
        labels=QUORUM,
    )
    actions = CounterRow(
        "Actions, by name and result: done, refused, unknown or failed.",
        labels=(*QUORUM, "action", "result"),
    )
    blocked = _gauge("1 for the guard that blocks, by its name.", "guard")
    voters_wanted = _gauge("spec.voters.")
    voters = _gauge(
        "Voters in force, by node id and directory id; no series while no leader answers."
    )
    voters_caught_up = _gauge("Voters that are caught up.")
    fault_tolerance = _gauge(
        "Caught-up voters minus the majority of the voter set; below 0 nothing commits. "
        "Also 0 while no leader answers."
    )
    quorum_lost = _gauge("1 while a majority of the voters has lost its storage.")
    voters_on_copied_volumes = _gauge(
        "Voters that answer from a volume that was restored from a copy."
    )
    leader_epoch = _gauge("Epoch of the confirmed leader.")
    last_reconcile_timestamp_seconds = _gauge("When the operator last reconciled the quorum.")
    condition = _gauge(
        "1 for a condition of the resource that is True, 0 if it is False; no series if it is "
        "Unknown.",
        "condition",
    )
    operations = _gauge("Operations in progress, by kind and current step.", "operation", "step")
    voters_unlike_spec = _gauge(
        "Voters that are missing, not wanted, or have a node id that another voter has too."
    )
    replacements_open = _gauge(
        "Node ids with two voters: the new replica is a voter, the old one is not removed yet."
    )
    voters_storage_gone = _gauge(
        "Voters whose storage is known to be lost; silent voters are not counted."
    )
    pods_storage_failing = _gauge(
        "Pods whose node exited with an exit code that concerns its disk, not ready since."
    )
    certificate_expiry_timestamp_seconds = _gauge(
        "When the first certificate of a kind expires: node or operator. No series without TLS.",
        "certificate",
    )
    ca_expiry_timestamp_seconds = _gauge(
        "When a CA that the nodes trust expires; `ca` has the first 16 digits of its SHA-256 "
        "fingerprint. No series without TLS.",
        "ca",
    )
    api_requests = CounterRow(
        "Requests to the API server (by verb and class of status) and to nodes (by request and "
        "result).",
        labels=("server", "request", "result"),
    )
    api_request_seconds = HistogramRow(
        "Seconds from a request to its answer or failure.",
        buckets=SECONDS,
        labels=("server", "request"),
    )
    operator = InfoRow[Any]("This operator: version.", labels=("version",))
    operator_active = GaugeRow[Any]("1 while this operator holds the Lease.")
    operator_reconcile_idle_seconds = GaugeRow[Any](
        "Pause in seconds between two reconciliations of a quorum with nothing left to do."
    )

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)
        self.operator.info({"version": version})
        self._guards: dict[tuple[str, str], str] = {}
        self._steps: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._cas: dict[tuple[str, str], frozenset[str]] = {}
        self._in_progress: dict[tuple[str, str], list[Operation]] = {}
        self._begun: set[tuple[str, str]] = set()

    def observe(
        self, observation: Observation, spec: QuorumSpec, decision: Decision, now_s: float
    ) -> None:
        """Show one observation and the decision on it."""
        key = (observation.namespace, observation.name)
        quorum, wanted = observation.quorum, spec.voters
        if key not in self._begun:
            self._begin(key)
        self.last_reconcile_timestamp_seconds.labels(*key).set(now_s)
        self.voters_wanted.labels(*key).set(wanted)
        self._observe_voters(key, quorum)
        self.fault_tolerance.labels(*key).set(fault_tolerance(observation))
        self.voters_on_copied_volumes.labels(*key).set(len(copied_voters(observation)))
        if quorum is not None:
            self.leader_epoch.labels(*key).set(quorum.epoch)
        guard = decision.guard if isinstance(decision, Wait) else None
        self.quorum_lost.labels(*key).set(quorum_lost(observation, decision) is not None)
        before = self._guards.pop(key, None)
        if before is not None and before != guard:
            self.blocked.remove(*key, before)
        if guard is not None:
            self._guards[key] = guard
            self.blocked.labels(*key, guard).set(1)
        context = Context(observation, wanted, decision, spec.storage.size)
        for name, judge in CONDITIONS.items():
            holds = judge(context)[0]
            if why_unknown(name, observation, holds=holds) is None:
                self.condition.labels(*key, name).set(holds)
            else:
                self.condition.remove(*key, name)
        self._observe_storage(key, observation, wanted)
        self._observe_certificates(key, observation)
        self._observe_operations(key, spec, observation)
        result = "wait" if guard else "done" if isinstance(decision, Done) else "action"
        self.reconciles.labels(*key, result).inc()

    def request(self, server: str, request: str, result: str, seconds: float) -> None:
        """Count one request to the API server or to a node."""
        self.api_requests.labels(server, request, result).inc()
        self.api_request_seconds.labels(server, request).observe(seconds)

    def _begin(self, key: tuple[str, str]) -> None:
        """Show counters at 0: a rate ignores the first value of a series."""
        self._begun.add(key)
        for result in RESULTS:
            self.reconciles.labels(*key, result)
        for action in ACTIONS:
            self.actions.labels(*key, action, "done")

    def _observe_voters(self, key: tuple[str, str], quorum: Quorum | None) -> None:
        """Show no series without a leader's answer: 0 would be a number."""
        if quorum is None:
            labels = {"namespace": key[0], "quorum": key[1]}
            self.voters.remove_by_labels(labels)
            self.voters_caught_up.remove_by_labels(labels)
            return
        self.voters.labels(*key).set(len(quorum.voters))
        self.voters_caught_up.labels(*key).set(sum(voter.fresh for voter in quorum.voters))

    def _observe_storage(self, key: tuple[str, str], observation: Observation, wanted: int) -> None:
        voters = observation.quorum.replicas if observation.quorum else observation.known_voters()
        ids = Tally(replica.node_id for replica in voters)
        missing = set(range(wanted)) - set(ids)
        extra = sum(count - (node_id < wanted) for node_id, count in ids.items())
        self.voters_unlike_spec.labels(*key).set(len(missing) + extra)
        self.replacements_open.labels(*key).set(sum(count > 1 for count in ids.values()))
        gone = sum(
            observation.is_storage_gone(voter) or _has_successor(observation, voter)
            for voter in voters
        )
        self.voters_storage_gone.labels(*key).set(gone)
        failing = sum(
            observation.engine.storage_exit(pod.exit_code) is not None and not pod.ready
            for pod in observation.pods
        )
        self.pods_storage_failing.labels(*key).set(failing)

    def _observe_certificates(self, key: tuple[str, str], observation: Observation) -> None:
        times = expiries(observation)
        for kind in CERTIFICATES:
            if kind in times:
                self.certificate_expiry_timestamp_seconds.labels(*key, kind).set(times[kind])
            else:
                self.certificate_expiry_timestamp_seconds.remove(*key, kind)
        trusted, shown = ca_expiries(observation), self._cas.get(key, frozenset())
        for ca, end_s in trusted.items():
            self.ca_expiry_timestamp_seconds.labels(*key, ca).set(end_s)
        for gone in shown - trusted.keys():
            self.ca_expiry_timestamp_seconds.remove(*key, gone)
        self._cas[key] = frozenset(trusted)

    def _observe_operations(
        self, key: tuple[str, str], spec: QuorumSpec, observation: Observation
    ) -> None:
        in_progress = operations(spec, observation, self._in_progress.get(key, ()), "")
        self._in_progress[key] = in_progress
        steps = Tally((operation.kind, operation.step) for operation in in_progress)
        for gone in self._steps.get(key, set()) - set(steps):
            self.operations.remove(*key, *gone)
        self._steps[key] = set(steps)
        for step, count in steps.items():
            self.operations.labels(*key, *step).set(count)

    def forget(self, namespace: str, quorum: str) -> None:
        """Remove all series of a deleted quorum, so that the number of series stays bounded."""
        key = (namespace, quorum)
        self._begun.discard(key)
        labels = {"namespace": namespace, "quorum": quorum}
        for metric in (self.reconciles, self.reconcile_seconds, self.actions):
            metric.remove_by_labels(labels)
        self._hide(key)

    def show_standby(self, namespace: str, quorum: str) -> None:
        """Count a reconciliation on standby, and drop the series of the quorum.

        What this operator last observed while it had the Lease is out of date.
        """
        self.reconciles.labels(namespace, quorum, "standby").inc()
        self._hide((namespace, quorum))

    def show_unobserved(self, namespace: str, quorum: str) -> None:
        """Show of a quorum that cannot be observed only the condition that reports this.

        Series behind alerts stay: a loss does not end because it cannot be observed.
        """
        labels = {"namespace": namespace, "quorum": quorum}
        for name in CONDITIONS:
            if name not in KNOWN:
                self.condition.remove_by_labels(labels | {"condition": name})
        for metric in (self.voters, self.voters_caught_up, self.leader_epoch):
            metric.remove_by_labels(labels)
        self.condition.labels(namespace, quorum, "Failing").set(1)

    def _hide(self, key: tuple[str, str]) -> None:
        self._guards.pop(key, None)
        self._steps.pop(key, None)
        self._cas.pop(key, None)
        self._in_progress.pop(key, None)
        labels = {"namespace": key[0], "quorum": key[1]}
        for row in self.rows():
            if isinstance(row, GaugeRow) and row.labels[:2] == QUORUM:
                self.metrics[row.name].remove_by_labels(labels)


def _has_successor(observation: Observation, voter: ReplicaId) -> bool:
    """Whether the leader knows a replica of a silent voter's node id with another directory id.

    While that replica restarts for the probe, no replica of the node id answers, and the old
    storage is still lost.
    """
    quorum = observation.quorum
    if quorum is None or any(progress.fresh for progress in quorum.voters_of(voter.node_id)):
        return False
    return any(
        observer.replica.node_id == voter.node_id and observer.replica != voter
        for observer in quorum.observers
    )
