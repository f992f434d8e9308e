"""A loss or a change at a replica has its quorum looked at at once, over real HTTP connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.handlers import _Handlers
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.schedule import replica_watches as module
from kraftquorum_operator.schedule.replica_watches import ReplicaWatches
from kraftquorum_operator.schedule.wake_ups import Wakeups
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.fleet import NAMESPACE, Fleet, Member


class Held:
    held = True


class Watch:
    """One healthy quorum, looked at by its daemon, which then pauses for an hour."""

    def __init__(self, fleet: Fleet, reconciler: Reconciler, wakeups: Wakeups) -> None:
        self.fleet, self.reconciler, self.wakeups = fleet, reconciler, wakeups
        self.member: Member = fleet.members["q0"]
        self.stopped = False

    async def run(self) -> None:
        class Stopped:
            def __bool__(inner) -> bool:  # noqa: N805
                return self.stopped

        await _Handlers(self.reconciler, self.wakeups).reconcile_until_stopped(
            namespace=NAMESPACE,
            name="q0",
            uid=self.member.owner.uid,
            stopped=Stopped(),
        )

    async def reported(self, count: int) -> dict[str, Any]:
        """The last status, once so many were written."""
        while len(self.fleet.statuses.get("q0", [])) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return self.fleet.statuses["q0"][-1]


@pytest.fixture
async def watch(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Watch]:
    monkeypatch.setattr(module, "REST_S", 0.05)
    fleet, nodes, wakeups = Fleet(1), HttpNodes(60.0), Wakeups()
    reconciler = Reconciler(
        kube=fleet.kube,
        nodes=nodes,
        lease=cast("Any", Held()),
        settings=Settings(reconcile_idle_s=3600, status_interval_s=0),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )
    async with asyncio.timeout(120), fleet.serving():
        async with ReplicaWatches(nodes, wakeups.wake) as watches, asyncio.TaskGroup() as group:
            reconciler.replica_watches = watches
            found = Watch(fleet, reconciler, wakeups)
            group.create_task(found.run())
            assert (await found.reported(1))["epoch"] == 7
            await found.member.in_contact.wait()
            yield found
            found.stopped = True
            wakeups.wake(NAMESPACE, "q0")
        await nodes.close()


async def test_a_lost_connection_to_a_replica_is_a_look_at_once(watch: Watch) -> None:
    watch.member.epoch = 8
    for transport in tuple(watch.member.contacts):
        transport.abort()
    assert (await watch.reported(2))["epoch"] == 8


async def test_a_change_that_a_replica_tells_of_is_a_look_at_once(watch: Watch) -> None:
    watch.member.epoch = 8
    watch.member.changes.set()
    assert (await watch.reported(2))["epoch"] == 8


async def test_no_contact_is_kept_with_a_quorum_on_standby_or_gone(watch: Watch) -> None:
    watches = watch.reconciler.replica_watches
    assert watches is not None
    watch.reconciler.lease = cast("Any", type("Lost", (), {"held": False})())
    watch.wakeups.wake(NAMESPACE, "q0")
    while watch.member.contacts:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert not watches._tasks


async def test_a_replica_that_does_not_know_the_request_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own version is older than the operator's; the looks go on as before."""
    monkeypatch.setattr(module, "REST_S", 0.001)
    fleet, nodes, woken = Fleet(1), HttpNodes(60.0), list[tuple[str, str]]()
    asked = asyncio.Event()

    async def state(*_: object) -> str:
        asked.set()
        msg = "HTTP 404"
        raise ValueError(msg)

    monkeypatch.setattr(HttpNodes, "state", state)
    async with (
        asyncio.timeout(60),
        ReplicaWatches(nodes, lambda *quorum: woken.append(quorum)) as watches,
    ):
        address = f"{fleet.members['q0'].address(0)}:{names.API_PORT}"
        watches.keep(NAMESPACE, "q0", [address])
        await asked.wait()
        while address not in watches._unable:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        asked.clear()
        watches.keep(NAMESPACE, "q0", [address])
        await asyncio.sleep(0.05)
        assert not asked.is_set()
        assert not watches._tasks
    assert not woken
