"""One reconciliation of one quorum: observe, compare, judge, decide, report, execute.

Does not depend on kopf. The operator logs and counts a failure and tries again in the
next reconciliation, which starts from a new observation; it never resumes one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import cast

import structlog

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.lease import Lease
from kraftquorum_operator.clients.nodes import NodeApi
from kraftquorum_operator.errors import (
    KubeError,
    LeaseLostError,
    NodeError,
    NodeRefusedError,
    RefusedError,
)
from kraftquorum_operator.evaluation import Evaluation, EvaluationMemory, Evaluator
from kraftquorum_operator.execute.run import run
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.judge.access import access_alarms
from kraftquorum_operator.judge.disks import disk_alarms
from kraftquorum_operator.judge.ignored_annotations import ignored_annotations
from kraftquorum_operator.memory.image_turn import ImageTurn
from kraftquorum_operator.memory.long_waits import LongWaits
from kraftquorum_operator.memory.request_failures import Failure, Failures, is_conflict, word
from kraftquorum_operator.memory.status_cache import StatusCache
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.observe.deletion import ObservedDeletion, needs_finalizer
from kraftquorum_operator.observe.read import Observed
from kraftquorum_operator.plan.actions import (
    Action,
    ApplyObjects,
    Decision,
    Done,
    GrowClaim,
    Wait,
    describe,
)
from kraftquorum_operator.plan.decide import reported
from kraftquorum_operator.plan.deletion import delete
from kraftquorum_operator.plan.volume_growth import awaits_only_volumes
from kraftquorum_operator.report.conditions import CONDITIONS
from kraftquorum_operator.report.deletion import deletion_status
from kraftquorum_operator.report.event_poster import EventPoster
from kraftquorum_operator.report.events import Event, EventLog
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status, is_same, resource_status, steady
from kraftquorum_operator.report.unobserved import UNOBSERVED_S, unobserved_status
from kraftquorum_operator.resources.finalizer import finalizer_change
from kraftquorum_operator.schedule.pauses import after_failures_s
from kraftquorum_operator.schedule.replica_watches import ReplicaWatches
from kraftquorum_operator.schedule.turns import Turns
from kraftquorum_operator.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")


RECHECK_S = 60.0
"""On standby: how often each quorum is read, in case its watch missed a change."""


RETRY_AFTER_MAX_S = 60.0
"""The longest pause that the API server may ask for."""


@dataclass(slots=True)
class Memory(EvaluationMemory):
    """State between two reconciliations of a quorum. Losing it costs time or an event only."""

    events: EventLog = field(default_factory=EventLog)
    failures: Failures = field(default_factory=Failures)
    waits: LongWaits = field(default_factory=LongWaits)
    current_action: str | None = None
    written: Body | None = None
    written_at_s: float = field(default_factory=time.monotonic)
    at_rest: bool | None = None
    """Whether nothing was left to do the last time; None: not known yet."""
    failures_in_a_row: int = 0
    """How many reconciliations in a row have failed."""
    last_logged: str = ""
    checked_s: float = field(default_factory=time.monotonic)
    """On standby: when the operator last read the resource, on the monotonic clock."""
    observed_at: str | None = None
    """When the quorum was last observed."""
    observed_s: float = field(default_factory=time.monotonic)
    """The same on the monotonic clock; before that, when this operator started or got the Lease."""
    last_answer_at: str | None = None
    """When a replica last answered."""
    failure_reported_s: float | None = None
    """When the operator last wrote into the status that it cannot observe the quorum."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one reconciliation."""

    decision: Decision | None
    """None: the resource is gone, or this operator is on standby."""
    pause_s: float
    events: tuple[Event, ...] = ()
    gone: bool = False
    failed: bool = False
    pause_min_s: float = 0.0
    """No change ends the pause before: the API server asks for it."""

    @property
    def deleted(self) -> bool:
        """Whether a resource that is being deleted may go."""
        return self.gone or isinstance(self.decision, Done)


