"""A look at what the watches delivered confirms that nothing is to be done, and decides no action."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import KubeUnavailableError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.reconcile import Outcome, Reconciler
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.fleet import NAMESPACE, Fleet, FleetKube

READS = 9
"""What a look reads from the API server."""


class Held:
    held = True


@dataclass
class Counted(FleetKube):
    """The API server, which counts what is read, and notes what is written but statuses."""

    reads: int = 0
    applied: list[Body] = field(default_factory=list[Body])

    async def apply(self, body: Body, subresource: str = "") -> Body:
        if subresource == "status":
            return await super().apply(body, subresource)
        self.applied.append(body)
        return body

    async def patch(self, *given: str, change: Body, **more: Any) -> Body:
        self.applied.append(change)
        return change

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        self.reads += 1
        return await super().get(kind, namespace, name)

    async def list(
        self, kind: str, namespace: str, selector: str = "", *, fields: str = ""
    ) -> list[Body]:
        self.reads += 1
        return await super().list(kind, namespace, selector, fields=fields)


@dataclass
class StaleCache:
    """What the watches delivered before the fleet changed, and what the operator wrote; None: a
    watch is broken."""

    kube: FleetKube | None
    written: list[Body] = field(default_factory=list[Body])

    def reader(self, *_: object) -> FleetKube | None:
        return self.kube

    def wrote(self, body: Body) -> None:
        self.written.append(body)
        if self.kube is not None:
            # Without it, times of conditions would be those of each look.
            self.kube.fleet.report(body["metadata"]["name"], body["status"])


class World:
    """One healthy quorum."""

    def __init__(self, fleet: Fleet, nodes: HttpNodes) -> None:
        self.fleet, self.kube = fleet, Counted(fleet)
        self.old = Fleet(1, fleet.members, copy.deepcopy(fleet.objects))
        self.cache = StaleCache(FleetKube(self.old))
        (self.member,) = fleet.members.values()
        self.reconciler = Reconciler(
            kube=cast("Any", self.kube),
            nodes=nodes,
            lease=cast("Any", Held()),
            settings=Settings(),
            metrics=Metrics(),
            failpoints=Failpoints(),
        )
        self.reconciler.evaluator.cache = cast("Any", self.cache)

    async def look(self, *, changed: bool = False) -> tuple[Outcome, int]:
        """Reconcile; the outcome, and how much was read from the API server."""
        before, owner = self.kube.reads, self.member.owner
        outcome = await self.reconciler.reconcile(NAMESPACE, owner.name, owner.uid, changed=changed)
        return outcome, self.kube.reads - before


@pytest.fixture
async def world() -> Any:
    fleet, nodes = Fleet(1), HttpNodes(5.0)
    async with fleet.serving():
        try:
            yield World(fleet, nodes)
        finally:
            await nodes.close()


async def test_a_quorum_at_rest_is_read_once_and_its_status_written_once(world: World) -> None:
    first, reads = await world.look()
    assert isinstance(first.decision, Done)
    assert reads == READS
    for _ in range(3):
        outcome, reads = await world.look()
        assert isinstance(outcome.decision, Done)
        assert reads == 0
    assert len(world.fleet.statuses[world.member.name]) == 1
    assert len(world.cache.written) == 1


async def test_while_a_watch_is_broken_all_is_read_from_the_api_server(world: World) -> None:
    await world.look()
    world.cache.kube = None
    assert (await world.look())[1] == READS


async def test_a_quorum_is_read_from_the_api_server_now_and_then(world: World) -> None:
    await world.look()
    (memory,) = world.reconciler.memories.values()
    memory.resync_s = 0.0
    assert (await world.look())[1] == READS
    assert (await world.look())[1] == 0


async def test_a_change_is_looked_at_once_and_at_the_api_server(world: World) -> None:
    """Not at the watches first, which would cost the time of a replica that does not answer."""
    await world.look()
    assert (await world.look(changed=True))[1] == READS
    assert (await world.look())[1] == 0


@pytest.mark.without(
    "kraftquorum_operator.evaluation:Evaluator._evaluate_watches",
    "isinstance(evaluation, Evaluation) and _finding_of(evaluation) == before",
    "True",
)
async def test_an_action_is_decided_on_what_the_api_server_answers(world: World) -> None:
    """The cache lacks a Service that is there."""
    await world.look()
    del world.old.objects["Service", world.member.name]
    outcome, reads = await world.look()
    assert world.kube.applied == []
    assert isinstance(outcome.decision, Done)
    assert not outcome.failed
    assert reads == READS


async def test_a_resource_that_the_cache_lacks_is_not_gone(world: World) -> None:
    await world.look()
    del world.old.objects[names.KIND, world.member.name]
    outcome, _ = await world.look()
    assert not outcome.gone


async def test_a_changed_annotation_has_all_read_at_once(world: World) -> None:
    """Also Secrets, which no watch brings."""
    await world.look()
    for fleet in (world.fleet, world.old):
        fleet.objects[names.KIND, world.member.name]["metadata"]["annotations"] = {"look": "now"}
    assert (await world.look())[1] == READS
    assert (await world.look())[1] == 0


@pytest.mark.without(
    "kraftquorum_operator.evaluation:_finding_of",
    "finalizer_change(resource, held=needs_finalizer(resource)) is not None",
    "False",
)
async def test_a_finalizer_is_set_on_what_the_api_server_answers(world: World) -> None:
    """The cache has an older resource, whose claims were to be deleted with it."""
    await world.look()
    older = world.old.objects[names.KIND, world.member.name]
    older["metadata"]["resourceVersion"] = "1"
    older["spec"]["deletion"] = {"claims": "Delete"}
    outcome, reads = await world.look()
    assert world.kube.applied == []
    assert isinstance(outcome.decision, Done)
    assert reads == READS


async def test_a_cache_that_shows_another_state_is_not_believed(world: World) -> None:
    """The cache says that a pod is missing; it is there."""
    await world.look()
    del world.old.objects["Pod", f"{world.member.name}-1"]
    for _ in range(2):
        outcome, reads = await world.look()
        assert isinstance(outcome.decision, Done)
        assert reads == READS
    assert len(world.fleet.statuses[world.member.name]) == 1


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile_on_standby", "memory.distrust()", "pass"
)
async def test_an_operator_that_was_on_standby_reads_all_of_it(world: World) -> None:
    await world.look()
    lease = cast("Any", world.reconciler.lease)
    lease.held = False
    await world.look()
    lease.held = True
    assert (await world.look())[1] == READS


async def test_failures_in_a_row_are_retried_less_and_less_often(world: World) -> None:
    await world.look()
    world.cache.kube = None
    world.kube.fails = KubeUnavailableError(0, "Unreachable", "down")
    pauses = [(await world.look())[0].pause_s for _ in range(6)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    world.kube.fails = None
    await world.look()
    world.kube.fails = KubeUnavailableError(0, "Unreachable", "down")
    assert (await world.look())[0].pause_s == 1.0


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile_in_turn",
    "asked_s = min(asked_s, RETRY_AFTER_MAX_S)",
    "asked_s = 0.0",
)
async def test_the_api_server_is_left_alone_for_as_long_as_it_asks(world: World) -> None:
    world.cache.kube = None
    world.kube.fails = error = KubeUnavailableError(429, "TooManyRequests", "later")
    error.retry_after_s = 17.0
    assert (await world.look())[0].pause_s == 17.0
    error.retry_after_s = 999_999.0
    assert (await world.look())[0].pause_s == 60.0
