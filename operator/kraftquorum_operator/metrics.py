"""The operator's metrics; docs/reference/operator-metrics.md is generated from this table."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kraftquorum_operator.observe.copies import copied_voters
from kraftquorum_operator.observe.snapshot import Snapshot
from kraftquorum_operator.plan.actions import Decision, Done, Wait, beneath
from kraftquorum_operator.report.conditions import QUORUM_LOST, fault_tolerance

QUORUM = ("namespace", "quorum")
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """All metrics of one operator, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.reconciles = Counter(
            "kraftquorum_reconciles_total",
            "Looks at a quorum, by what came of them: action, wait, done, error or standby.",
            (*QUORUM, "result"),
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "kraftquorum_reconcile_seconds",
            "How long one look took, the action included.",
            QUORUM,
            buckets=SECONDS,
            registry=registry,
        )
        self.actions = Counter(
            "kraftquorum_actions_total",
            "Actions, by name and by result: done, refused, unknown or failed.",
            (*QUORUM, "action", "result"),
            registry=registry,
        )
        self.blocked = Gauge(
            "kraftquorum_blocked",
            "1 for the guard that the quorum waits for, by its name.",
            (*QUORUM, "guard"),
            registry=registry,
        )
        self.voters_wanted = Gauge(
            "kraftquorum_voters_wanted", "spec.voters.", QUORUM, registry=registry
        )
        self.voters = Gauge(
            "kraftquorum_voters", "Voters in force, by (id, UUID).", QUORUM, registry=registry
        )
        self.voters_caught_up = Gauge(
            "kraftquorum_voters_caught_up", "Voters that are caught up.", QUORUM, registry=registry
        )
        self.fault_tolerance = Gauge(
            "kraftquorum_fault_tolerance",
            "Caught-up voters minus the majority of the voter set; below 0 nothing commits.",
            QUORUM,
            registry=registry,
        )
        self.quorum_lost = Gauge(
            "kraftquorum_quorum_lost",
            "1 while a majority of the voters has lost its storage.",
            QUORUM,
            registry=registry,
        )
        self.voters_copied = Gauge(
            "kraftquorum_voters_on_copied_volumes",
            "Voters that answer from a volume that was put back from a copy.",
            QUORUM,
            registry=registry,
        )
        self.leader_epoch = Gauge(
            "kraftquorum_leader_epoch", "Epoch of the confirmed leader.", QUORUM, registry=registry
        )
        self.last_reconcile = Gauge(
            "kraftquorum_last_reconcile_timestamp_seconds",
            "When the quorum was last looked at.",
            QUORUM,
            registry=registry,
        )
        self.active = Gauge(
            "kraftquorum_operator_active",
            "1 while this operator holds the Lease.",
            registry=registry,
        )
        self._guards: dict[tuple[str, str], str] = {}

    def observe(self, seen: Snapshot, wanted: int, decision: Decision, now_s: float) -> None:
        """Show one observation and the decision on it."""
        key = (seen.namespace, seen.name)
        quorum = seen.quorum
        self.last_reconcile.labels(*key).set(now_s)
        self.voters_wanted.labels(*key).set(wanted)
        self.voters.labels(*key).set(len(quorum.voters) if quorum else 0)
        fresh = sum(1 for voter in quorum.voters if voter.fresh) if quorum else 0
        self.voters_caught_up.labels(*key).set(fresh)
        self.fault_tolerance.labels(*key).set(fault_tolerance(seen))
        self.voters_copied.labels(*key).set(len(copied_voters(seen)))
        if quorum is not None:
            self.leader_epoch.labels(*key).set(quorum.epoch)
        guard = decision.guard if isinstance(decision, Wait) else None
        truth = beneath(decision)
        lost = isinstance(truth, Wait) and truth.guard in QUORUM_LOST
        self.quorum_lost.labels(*key).set(lost)
        before = self._guards.pop(key, None)
        if before is not None and before != guard:
            self.blocked.remove(*key, before)
        if guard is not None:
            self._guards[key] = guard
            self.blocked.labels(*key, guard).set(1)
        result = "wait" if guard else "done" if isinstance(decision, Done) else "action"
        self.reconciles.labels(*key, result).inc()

    def labels_of(self) -> dict[str, tuple[str, ...]]:
        """The labels of each metric, for the reference page."""
        named: dict[str, tuple[str, ...]] = {
            "kraftquorum_reconciles": (*QUORUM, "result"),
            "kraftquorum_actions": (*QUORUM, "action", "result"),
            "kraftquorum_blocked": (*QUORUM, "guard"),
            "kraftquorum_operator_active": (),
        }
        return named | dict.fromkeys(
            (
                "kraftquorum_reconcile_seconds",
                "kraftquorum_voters_wanted",
                "kraftquorum_voters",
                "kraftquorum_voters_caught_up",
                "kraftquorum_fault_tolerance",
                "kraftquorum_quorum_lost",
                "kraftquorum_voters_on_copied_volumes",
                "kraftquorum_leader_epoch",
                "kraftquorum_last_reconcile_timestamp_seconds",
            ),
            QUORUM,
        )

    def forget(self, namespace: str, quorum: str) -> None:
        """Drop the gauges of a quorum that is gone."""
        key = (namespace, quorum)
        guard = self._guards.pop(key, None)
        if guard is not None:
            self.blocked.remove(*key, guard)
        gauges = (
            self.voters_wanted,
            self.voters,
            self.voters_caught_up,
            self.fault_tolerance,
            self.quorum_lost,
            self.voters_copied,
            self.leader_epoch,
            self.last_reconcile,
        )
        for gauge in gauges:
            gauge.remove_by_labels({"namespace": namespace, "quorum": quorum})