@dataclass(slots=True)
class Reconciler:
    """Reconciles quorums, one reconciliation at a time for each."""

    kube: KubeClient
    nodes: NodeApi
    lease: Lease
    settings: Settings
    metrics: Metrics
    failpoints: Failpoints
    statuses: StatusCache[QuorumStatus] = field(default_factory=lambda: StatusCache(QuorumStatus))
    """What the status page shows."""
    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    """By UID of the resource."""
    turns: Turns = field(default_factory=Turns)
    """Limits how many reconciliations run at once."""
    event_poster: EventPoster = field(init=False)
    """Posts the events of reconciliations."""
    image_turn: ImageTurn = field(default_factory=ImageTurn)
    """Which quorum changes to another default image now."""
    replica_watches: ReplicaWatches | None = None
    """Notices a lost replica between two reconciliations; None: only the next one does."""
    evaluator: Evaluator = field(init=False)
    """Evaluates quorums."""

    def __post_init__(self) -> None:
        self.event_poster = EventPoster(self.kube, self.settings.identity)
        self.evaluator = Evaluator(self.kube, self.nodes, self.settings, self.image_turn)

    async def reconcile(
        self, namespace: str, name: str, uid: str, *, changed: bool = False
    ) -> Outcome:
        """Observe a quorum, decide and carry out at most one action.

        A failure is in the outcome; only programming errors raise.

        Args:
            namespace: of the resource.
            name: of the resource.
            uid: of the resource.
            changed: whether a watch or a replica brought a change.
        """
        memory = self.memories.setdefault(uid, Memory())
        if not self.lease.held:
            return await self._reconcile_on_standby(namespace, name, uid, memory)
        if changed:
            memory.finding = None
        urgent = changed or memory.at_rest is False
        async with self.turns.turn(uid, urgent=urgent):
            outcome = await self._reconcile_in_turn(namespace, name, uid, memory)
        memory.at_rest = isinstance(outcome.decision, Done)
        if outcome.gone:
            self.forget(namespace, name, uid)
        return outcome

    async def _reconcile_in_turn(
        self, namespace: str, name: str, uid: str, memory: Memory
    ) -> Outcome:
        started = time.monotonic()
        bound = log.bind(namespace=namespace, quorum=name)
        try:
            outcome = await self._reconcile(namespace, name, uid, memory, bound)
        except (KubeError, NodeError, LeaseLostError, ValueError) as error:
            self.metrics.reconciles.labels(namespace, name, "error").inc()
            bound.warning("reconcile_failed", error=str(error), kind=type(error).__name__)
            events = await self._report_failure(namespace, name, uid, memory, error)
            asked_s = error.retry_after_s if isinstance(error, KubeError) else 0.0
            asked_s = min(asked_s, RETRY_AFTER_MAX_S)
            memory.failures_in_a_row += 1
            busy_s, idle_s = self.settings.reconcile_busy_s, self.settings.reconcile_idle_s
            pause_s = after_failures_s(memory.failures_in_a_row, busy_s, idle_s)
            pause_s = max(pause_s, asked_s)
            outcome = Outcome(None, pause_s, tuple(events), failed=True, pause_min_s=asked_s)
        else:
            memory.failures_in_a_row = 0
        if not outcome.gone:
            seconds = time.monotonic() - started
            self.metrics.reconcile_seconds.labels(namespace, name).observe(seconds)
        return outcome

    async def _reconcile_on_standby(
        self, namespace: str, name: str, uid: str, memory: Memory
    ) -> Outcome:
        """Leave the quorum to the active operator; check every minute that the resource exists.

        A watch that was down while a resource was deleted never reports the deletion.
        """
        self.statuses.released(namespace, name)
        self._stop_watching(namespace, name)
        memory.distrust()
        memory.written = None  # the active operator writes it
        known = self.statuses.quorums.get((namespace, name))
        memory.observed_s = now_s = time.monotonic()
        if known is None or known.uid != uid or now_s - memory.checked_s > RECHECK_S:
            memory.checked_s = now_s
            with suppress(KubeError):
                resource = await self.kube.get(names.KIND, namespace, name)
                if resource is None or resource["metadata"]["uid"] != uid:
                    self.forget(namespace, name, uid)
                    return Outcome(None, 0.0, gone=True)
                self.statuses.reported(resource, time.time())
        self.metrics.show_standby(namespace, name)
        return Outcome(None, min(1.0, self.settings.lease_duration_s / 4))

    async def _report_failure(
        self, namespace: str, name: str, uid: str, memory: Memory, error: Exception
    ) -> list[Event]:
        """Write into the status that the operator cannot observe the quorum, if it can write.

        For an error that a retry may fix, such as an API server that is down, it sends no request
        until the last observation is too old.
        """
        lasting, now_s = isinstance(error, RefusedError | ValueError), time.monotonic()
        if not lasting and now_s - memory.observed_s < UNOBSERVED_S:
            return []
        self.metrics.show_unobserved(namespace, name)
        failure = (word(error), f"the quorum cannot be observed: {error}")
        if lasting:
            memory.failures.failed(*failure)
        elif (
            memory.failure_reported_s is not None
            and now_s - memory.failure_reported_s < UNOBSERVED_S
        ):
            return []
        now_ms, interval_ms = int(now_s * 1000), int(self.settings.event_interval_s * 1000)
        memory.failure_reported_s = now_s
        with suppress(KubeError, ValueError):
            resource = await self.kube.get(names.KIND, namespace, name)
            if resource is None or resource["metadata"]["uid"] != uid:
                return []
            stamp = Stamp(_now(), int(resource["metadata"]["generation"]))
            change = unobserved_status(resource, failure, stamp, memory.observed_at)
            if change is not None:
                memory.written = None
                written = await self.kube.patch(
                    names.KIND, namespace, name, uid=uid, change=change, subresource="status"
                )
                self.evaluator.wrote(written)
        return memory.events.of_failure(None, str(error), now_ms, interval_ms) if lasting else []

    def forget(self, namespace: str, name: str, uid: str) -> None:
        """Forget a deleted resource."""
        self.memories.pop(uid, None)
        self.turns.forget(uid)
        self.image_turn.give_up(uid)
        self._stop_watching(namespace, name)
        self.nodes.secure(f"{namespace}/{name}", {})
        self.metrics.forget(namespace, name)
        self.statuses.forget(namespace, name, uid)

    def _watch_replicas(self, observed: Observed) -> None:
        """Have the replicas that answered report their next change."""
        if self.replica_watches is not None:
            observation = observed.observation
            answering = [
                p for p in observation.pods if p.address and observation.node(p.ordinal) is not None
            ]
            self.replica_watches.keep(
                observation.namespace, observation.name, [pod.api_address for pod in answering]
            )

    def _stop_watching(self, namespace: str, name: str) -> None:
        if self.replica_watches is not None:
            self.replica_watches.drop(namespace, name)

    async def _reconcile(
        self,
        namespace: str,
        name: str,
        uid: str,
        memory: Memory,
        bound: structlog.stdlib.BoundLogger,
    ) -> Outcome:
        now_ms = int(time.monotonic() * 1000)
        evaluation = await self.evaluator.evaluate(namespace, name, uid, memory, now_ms)
        if evaluation is None:
            return Outcome(None, 0.0, gone=True)
        if isinstance(evaluation, ObservedDeletion):
            return await self._continue_deletion(evaluation, memory, now_ms, bound)
        observed, observation, decision = (
            evaluation.observed,
            evaluation.observation,
            evaluation.decision,
        )
        desired = evaluation.desired
        try:
            held = needs_finalizer(observed.resource)
            await self._set_finalizer(observed.owner, observed.resource, held=held)
        except KubeError as error:  # no repair waits for it
            bound.warning("finalizer_write_failed", error=str(error))
        self._watch_replicas(observed)
        memory.observed_at, memory.observed_s = _now(), time.monotonic()
        memory.failure_reported_s = None
        if observed.observation.nodes:
            memory.last_answer_at = memory.observed_at
        if isinstance(decision, Wait | Done):
            memory.failures.clear()
        shown = reported(decision, observed.spec, observation, now_ms)
        observed = replace(observed, observation=memory.failures.mark(observation))
        self.metrics.observe(observed.observation, observed.spec, shown, time.time())
        events = memory.events.of_spec(
            observed.spec, observed.observation.generation, observed.reported_generation
        )
        interval_ms = int(self.settings.event_interval_s * 1000)
        events += memory.events.of(shown, now_ms, interval_ms)
        annotations = cast("dict[str, str]", observed.resource["metadata"].get("annotations") or {})
        troubles = (
            *observation.troubles,
            *disk_alarms(observation),
            *access_alarms(observation),
            *ignored_annotations(observed.spec, annotations, observation.certificates),
        )
        events += memory.events.of_troubles(troubles, now_ms, interval_ms)
        self._log(shown, memory, bound)
        busy_s, idle_s = self.settings.reconcile_busy_s, self.settings.reconcile_idle_s
        guard = shown.guard if isinstance(shown, Wait) else None
        wait_s = memory.waits.next_pause_s(guard, busy_s, idle_s)
        if observed.spec.image_updates == "Automatic" and observation.rolls:
            self.image_turn.rolls(observed.owner)
        match decision:
            case Done(why):
                memory.current_action = None
                image = observed.next_image
                may_change = self.image_turn.rests(observed.owner, wants=image is not None)
                pause_s = 0.0 if may_change else idle_s
                decision = shown = Done(why + self.image_turn.wait_of(observed.owner, image))
            case Wait():
                pause_s = wait_s
                if awaits_only_volumes(decision) and self.image_turn.rests(
                    observed.owner, wants=observed.next_image is not None
                ):
                    pause_s = 0.0
            case _:
                memory.current_action = describe(decision) if shown is decision else None
                pause_s = 0.0
        await self._report(observed, shown, memory)
        if isinstance(decision, Wait | Done):
            return Outcome(decision, pause_s, tuple(events))
        tools = replace(
            self._tools(observed.owner, observed.observation, desired.bodies),
            spec=observed.spec,
            decide_again=partial(self._decide_again, observed.owner, memory),
        )
        failure = await self._act(decision, tools, bound)
        why = "" if failure is None else failure.message
        if failure is None:
            memory.failures.clear()
            memory.refusals.deletion_accepted(decision)
            memory.refusals.counting_accepted(decision)
            memory.refusals.growth_accepted(decision)
        else:
            pause_s = self.settings.reconcile_busy_s
            said = f"{describe(decision)}: {failure.message}"
            passing = failure.conflict
            if not isinstance(decision, GrowClaim):  # its failures are reported by their guards
                memory.failures.failed(failure.reason, said, conflict=failure.conflict)
                passing = memory.failures.passing
            if not passing:
                events += memory.events.of_failure(decision, why, now_ms, interval_ms)
            if isinstance(decision, ApplyObjects):
                memory.refusals.failed(
                    decision.objects, why, observed.observation.generation, now_ms
                )
            generation = observed.observation.generation
            memory.refusals.deletion_failed(decision, failure, generation, now_ms)
            memory.refusals.counting_failed(decision, failure, generation, now_ms)
            memory.refusals.growth_failed(decision, failure, generation, now_ms)
        return Outcome(decision, pause_s, tuple(events), failed=failure is not None)

    async def _decide_again(self, owner: Owner, memory: Memory) -> Decision | None:
        """Observe and decide once more, for an action that nothing else holds back."""
        now_ms = int(time.monotonic() * 1000)
        evaluation = await self.evaluator.evaluate_now(
            owner.namespace, owner.name, owner.uid, memory, now_ms
        )
        if not isinstance(evaluation, Evaluation):
            return None
        if not self.lease.held:
            msg = "the Lease ran out during the second observation"
            raise LeaseLostError(msg)
        return evaluation.decision

    def _log(self, decision: Decision, memory: Memory, bound: structlog.stdlib.BoundLogger) -> None:
        """Log one line per change: a guard that keeps blocking is not logged again."""
        match decision:
            case Wait(guard, why):
                if memory.last_logged != guard:
                    bound.info("guard_blocked", guard=guard, why=why)
                memory.last_logged = guard
            case Done(why):
                if memory.last_logged != "done":
                    bound.info("quorum_reconciled", why=why)
                memory.last_logged = "done"
            case _:
                memory.last_logged = ""

    async def _continue_deletion(
        self,
        observed: ObservedDeletion,
        memory: Memory,
        now_ms: int,
        bound: structlog.stdlib.BoundLogger,
    ) -> Outcome:
        """Continue a deletion by one step, and report it in the status."""
        owner, decision = observed.owner, delete(observed.deletion)
        self._stop_watching(owner.namespace, owner.name)
        interval_ms = int(self.settings.event_interval_s * 1000)
        events = memory.events.of(decision, now_ms, interval_ms)
        self._log(decision, memory, bound)
        if isinstance(decision, Done):
            await self._set_finalizer(owner, observed.resource, held=False)
            await self._report_deletion(observed, decision, None)
            return Outcome(decision, self.settings.reconcile_idle_s, tuple(events))
        observation = Observation(owner.namespace, owner.name, owner.uid)
        failure = await self._act(decision, self._tools(owner, observation, {}), bound)
        await self._report_deletion(observed, decision, failure.message if failure else None)
        if failure is None:
            return Outcome(decision, 0.0, tuple(events))
        if not failure.conflict:
            events += memory.events.of_failure(decision, failure.message, now_ms, interval_ms)
        pause_s = self.settings.reconcile_busy_s
        return Outcome(decision, pause_s, tuple(events), failed=True)

    async def _set_finalizer(self, owner: Owner, resource: Body, *, held: bool) -> None:
        """Set or remove the finalizer, if this operator is still the active one."""
        change = finalizer_change(resource, held=held)
        if change is None:
            return
        if not self.lease.held:
            msg = "the Lease ran out between the observation and the change of the finalizer"
            raise LeaseLostError(msg)
        await self.kube.patch(names.KIND, owner.namespace, owner.name, uid=owner.uid, change=change)

    async def _report_deletion(
        self, observed: ObservedDeletion, decision: Action | Done, failure: str | None
    ) -> None:
        change = deletion_status(observed.resource, decision, failure)
        if change is None:
            return
        owner = observed.owner
        with suppress(KubeError):  # the deletion itself does not wait for it
            await self.kube.patch(
                names.KIND,
                owner.namespace,
                owner.name,
                uid=owner.uid,
                change=change,
                subresource="status",
            )

    def _tools(
        self, owner: Owner, observation: Observation, bodies: Mapping[ObjectRef, Body]
    ) -> Tools:
        return Tools(
            kube=self.kube,
            nodes=self.nodes.of(f"{owner.namespace}/{owner.name}"),
            owner=owner,
            observation=observation,
            bodies=bodies,
            change_timeout_ms=self.settings.change_timeout_ms,
            failpoints=self.failpoints,
        )

    async def _act(
        self, action: Action, tools: Tools, bound: structlog.stdlib.BoundLogger
    ) -> Failure | None:
        """Carry the action out, if this operator is still the active one.

        Returns why it failed.
        """
        name = type(action).__name__
        key = (tools.owner.namespace, tools.owner.name, name)
        if not self.lease.held:
            msg = "the Lease ran out between the observation and the action"
            raise LeaseLostError(msg)
        started = time.monotonic()
        conflict, refused = False, False
        try:
            what = await run(action, tools)
        except NodeRefusedError as error:
            result, what = ("unknown" if error.outcome == "unknown" else "refused"), str(error)
            reason, conflict = word(error), is_conflict(error)
        except NodeError as error:
            result, what = ("unknown" if error.outcome == "unknown" else "failed"), str(error)
            reason = word(error)
        except (KubeError, ValueError) as error:
            # ValueError: an answer or a body that is not what its model says.
            result, what, reason = "failed", str(error), word(error)
            conflict, refused = is_conflict(error), isinstance(error, RefusedError)
        else:
            result, reason = "done", ""
        self.metrics.actions.labels(*key, result).inc()
        seconds = round(time.monotonic() - started, 3)
        write = bound.info if result == "done" or conflict else bound.warning
        write("action_finished", action=name, what=what, result=result, seconds=seconds)
        return None if result == "done" else Failure(reason, what, conflict, refused)

    async def _report(self, observed: Observed, decision: Decision, memory: Memory) -> None:
        """Write the status if it changed; write volatile fields less often."""
        stamp = Stamp(_now(), observed.observation.generation, memory.last_answer_at)
        built = build_status(
            observed.spec,
            observed.observation,
            decision,
            current_action=memory.current_action,
            before=observed.conditions,
            stamp=stamp,
            last=observed.reported,
        )
        self.statuses.observed(observed.owner, observed.spec.voters, built, time.time())
        status = resource_status(built)
        # An operator that has just started goes on from what the last one wrote.
        last = memory.written or cast("Body | None", observed.resource.get("status"))
        if last is not None and is_same(last, status):
            return
        recent = time.monotonic() - memory.written_at_s < self.settings.status_interval_s
        if recent and last is not None and steady(last) == steady(status):
            return
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "namespace": observed.owner.namespace,
                "name": observed.owner.name,
                "uid": observed.owner.uid,
            },
            "status": status,
        }
        try:
            written = await self.kube.apply(body, "status")
            if _has_ended_condition(written, status):
                written = await self.kube.patch(
                    names.KIND,
                    observed.owner.namespace,
                    observed.owner.name,
                    uid=observed.owner.uid,
                    change={"status": {"conditions": status["conditions"]}},
                    subresource="status",
                )
        except KubeError as error:
            log.warning(
                "status_write_failed",
                namespace=observed.owner.namespace,
                quorum=observed.owner.name,
                error=str(error),
            )
            return
        memory.written, memory.written_at_s = status, time.monotonic()
        self.evaluator.wrote(written)


def _has_ended_condition(written: Body, status: Body) -> bool:
    """Whether the resource still has a condition of ours that no longer holds.

    A failed reconciliation writes conditions by a merge patch, which no apply removes.
    """
    kept = cast("Body", written.get("status") or {}).get("conditions", ())
    over = {condition["type"] for condition in kept} - {c["type"] for c in status["conditions"]}
    return not over.isdisjoint(CONDITIONS)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
