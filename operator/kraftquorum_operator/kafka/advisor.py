"""The running operator's advice about KafkaQuorums: checks each again and again, and reports.

It sends controllers read requests only, and writes a status and events alone. One task begins the
checks that are due, each as a task of its own: a check that hangs ends by its time limit, and
delays neither another check nor a KRaftQuorum.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Self, cast

import structlog

from kraftquorum_operator import names
from kraftquorum_operator.clients.informer import Informer
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.lease import Lease
from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.kafka.advice import Advice
from kraftquorum_operator.kafka.check import Check
from kraftquorum_operator.kafka.judgement import Judgement
from kraftquorum_operator.kafka.metrics import KafkaMetrics
from kraftquorum_operator.kafka.status import Obstacle, events_of, status_of
from kraftquorum_operator.memory.status_cache import StatusCache
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.report.event_poster import EventPoster
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.schedule.pauses import after_failures_s, jittered_s
from kraftquorum_operator.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

TICK_S = 0.5
"""How often the operator begins the checks that are due."""

AT_ONCE = 8
"""The most quick checks at once, and as many slow ones."""

SLOW_S = 3.0
"""A check that takes longer is slow. So is the next check after one that gave no advice."""

PAUSE_MAX_S = 120.0
"""The longest pause after checks that gave no advice."""


@dataclass(slots=True)
class _Known:
    """A resource, and when the operator checks it next. Losing it costs a check only."""

    owner: Owner
    generation: int
    check: Check
    due_s: float
    began_s: float = 0.0
    """When the check that runs began."""
    without_advice: int = 0
    """How many checks in a row gave no advice."""
    task: asyncio.Task[None] | None = None
    released: bool = False
    """Whether its series are hidden, on standby."""

    def is_slow(self, now_s: float) -> bool:
        """Whether its check takes, or is likely to take, a place among the slow ones."""
        is_late = self.task is not None and now_s - self.began_s > SLOW_S
        return is_late or self.without_advice > 0


@dataclass(slots=True)
class Advisor:
    """Checks the controllers of all KafkaQuorums; an async context manager.

    Attributes:
        kube: reads Secrets and pods, and writes status and events.
        watches: for the watches. It needs a connection for each namespace.
        lease: checks and writes are the active operator's.
        settings: have the namespaces and the pause between two checks.
        metrics: of the checks.
        statuses: for the status page.
    """

    kube: KubeClient
    watches: KubeClient
    lease: Lease
    settings: Settings
    metrics: KafkaMetrics
    statuses: StatusCache[KafkaQuorumStatus] = field(
        default_factory=lambda: StatusCache(KafkaQuorumStatus)
    )
    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])
    """By UID."""
    _informers: dict[str | None, Informer] = field(default_factory=dict[str | None, Informer])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _poster: EventPoster = field(init=False)
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def __post_init__(self) -> None:
        self._poster = EventPoster(self.kube, self.settings.identity, names.KAFKA_KIND)
        places: tuple[str | None, ...] = self.settings.namespaces or (None,)
        for namespace in places:
            self._informers[namespace] = Informer(
                self.watches, names.KAFKA_KIND, namespace, self._resource_changed, selector=""
            )

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        for informer in self._informers.values():
            self._tasks.append(self._group.create_task(informer.run(), name="kafka quorums"))
        self._tasks.append(self._group.create_task(self._run(), name="kafka checks"))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        checks = [known.task for known in self._known.values() if known.task is not None]
        for task in (*self._tasks, *checks):
            task.cancel()
        if checks:
            await asyncio.wait(checks)
        # The tasks are at their end, so that an error of the block stays what it is.
        await self._group.__aexit__(None, None, None)
        await self._poster.close()

    async def _run(self) -> None:
        """Begin checks until cancelled; a mistake here ends no other part of the operator."""
        while True:
            try:
                self._begin_due()
            except Exception:
                log.exception("kafka_check_failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._changed.wait()
            self._changed.clear()

    def _begin_due(self) -> None:
        """Begin the checks that are due, the longest due first."""
        now_s = time.monotonic()
        if not self.lease.held:
            for known in self._known.values():
                self._release(known, now_s)
            return
        places = {True: AT_ONCE, False: AT_ONCE}
        for known in self._known.values():
            if known.task is not None:
                places[known.is_slow(now_s)] -= 1
        for known in sorted(self._known.values(), key=lambda known: known.due_s):
            slow = known.is_slow(now_s)
            if known.due_s > now_s or known.task is not None or places[slow] <= 0:
                continue
            places[slow] -= 1
            known.began_s, known.released = now_s, False
            # Not a task group: the end of one check is none of the others'. When kopf is restarted
            # it cancels this task; the check is still due then.
            known.task = asyncio.create_task(  # noqa: TID251
                self._check(known), name=f"kafka check {known.owner.namespace}/{known.owner.name}"
            )
            known.task.add_done_callback(partial(_end, known))

    def _release(self, known: _Known, now_s: float) -> None:
        """Leave a resource to the active operator."""
        known.due_s = now_s
        if not known.released:
            known.released = True
            self.metrics.release(known.owner.namespace, known.owner.name)
            self.statuses.released(known.owner.namespace, known.owner.name)

    async def _check(self, known: _Known) -> None:
        """Check once, report, and say when to check again."""
        owner = known.owner
        bound = log.bind(namespace=owner.namespace, kafka_quorum=owner.name)
        resource = self._resource(owner)
        if resource is None:
            return
        generation = int(resource["metadata"]["generation"])
        gave_advice = False
        try:
            judgement = await known.check.run(owner, resource)
            gave_advice = isinstance(judgement, Judgement) and isinstance(judgement.outcome, Advice)
            if self._is_known(known) and self.lease.held:
                self.metrics.observe(owner.namespace, owner.name, judgement, time.time())
                await self._report(owner, generation, judgement)
        except KubeError as error:
            bound.warning("kafka_check_failed", error=str(error), kind=type(error).__name__)
            self.metrics.failed(owner.namespace, owner.name)
        except Exception:
            log.exception("kafka_check_failed", namespace=owner.namespace, kafka_quorum=owner.name)
            self.metrics.failed(owner.namespace, owner.name)
        known.without_advice = 0 if gave_advice else known.without_advice + 1
        known.due_s = time.monotonic() + self._pause_s(known)

    def _pause_s(self, known: _Known) -> float:
        """The pause before the next check; a check without advice counts as a failure."""
        pause_s = self.settings.kafka_check_interval_s
        if known.without_advice:
            pause_s = after_failures_s(known.without_advice, pause_s, PAUSE_MAX_S)
        return jittered_s(pause_s)

    async def _report(self, owner: Owner, generation: int, judgement: Judgement | Obstacle) -> None:
        """Write the status if it changed, and post what changed as events."""
        resource = self._resource(owner)
        if resource is None:
            return
        before = cast("Body", resource.get("status") or {})
        stamp = Stamp(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), generation)
        status = status_of(judgement, before, stamp)
        self.statuses.observed(owner, 0, KafkaQuorumStatus.model_validate(status), time.time())
        if status == before:
            return
        body: Body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KAFKA_KIND,
            "metadata": {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid},
            "status": status,
        }
        try:
            written = await self.kube.apply(body, "status")
        except KubeError as error:
            log.warning(
                "status_write_failed",
                namespace=owner.namespace,
                kafka_quorum=owner.name,
                error=str(error),
            )
            return
        self._informer(owner.namespace).wrote(written)
        self._poster.post(owner, events_of(before, status))

    def _informer(self, namespace: str) -> Informer:
        return self._informers[namespace if self.settings.namespaces else None]

    def _resource(self, owner: Owner) -> Body | None:
        """The resource as the watch delivered it last; None: it is gone."""
        body = self._informer(owner.namespace).get(owner.namespace, owner.name)
        return body if body is not None and body["metadata"]["uid"] == owner.uid else None

    def _is_known(self, known: _Known) -> bool:
        return self._known.get(known.owner.uid) is known

    def _resource_changed(self, before: Body | None, body: Body) -> None:
        """Begin, hasten or end the checks of a resource."""
        meta = body["metadata"]
        owner = Owner(str(meta["namespace"]), str(meta["name"]), str(meta["uid"]))
        if before is not None and before["metadata"]["uid"] != owner.uid:
            self._forget(str(before["metadata"]["uid"]))
        if self._resource(owner) is None:
            self._forget(owner.uid)
            return
        self.statuses.reported(body, time.time())
        generation, known = int(meta["generation"]), self._known.get(owner.uid)
        if known is None:
            check = Check(self.kube, self.settings.kafka_timeout_s)
            self._known[owner.uid] = _Known(owner, generation, check, time.monotonic())
        elif known.generation != generation:
            known.generation, known.due_s, known.without_advice = generation, time.monotonic(), 0
            if known.task is not None:
                known.task.cancel()
        self._changed.set()

    def _forget(self, uid: str) -> None:
        known = self._known.pop(uid, None)
        if known is not None:
            if known.task is not None:
                known.task.cancel()
            self.metrics.forget(known.owner.namespace, known.owner.name)
            self.statuses.forget(known.owner.namespace, known.owner.name, uid)


def _end(known: _Known, _: asyncio.Task[None]) -> None:
    known.task = None
