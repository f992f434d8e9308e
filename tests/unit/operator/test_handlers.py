"""The daemon of one quorum, without kopf."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.handlers import _Handlers
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.plan.decide import decide
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.settings import Settings
from kraftquorum_operator.testing.snapshots import NOW_MS, UID, healthy, spec
from kraftquorum_operator.wakeups import Wakeups


class Kube:
    """The resource is gone, whatever is asked for."""

    async def get(self, *_: object) -> None:
        return None


class Held:
    held = True


async def test_a_quorum_that_went_without_its_finalizer_leaves_no_series_behind() -> None:
    """Somebody took the finalizer off; an alert on a quorum that is gone would never end."""
    metrics = Metrics()
    reconciler = Reconciler(
        kube=cast("KubeClient", Kube()),
        nodes=cast("Any", None),
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=metrics,
        failpoints=Failpoints(),
    )
    seen = replace(healthy(), name="demo", namespace="test")
    metrics.observe(seen, spec(voters=3), decide(spec(voters=3), seen, NOW_MS), 0.0)
    sample = "kraftquorum_voters_wanted", {"namespace": "test", "quorum": "demo"}
    assert metrics.registry.get_sample_value(*sample) == 3
    async with asyncio.timeout(60):
        await _Handlers(reconciler, Wakeups()).keep(
            namespace="test", name="demo", uid=UID, body=cast("Any", {}), stopped=False
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
