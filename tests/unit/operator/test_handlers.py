"""The daemon of one quorum, without kopf."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from kopf._cogs.structs.bodies import Body

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.handlers import _Handlers, configure, register
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.reconcile import Outcome, Reconciler
from kraftquorum_operator.schedule.keepers import Keepers
from kraftquorum_operator.schedule.wake_ups import Wakeups
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import NOW_MS, UID, healthy, spec


class Kube:
    """The resource is gone, whatever is asked for."""

    async def get(self, *_: object) -> None:
        return None


class Held:
    held = True


class Holding:
    """A reconciler whose quorums stay; it notes which ones it was asked for first."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.statuses = SimpleNamespace(reported=lambda *_: None)
        self.event_poster = SimpleNamespace(post=lambda *_: None)

    async def reconcile(
        self, _namespace: str, _name: str, uid: str, *, changed: bool = False
    ) -> Outcome:
        del changed
        self.begun.append(uid)
        return Outcome(Done("well"), 600.0)

    async def reached(self, count: int) -> None:
        while len(self.begun) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def resource(uid: str) -> Body:
    meta = {"namespace": "test", "name": "demo", "uid": uid, "generation": 1}
    return Body(cast("Any", {"metadata": meta, "status": {"observedGeneration": 1}}))


async def test_a_quorum_that_went_without_its_finalizer_leaves_no_series_behind() -> None:
    """A person took the finalizer off; an alert on a quorum that is gone would never end."""
    metrics = Metrics()
    reconciler = Reconciler(
        kube=cast("KubeClient", Kube()),
        nodes=HttpNodes(1.0),
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=metrics,
        failpoints=Failpoints(),
    )
    observation = replace(healthy(), name="demo", namespace="test")
    metrics.observe(observation, spec(voters=3), decide(spec(voters=3), observation, NOW_MS), 0.0)
    sample = "kraftquorum_voters_wanted", {"namespace": "test", "quorum": "demo"}
    assert metrics.registry.get_sample_value(*sample) == 3
    async with asyncio.timeout(60):
        await _Handlers(reconciler, Wakeups()).reconcile_until_stopped(
            namespace="test", name="demo", uid=UID, stopped=False
        )
    assert metrics.registry.get_sample_value(*sample) is None
    left = [
        one
        for family in metrics.registry.collect()
        for one in family.samples
        if one.labels.get("quorum") == "demo"
    ]
    assert left == []
    assert not reconciler.memories


def test_kopf_only_watches() -> None:
    """Its other handlers write finalizers, annotations and events, on standby too."""
    registry = kopf.OperatorRegistry()
    register(registry, cast("Any", None), Wakeups())
    kinds = ("spawning", "changing", "watching", "indexing")
    handlers = {kind: cast("Any", getattr(registry, f"_{kind}"))._handlers for kind in kinds}
    assert not handlers["spawning"]
    assert not handlers["changing"]
    assert not handlers["indexing"]
    assert len(handlers["watching"]) == 1
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.persistence.finalizer != names.FINALIZER, "kopf would remove it"
    assert not settings.posting.enabled


async def test_each_resource_has_one_task_until_the_operator_stops() -> None:
    reconciler = Holding()
    handlers = _Handlers(cast("Any", reconciler), Wakeups())
    for uid in ("a", "a", "b"):
        handlers.changed(
            namespace="test", name="demo", uid=uid, body=cast("Any", resource(uid)), type=None
        )
    async with asyncio.timeout(60):
        await reconciler.reached(2)
        await handlers.stop()
    assert sorted(reconciler.begun) == ["a", "b"]
    handlers.changed(
        namespace="test", name="demo", uid="c", body=cast("Any", resource("c")), type="ADDED"
    )
    await asyncio.sleep(0)
    assert sorted(reconciler.begun) == ["a", "b"], "none begins after the stop"


@pytest.mark.without(
    "kraftquorum_operator.handlers:_Handlers._pause",
    "changed and past_s >= outcome.pause_min_s",
    "changed",
)
async def test_a_change_does_not_end_the_pause_that_the_api_server_asks_for() -> None:
    wakeups = Wakeups()
    handlers = _Handlers(cast("Any", Holding()), wakeups)
    at = ("test", "demo")

    async def paused(outcome: Outcome) -> tuple[bool, float]:
        began_s = time.monotonic()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            pause = group.create_task(handlers._pause(*at, outcome, stopped=False))
            await asyncio.sleep(0)
            wakeups.wake(*at)
        return pause.result(), time.monotonic() - began_s

    changed, _ = await paused(Outcome(None, 600.0))
    assert changed
    changed, seconds = await paused(Outcome(None, 600.0, pause_min_s=0.3))
    assert changed
    assert seconds >= 0.3


@pytest.mark.without(
    "kraftquorum_operator.schedule.keepers:Keepers._keep_on", "except Exception:", "except OSError:"
)
async def test_an_error_in_the_program_does_not_end_the_care_for_a_quorum() -> None:
    calls: list[str] = []

    async def keep(namespace: str, name: str, uid: str, stopped: object) -> None:
        assert not stopped
        calls.append(f"{namespace}/{name} {uid}")
        if len(calls) < 3:
            raise KeyError(name)

    keepers = Keepers(keep, retry_s=0.001)
    keepers.begin("test", "demo", "a")
    for _ in range(500):
        if len(calls) < 3:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert calls == ["test/demo a"] * 3, "a quorum that is gone is not asked for again"
    keepers.begin("test", "demo", "a")
    await asyncio.sleep(0.01)
    assert len(calls) == 4, "it is there after all"
    await keepers.stop()


async def test_a_step_that_takes_too_long_is_cancelled_at_the_stop() -> None:
    ended: list[str] = []

    async def keep(*_: object) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.append("cancelled")

    keepers = Keepers(keep, stop_s=0.01)
    keepers.begin("test", "demo", "a")
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await keepers.stop()
    assert ended == ["cancelled"]
