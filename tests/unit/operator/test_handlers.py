"""The daemon of one quorum, without kopf."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from kopf._cogs.structs.bodies import Body
from kopf._cogs.structs.references import Resource

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.handlers import _Handlers, _need_no_finalizer, register
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.reconcile import Reconciler
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


async def test_a_quorum_that_went_without_its_finalizer_leaves_no_series_behind() -> None:
    """Somebody took the finalizer off; an alert on a quorum that is gone would never end."""
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


@pytest.mark.parametrize(
    ("deletion", "held"),
    [({"claims": "Delete"}, True), ({"claims": "Retain"}, False), ({}, False), ({"x": 1}, False)],
)
def test_the_finalizer_is_set_only_where_claims_are_to_be_deleted(
    deletion: dict[str, Any], held: bool
) -> None:
    """By kopf's own judgement: it asks both of its registries about each resource."""
    registry = kopf.OperatorRegistry()
    register(registry, cast("Any", None), Wakeups())
    body = {"metadata": {"name": "demo"}, "spec": {"deletion": deletion}}
    resource = Resource(
        group=names.GROUP, version=names.VERSION, plural=names.PLURAL, kind=names.KIND
    )
    given = {"body": Body(cast("Any", body)), "resource": resource, "raw_event": None}
    for kind in ("spawning", "changing"):
        cause = SimpleNamespace(**given, kwargs=given, diff=None, old=None, new=None)
        registered = cast("Any", getattr(registry, f"_{kind}"))
        assert registered._handlers
        assert registered.requires_finalizer(cause=cause) is (held and kind == "changing")


def test_kopf_still_has_the_private_names_that_are_used_and_no_option_instead() -> None:
    """Fails with a version of kopf for which `_need_no_finalizer` is to be written again."""
    registry = kopf.OperatorRegistry()

    async def keep(**_: object) -> None: ...

    cast("Any", kopf).daemon(names.GROUP, names.VERSION, names.PLURAL, registry=registry)(keep)
    (daemon,) = cast("Any", registry)._spawning._handlers
    assert daemon.requires_finalizer is True, "kopf sets no finalizer for a daemon any more"
    _need_no_finalizer(registry)
    (daemon,) = cast("Any", registry)._spawning._handlers
    assert daemon.requires_finalizer is False
    options = inspect.signature(cast("Any", kopf).daemon).parameters
    found = {"optional", "requires_finalizer", "finalizer", "no_finalizer"} & set(options)
    assert not found, f"kopf.daemon has a public option by now: {found}"
